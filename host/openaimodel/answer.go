package openaimodel

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/modelhttp"
)

// The bounds of one answer.
const (
	maxAnswerBytes = 16 << 20 // text, reasoning and arguments together
	maxCalls       = 256      // tool calls
	maxDetails     = 16 << 10 // of reasoning_details that are not pieces of one
	maxPieces      = 1024     // of a list in one chunk: calls, texts
	maxChoices     = 128      // in one chunk: one is asked for
	maxMembers     = 64       // of a call or a detail

	maxDetailMembers = 8 << 10 // of all details in one chunk
)

// answer collects the chunks of an answer.
type answer struct {
	id, model       string
	text, reasoning strings.Builder
	reasoningField  string // the field that reasoning came in
	details         []*detail
	calls           []*draft
	finish          string // the server's word, "" until it came
	chosen          bool   // a choice has come
	done            bool   // [DONE] came
	usage           chat.Usage
	size            int

	chunk  chunk       // the last; reused
	deltas []llm.Chunk // of the last chunk; reused
}

// draft is a tool call on its way.
type draft struct {
	wireIndex int
	id, name  string
	arguments strings.Builder
	unknown   map[string]json.RawMessage
}

// Complete implements [modelhttp.Answer].
func (a *answer) Complete() bool { return a.finish != "" || a.done }

// Over implements [modelhttp.Answer]: a mark ends the stream, which Add reads.
func (a *answer) Over() bool { return false }

// Add implements [modelhttp.Answer].
func (a *answer) Add(line []byte) ([]llm.Chunk, error) {
	if bytes.Equal(line, doneMark) {
		a.done = true
		return nil, io.EOF
	}
	c := &a.chunk
	if !c.scan(line) {
		*c = chunk{}
		if err := json.Unmarshal(line, c); err != nil {
			return nil, err
		}
	}
	if len(c.Error) > 0 && string(c.Error) != "null" {
		return nil, modelhttp.ErrorObject(c.Error)
	}
	if c.ID != "" {
		a.id = c.ID
	}
	if c.Model != "" {
		a.model = c.Model
	}
	if c.Usage != nil && c.Usage.PromptTokens+c.Usage.CompletionTokens > 0 {
		a.usage = usageOf(c.Usage)
	}
	a.deltas = a.deltas[:0]
	for i := range c.Choices {
		if err := a.addChoice(&c.Choices[i]); err != nil {
			return nil, err
		}
	}
	return a.deltas, nil
}

func (a *answer) addChoice(c *choice) error {
	if c.Index != 0 {
		return nil // one was asked for
	}
	a.chosen = true
	p := c.Delta
	if p == nil {
		p = c.Message
	}
	if p != nil {
		if err := a.addPiece(p); err != nil {
			return err
		}
	}
	if c.FinishReason != "" && c.FinishReason != "null" {
		a.finish = c.FinishReason
	}
	return nil
}

func (a *answer) addPiece(p *piece) error {
	reasoning, field := string(p.ReasoningContent), fieldReasoningContent
	if reasoning == "" {
		reasoning, field = string(p.Reasoning), fieldReasoning
	}
	if len(p.ReasoningDetails) > 0 {
		a.size += len(p.ReasoningDetails)
		if err := a.addDetails(p.ReasoningDetails); err != nil {
			return err
		}
	}
	if reasoning != "" {
		a.reasoningField = field
		a.reasoning.WriteString(reasoning)
		a.deltas = append(a.deltas, llm.Chunk{Reasoning: reasoning})
	}
	if text := string(p.Content + p.Refusal); text != "" {
		a.text.WriteString(text)
		a.deltas = append(a.deltas, llm.Chunk{Text: text})
	}
	a.size += len(reasoning) + len(p.Content) + len(p.Refusal)
	for i := range p.ToolCalls {
		if err := a.addCall(&p.ToolCalls[i]); err != nil {
			return err
		}
	}
	if a.size > maxAnswerBytes {
		return &modelhttp.TooLong{What: fmt.Sprintf("an answer of more than %d bytes", maxAnswerBytes)}
	}
	return nil
}

func (a *answer) addCall(p *toolPiece) error {
	i := a.findCall(p)
	if i < 0 {
		if len(a.calls) >= maxCalls {
			return &modelhttp.TooLong{What: fmt.Sprintf("an answer with more than %d tool calls", maxCalls)}
		}
		i = len(a.calls)
		d := &draft{wireIndex: i}
		if p.Index != nil {
			d.wireIndex = *p.Index
		}
		a.calls = append(a.calls, d)
	}
	d := a.calls[i]
	delta := &llm.ToolCallDelta{Index: i, Arguments: string(p.Function.Arguments)}
	if d.id == "" && p.ID != "" {
		d.id, delta.ID = p.ID, p.ID
	}
	if d.name == "" && p.Function.Name != "" {
		d.name, delta.Name = p.Function.Name, p.Function.Name
	}
	d.arguments.WriteString(delta.Arguments)
	for name, v := range p.unknown {
		if d.unknown == nil {
			d.unknown = map[string]json.RawMessage{}
		}
		d.unknown[name] = v
		a.size += len(name) + len(v)
	}
	a.size += len(p.ID) + len(p.Function.Name) + len(delta.Arguments)
	a.deltas = append(a.deltas, llm.Chunk{ToolCall: delta})
	return nil
}

// findCall returns which call a piece belongs to, -1 for a new one. Servers
// disagree: most number the calls, some give all of them one number but ids of
// their own, some give no number and an id only with the first piece.
func (a *answer) findCall(p *toolPiece) int {
	for i := len(a.calls) - 1; i >= 0; i-- {
		d := a.calls[i]
		switch {
		case p.ID != "" && d.id != "" && p.ID != d.id:
			continue
		case p.Index != nil && *p.Index != d.wireIndex:
			continue
		case p.Index == nil && p.ID == "" && p.Function.Name != "" && d.name != "":
			return -1 // a name begins a call
		}
		return i
	}
	return -1
}

func usageOf(u *wireUsage) chat.Usage {
	out := chat.Usage{InputTokens: u.PromptTokens, OutputTokens: u.CompletionTokens, CachedTokens: u.CacheHits}
	if u.PromptTokensDetails != nil && u.PromptTokensDetails.CachedTokens > 0 {
		out.CachedTokens = u.PromptTokensDetails.CachedTokens
	}
	if u.CompletionTokensDetails != nil {
		out.ReasoningTokens = u.CompletionTokensDetails.ReasoningTokens
	}
	return out
}

// Response implements [modelhttp.Answer]. Some servers do not name the answering model.
func (a *answer) Response(s *modelhttp.Server) (*llm.Response, *modelhttp.Fault) {
	switch {
	case a.gaveUp():
		return nil, s.Upstream("gave up its answer (finish reason %q)", a.finish)
	case !a.chosen:
		return nil, s.Upstream("sent no answer")
	}
	asked := s.Model()
	r := &llm.Response{ID: a.id, Model: cmp.Or(a.model, asked), FinishReason: a.finishReason(), Usage: a.usage}
	if p := a.reasoningPart(asked); p != nil {
		r.Parts = append(r.Parts, p)
	}
	if a.text.Len() > 0 {
		r.Parts = append(r.Parts, &chat.Text{Text: a.text.String()})
	}
	for _, d := range a.calls {
		call := &chat.ToolCall{ID: d.id, Name: d.name, Arguments: json.RawMessage(d.arguments.String())}
		if len(d.unknown) > 0 {
			call.Extra = callExtra(d.unknown, asked)
		}
		r.Parts = append(r.Parts, call)
	}
	return r, nil
}

// finishReason maps the server's word. Many servers say "stop" after tool
// calls, and each has words of its own for the rest.
func (a *answer) finishReason() chat.FinishReason {
	switch a.finish {
	case "length", "max_tokens", "model_length":
		return chat.FinishLength
	case "content_filter", "safety":
		return chat.FinishContentFilter
	}
	if len(a.calls) > 0 {
		return chat.FinishToolCalls
	}
	return chat.FinishStop
}

// gaveUp reports whether the finish reason says that the server failed.
func (a *answer) gaveUp() bool {
	switch a.finish {
	case "error", "network_error", "insufficient_system_resource":
		return true
	}
	return false
}
