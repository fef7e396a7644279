package geminimodel

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/modelhttp"
)

// The bounds of one answer.
const (
	maxAnswerBytes = 16 << 20 // of all chunks together
	maxParts       = 1024

	// maxCandidates are looked at in a chunk: one is asked for.
	maxCandidates = 8
)

// MadeID begins the ids of calls to which the service gave none. It is not sent
// such an id.
const MadeID = "gemini-call-"

// chunk is one event of a stream, or the whole answer of a server that does not
// stream.
type chunk struct {
	Candidates *[maxCandidates]candidate `json:"candidates"` // the rest of the list takes no memory
	Feedback   *feedback                 `json:"promptFeedback"`
	Usage      *usage                    `json:"usageMetadata"`
	Model      string                    `json:"modelVersion"`
	ID         string                    `json:"responseId"`
	Error      json.RawMessage           `json:"error"`
}

type candidate struct {
	Index   int `json:"index"`
	Content struct {
		Parts rawParts `json:"parts"`
	} `json:"content"`
	FinishReason  string `json:"finishReason"`
	FinishMessage string `json:"finishMessage"`
}

// rawParts are the original parts of a content: at most maxParts.
type rawParts []json.RawMessage

// UnmarshalJSON implements json.Unmarshaler.
func (p *rawParts) UnmarshalJSON(b []byte) error {
	return modelhttp.UnmarshalList(b, maxParts, "parts", (*[]json.RawMessage)(p))
}

func errTooManyParts() error {
	return &modelhttp.TooLong{What: fmt.Sprintf("an answer of more than %d parts", maxParts)}
}

// feedback says why a prompt is not answered.
type feedback struct {
	BlockReason string `json:"blockReason"`
}

type usage struct {
	Prompt     int `json:"promptTokenCount"`
	ToolPrompt int `json:"toolUsePromptTokenCount"`
	Cached     int `json:"cachedContentTokenCount"`
	Candidates int `json:"candidatesTokenCount"`
	Thoughts   int `json:"thoughtsTokenCount"`
}

// wirePart is a part of a content. Of a part of a type that is not known, raw is
// kept.
type wirePart struct {
	Text      *string   `json:"text"`
	Thought   bool      `json:"thought"`
	Signature string    `json:"thoughtSignature"`
	Call      *wireCall `json:"functionCall"`
	Inline    *blob     `json:"inlineData"`

	raw json.RawMessage
}

type wireCall struct {
	ID   string          `json:"id"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

type blob struct {
	MediaType string `json:"mimeType"`
	Data      string `json:"data"`
}

// isPlain reports whether a part is text without a signature, which may be joined
// with the text before it.
func (p *wirePart) isPlain() bool {
	return p.Text != nil && p.Call == nil && p.Inline == nil && p.Signature == ""
}

// grown is a part of the answer as it grows: only plain text does.
type grown struct {
	wirePart
	text strings.Builder
}

// answer is the received part of an answer.
type answer struct {
	id, model string
	parts     []*grown
	calls     int
	finish    string
	message   string // the words that came with finish
	blocked   string // why the prompt is not answered
	used      usage
	size      int

	deltas []llm.Chunk // of the last chunk; reused
}

// Complete implements [modelhttp.Answer]: the service has said how the answer ended.
func (a *answer) Complete() bool { return a.finish != "" || a.blocked != "" }

// Over implements [modelhttp.Answer]: the protocol has no end but that of the stream.
func (a *answer) Over() bool { return false }

var errNoAnswer = errors.New("a chunk that says nothing of an answer")

// Add implements [modelhttp.Answer].
func (a *answer) Add(data []byte) ([]llm.Chunk, error) {
	var c chunk
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, err
	}
	a.deltas = a.deltas[:0]
	if a.size += len(data); a.size > maxAnswerBytes {
		return nil, &modelhttp.TooLong{What: fmt.Sprintf("an answer of more than %d bytes", maxAnswerBytes)}
	}
	if len(c.Error) > 0 && string(c.Error) != "null" {
		return nil, modelhttp.ErrorObject(c.Error)
	}
	if c.Candidates == nil && c.Feedback == nil && c.Usage == nil {
		return nil, errNoAnswer
	}
	a.id, a.model = cmp.Or(c.ID, a.id), cmp.Or(c.Model, a.model)
	if c.Usage != nil {
		a.used = *c.Usage
	}
	if c.Feedback != nil {
		a.blocked = cmp.Or(c.Feedback.BlockReason, a.blocked)
	}
	for i := 0; c.Candidates != nil && i < len(c.Candidates); i++ {
		if c.Candidates[i].Index != 0 {
			continue // one was asked for
		}
		if err := a.take(&c.Candidates[i]); err != nil {
			return nil, err
		}
	}
	return a.deltas, nil
}

func (a *answer) take(c *candidate) error {
	for _, raw := range c.Content.Parts {
		p := wirePart{raw: raw}
		if err := json.Unmarshal(raw, &p); err != nil {
			return err
		}
		if string(raw) == "null" {
			continue
		}
		if err := a.addPart(p); err != nil {
			return err
		}
	}
	a.finish, a.message = cmp.Or(c.FinishReason, a.finish), cmp.Or(c.FinishMessage, a.message)
	return nil
}

// addPart joins plain text with the plain text before it and keeps every other
// part by itself: a signature is of its part, and of nothing else.
func (a *answer) addPart(p wirePart) error {
	if p.isPlain() {
		if *p.Text == "" {
			return nil
		}
		a.tellText(&p)
		if n := len(a.parts); n > 0 && a.parts[n-1].isPlain() && a.parts[n-1].Thought == p.Thought {
			a.parts[n-1].text.WriteString(*p.Text)
			return nil
		}
	}
	if len(a.parts) >= maxParts {
		return errTooManyParts()
	}
	g := &grown{wirePart: p}
	a.parts = append(a.parts, g)
	switch {
	case p.Call != nil:
		g.Call.ID = cmp.Or(p.Call.ID, MadeID+chat.NewID())
		if len(g.Call.Args) == 0 || string(g.Call.Args) == "null" {
			g.Call.Args = json.RawMessage(`{}`)
		}
		a.tell(llm.Chunk{ToolCall: &llm.ToolCallDelta{Index: a.calls, ID: g.Call.ID, Name: g.Call.Name, Arguments: string(g.Call.Args)}})
		a.calls++
	case p.Text != nil && p.Inline == nil:
		g.text.WriteString(*p.Text)
		if !p.isPlain() {
			a.tellText(&p)
		}
	}
	return nil
}

func (a *answer) tell(c llm.Chunk) { a.deltas = append(a.deltas, c) }

func (a *answer) tellText(p *wirePart) {
	switch {
	case *p.Text == "":
	case p.Thought:
		a.tell(llm.Chunk{Reasoning: *p.Text})
	default:
		a.tell(llm.Chunk{Text: *p.Text})
	}
}

// part returns a part as the host has it.
func (g *grown) part() chat.Part {
	extra := signatureExtra(g.Signature)
	switch {
	case g.Call != nil:
		return &chat.ToolCall{ID: g.Call.ID, Name: g.Call.Name, Arguments: g.Call.Args, Extra: extra}
	case g.Inline != nil:
		if data, err := base64.StdEncoding.DecodeString(g.Inline.Data); err == nil && len(data) > 0 && g.Inline.MediaType != "" {
			return &chat.Media{MediaType: g.Inline.MediaType, Data: data, Extra: extra}
		}
	case g.Text != nil && g.Thought:
		return &chat.Reasoning{Text: g.text.String(), Extra: extra}
	case g.Text != nil && g.text.Len() > 0:
		return &chat.Text{Text: g.text.String(), Extra: extra}
	}
	return foreignPart(g.raw)
}

// vendorMember is the member of a part's JSON that holds the data of this
// protocol alone.
const vendorMember = "gemini"

// vendor is the value of that member.
type vendor struct {
	Signature string `json:"signature"`
}

func signatureExtra(signature string) chat.Extra {
	if signature == "" {
		return nil
	}
	raw, err := json.Marshal(vendor{signature})
	if err != nil {
		return nil // a string has JSON
	}
	return chat.Extra{{Name: vendorMember, Value: raw}}
}

// foreignType is the type of a part that holds an original part.
const foreignType = "gemini"

type foreign struct {
	Type string          `json:"type"`
	Part json.RawMessage `json:"part"`
}

func foreignPart(part json.RawMessage) chat.Part {
	raw, err := json.Marshal(foreign{foreignType, part})
	if err != nil {
		return nil // it was read as JSON
	}
	return &chat.Unknown{Kind: foreignType, JSON: raw}
}

// garbled are the reasons of answers whose calls cannot be read: another attempt
// may do better.
var garbled = map[string]string{
	"MALFORMED_FUNCTION_CALL": "wrote a call that cannot be read",
	"MALFORMED_RESPONSE":      "wrote an answer that cannot be read",
	"UNEXPECTED_TOOL_CALL":    "called a tool that it was not given",
	"TOO_MANY_TOOL_CALLS":     "called too many tools in a row",
	missingSignature:          "misses a thought signature",
}

const missingSignature = "MISSING_THOUGHT_SIGNATURE"

// withheld are the reasons of answers that the service cut or holds back.
var withheld = map[string]bool{
	"SAFETY": true, "RECITATION": true, "LANGUAGE": true, "BLOCKLIST": true, "PROHIBITED_CONTENT": true, "SPII": true,
	"MODEL_ARMOR": true, "IMAGE_SAFETY": true, "IMAGE_PROHIBITED_CONTENT": true, "IMAGE_RECITATION": true,
}

func (a *answer) finishReason() chat.FinishReason {
	switch {
	case withheld[a.finish] || a.blocked != "" && len(a.parts) == 0:
		return chat.FinishContentFilter
	case a.finish == "MAX_TOKENS":
		return chat.FinishLength
	case a.calls > 0:
		return chat.FinishToolCalls
	}
	return chat.FinishStop
}

// Response implements [modelhttp.Answer]. Some servers do not name the answering model.
func (a *answer) Response(s *modelhttp.Server) (*llm.Response, *modelhttp.Fault) {
	if what := garbled[a.finish]; what != "" {
		return nil, s.Upstream("%s (%s)", what, a.finish)
	}
	r := &llm.Response{ID: a.id, Model: cmp.Or(a.model, s.Model()), FinishReason: a.finishReason(), Usage: a.used.total()}
	for _, g := range a.parts {
		if p := g.part(); p != nil {
			r.Parts = append(r.Parts, p)
		}
	}
	return r, nil
}

// total is the usage in the host's terms: thoughts are output, and tokens of
// the service's own tools are input.
func (u *usage) total() chat.Usage {
	thoughts := max(u.Thoughts, 0)
	return chat.Usage{
		InputTokens: max(u.Prompt, 0) + max(u.ToolPrompt, 0), OutputTokens: max(u.Candidates, 0) + thoughts,
		CachedTokens: max(u.Cached, 0), ReasoningTokens: thoughts,
	}
}
