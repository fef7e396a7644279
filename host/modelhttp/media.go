package modelhttp

import (
	"encoding/base64"
	"strings"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/llm"
)

// NotShown is the sentence that stands for media which a model is not shown.
func NotShown(m *chat.Media) string { return "[" + m.MediaType + " not shown]" }

// IsRasterImage reports whether media is an image in one of the formats that every
// service with images takes.
func IsRasterImage(m *chat.Media) bool {
	switch m.MediaType {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return true
	}
	return false
}

// IsPDF reports whether media is a PDF document.
func IsPDF(m *chat.Media) bool { return m.MediaType == "application/pdf" }

// MediaURL returns where media is: its data as a URL, or its address if it has none.
func MediaURL(m *chat.Media) string {
	if len(m.Data) == 0 {
		return m.URL
	}
	return "data:" + m.MediaType + ";base64," + base64.StdEncoding.EncodeToString(m.Data)
}

// SplitMedia divides the media of a tool's result into those that a model is shown and
// the sentences for the rest, with a line break before each.
func SplitMedia(r *chat.ToolResult, shows func(*chat.Media) bool) (shown []*chat.Media, rest string) {
	var b strings.Builder
	for _, m := range r.Media {
		if shows(m) {
			shown = append(shown, m)
		} else {
			b.WriteString("\n" + NotShown(m))
		}
	}
	return shown, b.String()
}

// HasToolMedia reports whether a tool's result in a request has media. A service that
// refuses it, because its model sees no images or because an image is damaged, is asked
// again with sentences in its place: the tool's user could not repair it, and each later
// request of the conversation would be refused too.
func HasToolMedia(req *llm.Request) bool {
	for _, msg := range req.Messages {
		if msg.Role != chat.ToolRole {
			continue
		}
		for _, r := range msg.ToolResults() {
			if len(r.Media) > 0 {
				return true
			}
		}
	}
	return false
}

// AboutMedia reports whether the server refused the request because of an image or
// another file in it.
func (f *Fault) AboutMedia() bool {
	return f.Says("image", "media", "multimodal", "multi-modal", "vision", "pdf", "document", "inline_data", "inlinedata", "file")
}
