package pdktest

import (
	"unicode/utf16"

	"github.com/agenthost/agenthost/pdk/go/pdk"
)

var letters = map[string]byte{
	pdk.RoleSystem:    pdk.RoleLetterSystem,
	pdk.RoleUser:      pdk.RoleLetterUser,
	pdk.RoleAssistant: pdk.RoleLetterAssistant,
	pdk.RoleTool:      pdk.RoleLetterTool,
}

// NewOutline returns the outline of messages as a host makes it. count counts
// the tokens of a text; nil leaves the outline without tokens.
func NewOutline(messages []pdk.Message, count func(text string) int) *pdk.Outline {
	o := &pdk.Outline{}
	roles := make([]byte, len(messages))
	for i := range messages {
		m := &messages[i]
		roles[i] = letters[m.Role]
		text := CountedText(m)
		o.Bytes = append(o.Bytes, len(text))
		o.Chars = append(o.Chars, len(utf16.Encode([]rune(text))))
		o.Parts = append(o.Parts, len(m.Parts))
		if count != nil {
			o.Encoding = "o200k_base"
			o.Tokens = append(o.Tokens, count(text))
		}
		for j := range m.Parts {
			p := &m.Parts[j]
			if p.Type == pdk.PartToolCall || p.Type == pdk.PartToolResult {
				o.Tools = append(o.Tools, pdk.OutlineTool{
					Message: i, Part: j, Result: p.Type == pdk.PartToolResult, ID: p.ID, Name: p.Name})
			}
		}
	}
	o.Roles = string(roles)
	return o
}

// CountedText returns the text of m that sizes and tokens are counted of.
func CountedText(m *pdk.Message) string {
	text := ""
	for i := range m.Parts {
		switch p := &m.Parts[i]; p.Type {
		case pdk.PartText:
			text += p.Text
		case pdk.PartToolCall:
			text += string(p.Raw())
		case pdk.PartToolResult:
			if content, ok := p.Content.Str(); ok {
				text += content
			} else {
				text += string(p.Content)
			}
		case pdk.PartData:
			text += string(p.Value)
		}
	}
	return text
}

// EncodeOutline returns an outline as the JSON that a processor is given.
func EncodeOutline(o *pdk.Outline) pdk.Raw {
	var w pdk.Writer
	w.BeginObject().Key("count").Int(int64(o.Len())).Key("roles").Str(o.Roles)
	column(&w, "bytes", o.Bytes)
	column(&w, "chars", o.Chars)
	if o.Tokens != nil {
		column(&w, "tokens", o.Tokens)
	}
	if o.Encoding != "" {
		w.Key("encoding").Str(o.Encoding)
	}
	column(&w, "parts", o.Parts)
	if o.Keep != nil {
		column(&w, "keep", o.Keep)
	}
	if o.Own > 0 {
		w.Key("own_from").Int(int64(o.Len() - o.Own))
	}
	w.Key("tools").BeginArray()
	for _, t := range o.Tools {
		kind := "call"
		if t.Result {
			kind = "result"
		}
		w.BeginArray().Int(int64(t.Message)).Int(int64(t.Part)).Str(kind).Str(t.ID).Str(t.Name).EndArray()
	}
	return w.EndArray().EndObject().Value()
}

func column(w *pdk.Writer, name string, values []int) {
	w.Key(name).BeginArray()
	for _, v := range values {
		w.Int(int64(v))
	}
	w.EndArray()
}
