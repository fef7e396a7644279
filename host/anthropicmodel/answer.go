package anthropicmodel

import (
	"bytes"
	"cmp"
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
	maxAnswerBytes = 16 << 20 // of all blocks together
	maxBlocks      = 1024
	maxMembers     = 1024 // of a block of an unknown type
)

// event is one event of a stream.
type event struct {
	Type    string          `json:"type"`
	Message *head           `json:"message"`
	Index   int             `json:"index"`
	Block   json.RawMessage `json:"content_block"`
	Delta   delta           `json:"delta"`
	Usage   *usage          `json:"usage"`
	Error   json.RawMessage `json:"error"`
}

// head is the first object of a stream.
type head struct {
	ID         string `json:"id"`
	Model      string `json:"model"`
	StopReason string `json:"stop_reason"`
	Usage      *usage `json:"usage"`
}

// message is the whole answer of a server that does not stream.
type message struct {
	head
	Content rawBlocks `json:"content"`
}

// rawBlocks are the original blocks of a message: at most maxBlocks.
type rawBlocks []json.RawMessage

// UnmarshalJSON implements json.Unmarshaler.
func (b *rawBlocks) UnmarshalJSON(raw []byte) error {
	return modelhttp.UnmarshalList(raw, maxBlocks, "blocks", (*[]json.RawMessage)(b))
}

type delta struct {
	Type        string `json:"type"`
	Text        string `json:"text"`
	Thinking    string `json:"thinking"`
	Signature   string `json:"signature"`
	PartialJSON string `json:"partial_json"`
	StopReason  string `json:"stop_reason"`
}

type usage struct {
	Input        *int `json:"input_tokens"`
	Output       *int `json:"output_tokens"`
	CacheRead    *int `json:"cache_read_input_tokens"`
	CacheWritten *int `json:"cache_creation_input_tokens"`
}

// block is a content block as it grows. Of a type that is not known, whole is
// kept.
type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`

	whole  json.RawMessage
	grown  strings.Builder // text, thinking or the JSON of the input
	signed strings.Builder // the signature
	call   int             // which call of the answer it is
}

// answer is the received part of an answer.
type answer struct {
	id, model  string
	blocks     []*block
	calls      int
	stopReason string
	used       usage
	over       bool
	size       int

	deltas []llm.Chunk // of the last event; reused
}

// Complete implements [modelhttp.Answer].
func (a *answer) Complete() bool { return a.stopReason != "" }

// Over implements [modelhttp.Answer].
func (a *answer) Over() bool { return a.over }

// Add implements [modelhttp.Answer].
func (a *answer) Add(data []byte) ([]llm.Chunk, error) {
	var ev event
	if err := json.Unmarshal(data, &ev); err != nil {
		return nil, err
	}
	a.deltas = a.deltas[:0]
	if a.size += len(data); a.size > maxAnswerBytes {
		return nil, &modelhttp.TooLong{What: fmt.Sprintf("an answer of more than %d bytes", maxAnswerBytes)}
	}
	var err error
	if ev.Type == "message" {
		var m message
		if err = json.Unmarshal(data, &m); err == nil {
			err = a.readDocument(&m)
		}
	} else {
		err = a.read(&ev)
	}
	return a.deltas, err
}

func (a *answer) read(ev *event) error {
	switch ev.Type {
	case "error":
		if len(ev.Error) == 0 {
			return modelhttp.ErrorObject(json.RawMessage(`{}`))
		}
		return modelhttp.ErrorObject(ev.Error)
	case "message_start":
		if ev.Message != nil {
			a.id, a.model = ev.Message.ID, ev.Message.Model
			a.use(ev.Message.Usage)
		}
	case "content_block_start":
		_, err := a.begin(ev.Index, ev.Block)
		return err
	case "content_block_delta":
		return a.grow(ev)
	case "message_delta":
		a.stopReason = ev.Delta.StopReason
		a.use(ev.Usage)
	case "message_stop":
		a.over = true
	case "":
		return errNoType
	}
	return nil // ping, content_block_stop, and types of later versions
}

var errNoType = errors.New("an event without a type")

func (a *answer) use(u *usage) {
	if u == nil {
		return
	}
	for _, f := range []struct{ to, from **int }{
		{&a.used.Input, &u.Input}, {&a.used.Output, &u.Output}, {&a.used.CacheRead, &u.CacheRead}, {&a.used.CacheWritten, &u.CacheWritten},
	} {
		if *f.from != nil {
			*f.to = *f.from
		}
	}
}

func (a *answer) readDocument(m *message) error {
	a.id, a.model, a.stopReason, a.over = m.ID, m.Model, m.StopReason, true
	a.use(m.Usage)
	for i, raw := range m.Content {
		b, err := a.begin(i, raw)
		if err != nil {
			return err
		}
		if b.Type == "tool_use" {
			a.tell(llm.Chunk{ToolCall: &llm.ToolCallDelta{Index: b.call, Arguments: string(b.Input)}})
		}
	}
	return nil
}

func (a *answer) tell(c llm.Chunk) { a.deltas = append(a.deltas, c) }

// begin opens a block. Servers number them from 0 without gaps.
func (a *answer) begin(index int, raw json.RawMessage) (*block, error) {
	switch {
	case index != len(a.blocks):
		return nil, fmt.Errorf("block %d after %d blocks", index, len(a.blocks))
	case index >= maxBlocks:
		return nil, &modelhttp.TooLong{What: fmt.Sprintf("an answer of more than %d blocks", maxBlocks)}
	}
	b := &block{whole: bytes.Clone(raw)}
	if err := json.Unmarshal(raw, b); err != nil {
		return nil, err
	}
	if !b.known() {
		if err := modelhttp.CheckLength(raw, maxMembers, "members in a block"); err != nil {
			return nil, err
		}
	}
	a.blocks = append(a.blocks, b)
	switch b.Type {
	case "text":
		a.growText(b, b.Text)
	case "thinking":
		a.growThinking(b, b.Thinking)
		b.signed.WriteString(b.Signature)
	case "tool_use":
		b.call = a.calls
		a.calls++
		a.tell(llm.Chunk{ToolCall: &llm.ToolCallDelta{Index: b.call, ID: b.ID, Name: b.Name}})
	}
	return b, nil
}

func (a *answer) growText(b *block, text string) {
	if text != "" {
		b.grown.WriteString(text)
		a.tell(llm.Chunk{Text: text})
	}
}

func (a *answer) growThinking(b *block, text string) {
	if text != "" {
		b.grown.WriteString(text)
		a.tell(llm.Chunk{Reasoning: text})
	}
}

func (a *answer) grow(ev *event) error {
	if ev.Index < 0 || ev.Index >= len(a.blocks) {
		return fmt.Errorf("a delta of block %d of %d", ev.Index, len(a.blocks))
	}
	b, d := a.blocks[ev.Index], &ev.Delta
	if of := grownBy[d.Type]; of != "" && of != b.Type {
		if b.known() {
			return fmt.Errorf("a %s of a block of type %s", d.Type, b.Type)
		}
		if of != "tool_use" {
			return nil // a block of tomorrow grows in ways of its own
		}
	}
	switch d.Type {
	case "text_delta":
		a.growText(b, d.Text)
	case "thinking_delta":
		a.growThinking(b, d.Thinking)
	case "signature_delta":
		b.signed.WriteString(d.Signature)
	case "input_json_delta":
		b.grown.WriteString(d.PartialJSON)
		if b.Type == "tool_use" && d.PartialJSON != "" {
			a.tell(llm.Chunk{ToolCall: &llm.ToolCallDelta{Index: b.call, Arguments: d.PartialJSON}})
		}
	}
	return nil
}

// grownBy says which blocks a delta is for. The JSON of an input is for all that
// have one, the provider's own tools among them.
var grownBy = map[string]string{
	"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "thinking", "input_json_delta": "tool_use",
}

// known reports whether a block is of a type that this package reads.
func (b *block) known() bool { return b.Type == "text" || b.Type == "thinking" || b.Type == "tool_use" }

// part returns a block as a part, nil for one with nothing in it.
func (b *block) part() chat.Part {
	switch b.Type {
	case "text":
		if b.grown.Len() == 0 {
			return nil
		}
		return &chat.Text{Text: b.grown.String()}
	case "thinking":
		return &chat.Reasoning{Text: b.grown.String(), Signature: b.signed.String()}
	case "tool_use":
		return &chat.ToolCall{ID: b.ID, Name: b.Name, Arguments: b.input()}
	}
	return foreignPart(b.complete())
}

// input returns a call's arguments: the JSON that came in pieces, or the block's
// first value.
func (b *block) input() json.RawMessage {
	if b.grown.Len() > 0 {
		return json.RawMessage(b.grown.String())
	}
	return b.Input
}

// complete is a block of an unknown type with the input that came after it.
func (b *block) complete() json.RawMessage {
	if b.grown.Len() == 0 || !json.Valid([]byte(b.grown.String())) {
		return b.whole
	}
	members := map[string]json.RawMessage{}
	if json.Unmarshal(b.whole, &members) != nil {
		return b.whole
	}
	members["input"] = json.RawMessage(b.grown.String())
	whole, err := json.Marshal(members)
	if err != nil {
		return b.whole
	}
	return whole
}

// foreignType is the type of a part that holds an original block.
const foreignType = "anthropic"

type foreign struct {
	Type  string          `json:"type"`
	Block json.RawMessage `json:"block"`
}

func foreignPart(block json.RawMessage) chat.Part {
	raw, err := json.Marshal(foreign{foreignType, block})
	if err != nil {
		return nil
	}
	return &chat.Unknown{Kind: foreignType, JSON: raw}
}

// Response implements [modelhttp.Answer]. Some servers do not name the answering model.
func (a *answer) Response(s *modelhttp.Server) (*llm.Response, *modelhttp.Fault) {
	r := &llm.Response{ID: a.id, Model: cmp.Or(a.model, s.Model()), FinishReason: a.finishReason(), Usage: a.used.total()}
	for _, b := range a.blocks {
		if p := b.part(); p != nil {
			r.Parts = append(r.Parts, p)
		}
	}
	return r, nil
}

func (a *answer) finishReason() chat.FinishReason {
	switch a.stopReason {
	case "max_tokens", "model_context_window_exceeded":
		return chat.FinishLength
	case "refusal":
		return chat.FinishContentFilter
	case "pause_turn":
		return chat.FinishPaused
	}
	if a.calls > 0 {
		return chat.FinishToolCalls
	}
	return chat.FinishStop
}

// total is the usage in the host's terms: tokens read from a cache count as
// input.
func (u *usage) total() chat.Usage {
	n := func(v *int) int {
		if v == nil {
			return 0
		}
		return max(*v, 0)
	}
	return chat.Usage{
		InputTokens:  n(u.Input) + n(u.CacheRead) + n(u.CacheWritten),
		OutputTokens: n(u.Output), CachedTokens: n(u.CacheRead),
	}
}
