package scriptedmodel

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	bytesPerToken = 4
	argumentPiece = 24 // bytes of arguments in one chunk
)

// writer writes a reply in the protocol.
type writer struct {
	w    http.ResponseWriter
	r    *http.Request
	req  *request
	name string
	id   string // of the answer: the request's digest, so that the same asks get the same
	size int    // of the request
	wait time.Duration
	gone bool // the client
}

func newWriter(w http.ResponseWriter, r *http.Request, name string, raw []byte, req *request) *writer {
	sum := sha256.Sum256(raw)
	return &writer{w: w, r: r, req: req, name: name, id: hex.EncodeToString(sum[:8]), size: len(raw)}
}

func (w *writer) write(rep *Reply) {
	w.wait = time.Duration(rep.ChunkDelay)
	rep = w.cut(rep)
	switch {
	case rep.Error != nil:
		w.writeError(rep.Error)
	case rep.Malformed != "":
		w.writeMalformed(rep)
	case w.req.Stream:
		w.writeStream(w.chunks(rep))
		w.event("[DONE]")
	default:
		writeJSON(w.w, http.StatusOK, w.document(rep))
	}
}

// cut holds the text to the tokens that the request allows.
func (w *writer) cut(rep *Reply) *Reply {
	limit := max(w.req.MaxTokens, w.req.MaxCompletionTokens)
	if limit <= 0 || limit > maxRequestBytes || len(rep.Text) <= limit*bytesPerToken {
		return rep
	}
	out := *rep
	out.Text, out.FinishReason = strings.ToValidUTF8(rep.Text[:limit*bytesPerToken], ""), "length"
	return &out
}

func (w *writer) writeError(e *ReplyError) {
	if e.RetryAfter != "" {
		w.w.Header().Set("Retry-After", e.RetryAfter)
	}
	message := e.Message
	if message == "" {
		message = "A rule answers with this error."
	}
	writeError(w.w, e.Status, e.Code, message)
}

func (w *writer) writeMalformed(rep *Reply) {
	chunks := w.chunks(rep)
	half := chunks[:(w.spokenChunks(chunks)+1)/2]
	switch rep.Malformed {
	case MalformedHTML:
		w.w.Header().Set("Content-Type", "text/html")
		io.WriteString(w.w, "<!DOCTYPE html>\n<html><title>Welcome</title><body>This is not a model.</body></html>\n")
	case MalformedHalfJSON:
		raw := encode(w.document(rep))
		w.w.Header().Set("Content-Type", "application/json")
		w.w.Write(raw[:len(raw)/2])
	case MalformedEmpty:
		w.w.WriteHeader(http.StatusOK)
	case MalformedNoStream:
		writeJSON(w.w, http.StatusOK, w.document(rep))
	case MalformedNoDone:
		w.writeStream(chunks)
	case MalformedErrorEvent:
		w.writeStream(half)
		w.event(string(encode(errorBody("server_error", "The model failed in the middle of its answer."))))
	case MalformedCut:
		w.writeStream(half)
		panic(http.ErrAbortHandler)
	case MalformedHang:
		w.writeStream(half)
		<-w.r.Context().Done()
	}
}

// spokenChunks returns how many chunks come before the finish reason.
func (w *writer) spokenChunks(chunks []completion) int {
	n := len(chunks) - 1
	if w.req.StreamOptions.IncludeUsage {
		n--
	}
	return n
}

// writeStream writes chunks as events.
func (w *writer) writeStream(chunks []completion) {
	w.w.Header().Set("Content-Type", "text/event-stream")
	w.w.Header().Set("Cache-Control", "no-store")
	for _, c := range chunks {
		if w.gone = w.gone || !pause(w.r, w.wait); w.gone {
			return
		}
		w.event(string(encode(c)))
	}
}

func (w *writer) event(data string) {
	if w.gone {
		return
	}
	if _, err := fmt.Fprintf(w.w, "data: %s\n\n", data); err != nil {
		w.gone = true
		return
	}
	http.NewResponseController(w.w).Flush()
}

// The protocol's answers. Fields that are pointers are null when absent.
type (
	completion struct {
		ID                string   `json:"id"`
		Object            string   `json:"object"`
		Created           int64    `json:"created"` // 0: the same request gets the same answer
		Model             string   `json:"model"`
		SystemFingerprint string   `json:"system_fingerprint"`
		Choices           []choice `json:"choices"`
		Usage             *usage   `json:"usage,omitempty"`
	}
	choice struct {
		Index        int     `json:"index"`
		Delta        *spoken `json:"delta,omitempty"`
		Message      *spoken `json:"message,omitempty"`
		FinishReason *string `json:"finish_reason"`
	}
	spoken struct {
		Role      string   `json:"role,omitempty"`
		Content   *string  `json:"content,omitempty"`
		Reasoning string   `json:"reasoning_content,omitempty"`
		ToolCalls []toCall `json:"tool_calls,omitempty"`
	}
	toCall struct {
		Index    *int     `json:"index,omitempty"`
		ID       string   `json:"id,omitempty"`
		Type     string   `json:"type,omitempty"`
		Function toCallFn `json:"function"`
	}
	toCallFn struct {
		Name      string `json:"name,omitempty"`
		Arguments string `json:"arguments"`
	}
	usage struct {
		PromptTokens     int `json:"prompt_tokens"`
		CompletionTokens int `json:"completion_tokens"`
		TotalTokens      int `json:"total_tokens"`
	}
)

func (w *writer) completion(object string, choices ...choice) completion {
	return completion{
		ID: "chatcmpl-" + w.id, Object: object, Model: w.name, SystemFingerprint: Fingerprint,
		Choices: append([]choice{}, choices...),
	}
}

func (w *writer) document(rep *Reply) completion {
	said := &spoken{Role: "assistant", Content: &rep.Text, Reasoning: rep.Reasoning}
	for i, c := range rep.Calls {
		said.ToolCalls = append(said.ToolCalls, toCall{ID: w.callID(i), Type: "function", Function: toCallFn{c.Name, string(c.Arguments)}})
	}
	reason := rep.finish()
	doc := w.completion("chat.completion", choice{Message: said, FinishReason: &reason})
	doc.Usage = w.usage(rep)
	return doc
}

func (w *writer) callID(i int) string { return fmt.Sprintf("call_%s_%d", w.id, i) }

func (r *Reply) finish() string {
	switch {
	case r.FinishReason != "":
		return r.FinishReason
	case len(r.Calls) > 0:
		return "tool_calls"
	}
	return "stop"
}

// usage counts four bytes a token where the rule does not say.
func (w *writer) usage(rep *Reply) *usage {
	u := &usage{PromptTokens: tokens(w.size), CompletionTokens: tokens(rep.size())}
	if rep.Usage != nil {
		u.PromptTokens, u.CompletionTokens = rep.Usage.InputTokens, rep.Usage.OutputTokens
	}
	u.TotalTokens = u.PromptTokens + u.CompletionTokens
	return u
}

func tokens(bytes int) int { return (bytes + bytesPerToken - 1) / bytesPerToken }

func (r *Reply) size() int {
	n := len(r.Text) + len(r.Reasoning)
	for _, c := range r.Calls {
		n += len(c.Name) + len(c.Arguments)
	}
	return n
}

// chunks returns the stream's chunks: the role, reasoning, words, calls in
// pieces, the finish reason, and usage if it was asked for.
func (w *writer) chunks(rep *Reply) []completion {
	var out []completion
	add := func(s *spoken) { out = append(out, w.completion("chat.completion.chunk", choice{Delta: s})) }
	empty := ""
	add(&spoken{Role: "assistant", Content: &empty})
	if rep.Reasoning != "" {
		add(&spoken{Reasoning: rep.Reasoning})
	}
	for _, word := range strings.SplitAfter(rep.Text, " ") {
		if word != "" {
			add(&spoken{Content: &word})
		}
	}
	for i, c := range rep.Calls {
		add(&spoken{ToolCalls: []toCall{{Index: &i, ID: w.callID(i), Type: "function", Function: toCallFn{Name: c.Name}}}})
		for _, piece := range pieces(string(c.Arguments), argumentPiece) {
			add(&spoken{ToolCalls: []toCall{{Index: &i, Function: toCallFn{Arguments: piece}}}})
		}
	}
	reason := rep.finish()
	out = append(out, w.completion("chat.completion.chunk", choice{Delta: &spoken{}, FinishReason: &reason}))
	if w.req.StreamOptions.IncludeUsage {
		last := w.completion("chat.completion.chunk")
		last.Usage = w.usage(rep)
		out = append(out, last)
	}
	return out
}

// pieces cuts a text into pieces of about n bytes, between runes.
func pieces(s string, n int) []string {
	var out []string
	for len(s) > n {
		cut := n
		for cut < len(s) && !utf8.RuneStart(s[cut]) {
			cut++
		}
		out, s = append(out, s[:cut]), s[cut:]
	}
	return append(out, s)
}
