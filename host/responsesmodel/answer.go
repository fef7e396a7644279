package responsesmodel

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/modelhttp"
)

// The bounds of one answer.
const (
	maxAnswerBytes = 32 << 20 // of all events together; each is sent twice or thrice
	maxItems       = 1024
	maxParts       = 4096 // of all items together
)

// event is one event of a stream, or the whole response of a server that does not
// stream, which has no type.
type event struct {
	Type         string          `json:"type"`
	OutputIndex  int             `json:"output_index"`
	SummaryIndex int             `json:"summary_index"`
	Delta        string          `json:"delta"`
	Item         json.RawMessage `json:"item"`
	Response     json.RawMessage `json:"response"`
	Error        json.RawMessage `json:"error"`
}

// response is the object at the end of an answer.
type response struct {
	ID           string          `json:"id"`
	Model        string          `json:"model"`
	Status       string          `json:"status"`
	Output       rawItems        `json:"output"`
	Usage        *usage          `json:"usage"`
	Error        json.RawMessage `json:"error"`
	Store        *bool           `json:"store"`
	Conversation *struct {
		ID string `json:"id"`
	} `json:"conversation"`
	Incomplete *struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
}

// rawItems are the original items of an output: at most maxItems.
type rawItems []json.RawMessage

// UnmarshalJSON implements json.Unmarshaler.
func (i *rawItems) UnmarshalJSON(b []byte) error {
	return modelhttp.UnmarshalList(b, maxItems, "items", (*[]json.RawMessage)(i))
}

type usage struct {
	Input        int `json:"input_tokens"`
	InputDetails struct {
		Cached int `json:"cached_tokens"`
	} `json:"input_tokens_details"`
	Output        int `json:"output_tokens"`
	OutputDetails struct {
		Reasoning int `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
}

// item is one of the output.
type item struct {
	Type      string       `json:"type"`
	CallID    string       `json:"call_id"`
	Name      string       `json:"name"`
	Arguments string       `json:"arguments"`
	Content   contentParts `json:"content"`
	Summary   contentParts `json:"summary"`
}

// contentParts are the parts of an item: at most maxParts.
type contentParts []contentPart

// UnmarshalJSON implements json.Unmarshaler.
func (p *contentParts) UnmarshalJSON(b []byte) error {
	return modelhttp.UnmarshalList(b, maxParts, "parts", (*[]contentPart)(p))
}

type contentPart struct {
	Type        string          `json:"type"`
	Text        string          `json:"text"`
	Refusal     string          `json:"refusal"`
	Annotations json.RawMessage `json:"annotations"`
}

// The types of items and of their content that are known.
const (
	itemMessage   = "message"
	itemCall      = "function_call"
	itemReasoning = "reasoning"
	itemResult    = "function_call_output"
	partText      = "output_text"
	partRefusal   = "refusal"
)

// answer is the received part of an answer.
type answer struct {
	items map[int]json.RawMessage // that are done, by their place
	calls map[int]*draft          // by the place of their items
	text  strings.Builder         // of all messages
	final *response               // nil until the server has ended
	size  int

	stored bool // the request asked the service to keep the answer

	deltas []llm.Chunk // of the last event; reused
}

// draft is a tool call on its way.
type draft struct {
	number int  // which call of the answer it is
	grown  bool // some of its arguments have come
}

// Complete implements [modelhttp.Answer].
func (a *answer) Complete() bool { return a.final != nil }

// Over implements [modelhttp.Answer].
func (a *answer) Over() bool { return a.final != nil }

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
	return a.deltas, a.read(&ev, data)
}

var errNoType = errors.New("an event without a type")

func (a *answer) read(ev *event, data []byte) error {
	switch ev.Type {
	case "response.output_text.delta", "response.refusal.delta":
		a.text.WriteString(ev.Delta)
		a.tell(llm.Chunk{Text: ev.Delta}, ev.Delta)
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		a.tell(llm.Chunk{Reasoning: ev.Delta}, ev.Delta)
	case "response.reasoning_summary_part.added":
		if ev.SummaryIndex > 0 {
			a.tell(llm.Chunk{Reasoning: paragraph}, paragraph)
		}
	case "response.output_item.added":
		return a.begin(ev)
	case "response.function_call_arguments.delta":
		if d := a.calls[ev.OutputIndex]; d != nil && ev.Delta != "" {
			d.grown = true
			a.deltas = append(a.deltas, llm.Chunk{ToolCall: &llm.ToolCallDelta{Index: d.number, Arguments: ev.Delta}})
		}
	case "response.output_item.done":
		return a.done(ev)
	case "response.completed", "response.incomplete", "response.failed", "response.cancelled":
		return a.end(ev.Response)
	case "error":
		if !isObject(ev.Error) {
			return modelhttp.ErrorObject(slices.Clone(data))
		}
		return modelhttp.ErrorObject(ev.Error)
	case "":
		if isObject(ev.Error) {
			return modelhttp.ErrorObject(ev.Error)
		}
		return a.document(data)
	}
	return nil // events without news, and types of later versions
}

// paragraph stands between the parts of a summary.
const paragraph = "\n\n"

func isObject(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '{' }

// tell adds a delta, unless it is empty.
func (a *answer) tell(c llm.Chunk, text string) {
	if text != "" {
		a.deltas = append(a.deltas, c)
	}
}

// begin opens an item. Only calls have something to show then.
func (a *answer) begin(ev *event) error {
	var it item
	if err := json.Unmarshal(ev.Item, &it); err != nil {
		return err
	}
	if it.Type == itemCall {
		return a.open(ev.OutputIndex, &it)
	}
	return nil
}

// open begins a call.
func (a *answer) open(place int, it *item) error {
	switch {
	case a.calls[place] != nil:
		return nil
	case len(a.calls) >= maxItems:
		return tooMany()
	case a.calls == nil:
		a.calls = map[int]*draft{}
	}
	d := &draft{number: len(a.calls)}
	a.calls[place] = d
	a.deltas = append(a.deltas, llm.Chunk{ToolCall: &llm.ToolCallDelta{Index: d.number, ID: it.CallID, Name: it.Name}})
	return nil
}

func tooMany() error {
	return &modelhttp.TooLong{What: fmt.Sprintf("an answer of more than %d items", maxItems)}
}

// done takes a finished item.
func (a *answer) done(ev *event) error {
	var it item
	if err := json.Unmarshal(ev.Item, &it); err != nil {
		return err
	}
	switch {
	case len(a.items) >= maxItems:
		return tooMany()
	case a.items == nil:
		a.items = map[int]json.RawMessage{}
	}
	a.items[ev.OutputIndex] = ev.Item
	if it.Type != itemCall {
		return nil
	}
	if err := a.open(ev.OutputIndex, &it); err != nil {
		return err
	}
	if d := a.calls[ev.OutputIndex]; !d.grown && it.Arguments != "" {
		d.grown = true
		a.deltas = append(a.deltas, llm.Chunk{ToolCall: &llm.ToolCallDelta{Index: d.number, Arguments: it.Arguments}})
	}
	return nil
}

// end takes the response object at the end of the answer.
func (a *answer) end(raw json.RawMessage) error {
	final := &response{}
	if err := json.Unmarshal(raw, final); err != nil {
		return err
	}
	parts := 0
	for _, raw := range final.Output {
		var it item
		if err := json.Unmarshal(raw, &it); err != nil {
			return err
		}
		if parts += len(it.Content) + len(it.Summary); parts > maxParts {
			return &modelhttp.TooLong{What: fmt.Sprintf("an answer of more than %d parts", maxParts)}
		}
	}
	if len(final.Output) == 0 {
		for _, place := range slices.Sorted(maps.Keys(a.items)) {
			final.Output = append(final.Output, a.items[place])
		}
	}
	a.final = final
	return nil
}

// document takes the response of a server that does not stream.
func (a *answer) document(data []byte) error {
	if err := a.end(slices.Clone(data)); err != nil {
		return err
	}
	if a.final.Status == "" && a.final.Output == nil {
		a.final = nil
		return errNoType
	}
	for place, p := range a.parts() {
		switch p := p.(type) {
		case *chat.Text:
			a.tell(llm.Chunk{Text: p.Text}, p.Text)
		case *chat.Reasoning:
			a.tell(llm.Chunk{Reasoning: p.Text}, p.Text)
		case *chat.ToolCall:
			if err := a.open(place, &item{CallID: p.ID, Name: p.Name}); err != nil {
				a.final = nil
				return err
			}
			a.deltas = append(a.deltas, llm.Chunk{ToolCall: &llm.ToolCallDelta{Index: a.calls[place].number, Arguments: string(p.Arguments)}})
		}
	}
	return nil
}

// verdict judges an answer that has ended.
func (a *answer) verdict(s *modelhttp.Server) *modelhttp.Fault {
	switch f := a.final; f.Status {
	case "failed":
		if isObject(f.Error) {
			return s.WireFault(f.Error)
		}
		return s.Upstream("failed to answer")
	case "cancelled":
		return s.Upstream("cancelled its answer")
	case "queued", "in_progress":
		return s.Refused("is still at work, in the background")
	}
	return nil
}

// parts are the parts of the answer.
func (a *answer) parts() (list []chat.Part) {
	for _, raw := range a.final.Output {
		list = appendParts(list, raw)
	}
	if len(a.final.Output) == 0 && a.text.Len() > 0 {
		list = append(list, &chat.Text{Text: a.text.String()})
	}
	return list
}

// appendParts appends the parts of an item.
func appendParts(dst []chat.Part, raw json.RawMessage) []chat.Part {
	var it item
	if json.Unmarshal(raw, &it) != nil {
		return dst // end has read it before
	}
	switch it.Type {
	case itemMessage:
		for _, c := range it.Content {
			if p := c.part(); p != nil {
				dst = append(dst, p)
			}
		}
		return dst
	case itemCall:
		return append(dst, &chat.ToolCall{ID: it.CallID, Name: it.Name, Arguments: json.RawMessage(it.Arguments)})
	case itemReasoning:
		return append(dst, &chat.Reasoning{Text: it.thought(), Extra: chat.Extra{{Name: itemMember, Value: raw}}})
	}
	whole, err := json.Marshal(struct {
		Type string          `json:"type"`
		Item json.RawMessage `json:"item"`
	}{itemMember, raw})
	if err != nil {
		return dst // it was read as JSON
	}
	return append(dst, &chat.Unknown{Kind: itemMember, JSON: whole})
}

// part is a piece of a message; nil for one without text.
func (c *contentPart) part() chat.Part {
	text := cmp.Or(c.Text, c.Refusal)
	if text == "" || c.Type != partText && c.Type != partRefusal {
		return nil
	}
	p := &chat.Text{Text: text}
	if len(c.Annotations) > 0 && string(c.Annotations) != "[]" && string(c.Annotations) != "null" {
		p.Extra = chat.Extra{{Name: "annotations", Value: c.Annotations}}
	}
	return p
}

// thought is the text of a reasoning item: the summary, or the full reasoning
// where a server sends it.
func (it *item) thought() string {
	list := it.Summary
	if len(list) == 0 {
		list = it.Content
	}
	texts := make([]string, len(list))
	for i, c := range list {
		texts[i] = c.Text
	}
	return strings.Join(texts, paragraph)
}

// Response implements [modelhttp.Answer]. Some servers do not name the answering model.
func (a *answer) Response(s *modelhttp.Server) (*llm.Response, *modelhttp.Fault) {
	if f := a.verdict(s); f != nil {
		return nil, f
	}
	f := a.final
	r := &llm.Response{ID: f.ID, Model: cmp.Or(f.Model, s.Model()), Parts: a.parts()}
	r.FinishReason = a.finishReason(r.Parts)
	if u := f.Usage; u != nil {
		r.Usage = chat.Usage{InputTokens: max(u.Input, 0), OutputTokens: max(u.Output, 0),
			CachedTokens: max(u.InputDetails.Cached, 0), ReasoningTokens: max(u.OutputDetails.Reasoning, 0)}
	}
	switch {
	case !a.stored || f.Store != nil && !*f.Store:
	case f.Conversation != nil && f.Conversation.ID != "":
		r.Conversation = f.Conversation.ID
	default:
		r.Conversation = f.ID
	}
	return r, nil
}

func (a *answer) finishReason(parts []chat.Part) chat.FinishReason {
	if i := a.final.Incomplete; i != nil {
		switch i.Reason {
		case "content_filter":
			return chat.FinishContentFilter
		case "":
		default: // max_output_tokens, and reasons of later versions
			return chat.FinishLength
		}
	}
	for _, p := range parts {
		if _, ok := p.(*chat.ToolCall); ok {
			return chat.FinishToolCalls
		}
	}
	return chat.FinishStop
}
