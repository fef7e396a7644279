package trace

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/runevent"
)

// Span is one step of a run, with the steps inside it.
type Span struct {
	Kind       string      `json:"kind"` // one of the kinds below, or the type of an event
	Name       string      `json:"name"`
	Detail     string      `json:"detail,omitempty"`   // for people
	BeganUS    int64       `json:"began_us"`           // after the run
	DurationUS int64       `json:"duration_us"`        // 0: it is not measured
	FirstUS    int64       `json:"first_us,omitempty"` // of a model: until the first piece of its answer
	Open       bool        `json:"open,omitempty"`     // it has not ended
	Usage      *host.Usage `json:"usage,omitempty"`
	Cost       *host.Cost  `json:"cost,omitempty"` // in the sandbox
	Error      *host.Error `json:"error,omitempty"`
	Spans      []*Span     `json:"spans,omitempty"`
}

// The kinds of spans.
const (
	KindRoute     = "route"
	KindAgent     = "agent"
	KindProcessor = "processor"
	KindProvider  = "provider"
	KindModel     = "model"
	KindTool      = "tool"
	KindQuestion  = "question" // to a person: the run ends, and another continues with the answer
)

// agentKind is the kind of the progress of an agent that works as a tool; its
// data is an event.
const agentKind = "agent"

// maxDepth bounds how deep agents that work as tools are shown.
const maxDepth = host.MaxAgentDepth + 1

// builder makes spans of events.
type builder struct {
	began time.Time // the run
	depth int
	at    int64 // of the event at hand
	spans []*Span
	agent *Span            // at work
	model *Span            // being asked
	tools map[string]*tool // at work, by the ids of their calls
}

type tool struct {
	span  *Span
	inner *builder // of an agent that works as a tool
}

// end closes the open spans of an agent that works as the tool.
func (t *tool) end(at int64) {
	t.inner.at = max(t.inner.at, at)
	t.inner.end()
}

// under adds a span to the agent at work, or to the run.
func (b *builder) under(s *Span) *Span {
	if b.agent != nil {
		b.agent.Spans = append(b.agent.Spans, s)
	} else {
		b.spans = append(b.spans, s)
	}
	return s
}

// end closes the open spans: they ended with the run, or with its agent.
func (b *builder) end() {
	open := []*Span{b.model, b.agent}
	for _, t := range b.tools {
		open = append(open, t.span)
		t.end(b.at)
	}
	for _, s := range open {
		if s != nil && s.Open {
			s.Open, s.DurationUS = false, b.at-s.BeganUS
		}
	}
	b.model, b.tools = nil, nil
}

// add adds an event, and reports whether it could be read. An event of an unknown
// type is shown by its type.
func (b *builder) add(ev *event) bool {
	b.at = max(b.at, ev.Time.Sub(b.began).Microseconds())
	switch ev.Type {
	case "route":
		return b.route(ev)
	case "agent.started", "agent.finished":
		return b.agentEvent(ev)
	case "processor":
		return b.processor(ev)
	case "provider":
		return b.provider(ev)
	case "model.called":
		return b.modelCalled(ev)
	case "model.retried", "tool.retried":
		return b.retried(ev)
	case "text.delta", "reasoning.delta", "tool_call.delta":
		if b.model != nil && b.model.FirstUS == 0 {
			b.model.FirstUS = max(1, b.at-b.model.BeganUS)
		}
		return true
	case "message":
		return b.message(ev)
	case "tool.started", "tool.progress", "tool.finished":
		return b.tool(ev)
	case "interrupted":
		return b.question(ev)
	case "state.patch", "artifact":
		return true // the tool's span shows the important part
	}
	b.under(&Span{Kind: ev.Type, Detail: clip(string(ev.Data)), BeganUS: b.at})
	return true
}

// ended returns a span for an event that comes only at the end of its work.
func (b *builder) ended(kind, name string, cost *host.Cost) *Span {
	s := &Span{Kind: kind, Name: name, BeganUS: b.at, Cost: cost}
	if cost != nil {
		s.DurationUS = cost.DurationUS
		s.BeganUS = max(0, b.at-cost.DurationUS)
	}
	return b.under(s)
}

func (b *builder) route(ev *event) bool {
	var d runevent.RouteChosen
	if !read(ev, &d) {
		return false
	}
	b.agent = nil
	s := b.ended(KindRoute, d.Router, d.Cost)
	s.Detail = "→ " + strings.Join(d.Next, ", ")
	if len(d.Next) == 0 {
		s.Detail = "→ nobody"
	}
	if d.Reason != "" {
		s.Detail += ": " + clip(d.Reason)
	}
	return true
}

func (b *builder) agentEvent(ev *event) bool {
	if ev.Type == "agent.started" {
		var d runevent.AgentStarted
		ok := read(ev, &d)
		b.agent = nil
		s := b.under(&Span{Kind: KindAgent, Name: ev.Agent, Detail: d.Model, BeganUS: b.at, Open: true})
		b.agent, b.model = s, nil
		return ok
	}
	var d runevent.AgentFinished
	if !read(ev, &d) || b.agent == nil {
		return false
	}
	s := b.agent
	b.end()
	s.Usage, s.Detail = &d.Usage, fmt.Sprintf("%s, %s", s.Detail, d.FinishReason)
	b.agent = nil
	return true
}

func (b *builder) processor(ev *event) bool {
	var d runevent.ProcessorRan
	if !read(ev, &d) {
		return false
	}
	s := b.ended(KindProcessor, d.Processor, d.Cost)
	s.Error = d.Error
	s.Detail = d.Level + ": unchanged"
	switch {
	case d.Skipped != nil:
		s.Detail, s.Error = d.Level+": skipped", d.Skipped
	case d.Changed:
		s.Detail = fmt.Sprintf("%s: %d → %d messages", d.Level, d.MessagesBefore, d.MessagesAfter)
		if d.TokensBefore >= 0 {
			s.Detail += fmt.Sprintf(", %d → %d tokens", d.TokensBefore, d.TokensAfter)
		}
	}
	return true
}

func (b *builder) provider(ev *event) bool {
	var d runevent.ProviderRan
	if !read(ev, &d) {
		return false
	}
	s := b.ended(KindProvider, d.Provider, d.Cost)
	s.Error = d.Error
	var added []string
	if d.Instructions {
		added = append(added, "instructions")
	}
	for _, what := range []struct {
		n    int
		noun string
	}{{d.Messages, "messages"}, {d.Tools, "tools"}} {
		if what.n > 0 {
			added = append(added, fmt.Sprintf("%d %s", what.n, what.noun))
		}
	}
	if len(added) > 0 {
		s.Detail = "+ " + strings.Join(added, ", ")
	}
	return true
}

func (b *builder) modelCalled(ev *event) bool {
	var d runevent.ModelCalled
	if !read(ev, &d) {
		return false
	}
	detail := fmt.Sprintf("round %d, %d messages", d.Round, d.Messages)
	if d.Tools > 0 {
		detail += fmt.Sprintf(", %d tools", d.Tools)
	}
	b.model = b.under(&Span{Kind: KindModel, Name: d.Model, Detail: detail, BeganUS: b.at, Open: true})
	return true
}

func (b *builder) retried(ev *event) bool {
	var d struct {
		ID      string    `json:"id"`
		Attempt int       `json:"attempt"`
		Code    host.Code `json:"code"`
		Reason  string    `json:"reason"`
	}
	if !read(ev, &d) {
		return false
	}
	s := &Span{Kind: "retry", Name: fmt.Sprintf("after attempt %d", d.Attempt), BeganUS: b.at,
		Error: &host.Error{Code: d.Code, Message: clip(d.Reason)}}
	switch t := b.tools[d.ID]; {
	case t != nil:
		t.span.Spans = append(t.span.Spans, s)
	case b.model != nil && ev.Type == "model.retried":
		b.model.Spans = append(b.model.Spans, s)
	default:
		b.under(s)
	}
	return true
}

func (b *builder) question(ev *event) bool {
	var d runevent.Interrupted
	if !read(ev, &d) || d.Question == nil {
		return false
	}
	b.under(&Span{Kind: KindQuestion, Name: d.Question.Tool, BeganUS: b.at,
		Detail: strings.TrimSpace(string(d.Question.Kind) + " " + clip(d.Question.Reason))})
	return true
}

// message closes the model's span that it is the answer of.
func (b *builder) message(ev *event) bool {
	var d struct {
		Message struct {
			Role  string `json:"role"`
			Parts []struct {
				Type string `json:"type"`
				Name string `json:"name"`
				Text string `json:"text"`
			} `json:"parts"`
		} `json:"message"`
		Usage *host.Usage `json:"usage"`
	}
	if !read(ev, &d) {
		return false
	}
	if d.Message.Role != string(host.Assistant) || b.model == nil {
		return true
	}
	s := b.model
	s.Open, s.DurationUS, s.Usage = false, b.at-s.BeganUS, d.Usage
	b.model = nil
	var said string
	var calls []string
	for _, p := range d.Message.Parts {
		switch p.Type {
		case "text":
			said += p.Text
		case "tool_call":
			calls = append(calls, p.Name)
		}
	}
	if said != "" {
		s.Detail += fmt.Sprintf(" → %q", clip(said))
	}
	if len(calls) > 0 {
		s.Detail += " → calls " + clip(strings.Join(calls, ", "))
	}
	return true
}

func (b *builder) tool(ev *event) bool {
	var d struct {
		ID         string          `json:"id"`
		Name       string          `json:"name"`
		Arguments  json.RawMessage `json:"arguments"`
		Content    json.RawMessage `json:"content"`
		IsError    bool            `json:"is_error"`
		DurationUS int64           `json:"duration_us"`
		Cost       *host.Cost      `json:"cost"`
		Kind       string          `json:"kind"`
		Data       json.RawMessage `json:"data"`
	}
	if !read(ev, &d) {
		return false
	}
	t := b.tools[d.ID]
	switch {
	case ev.Type == "tool.started":
		if b.tools == nil {
			b.tools = map[string]*tool{}
		}
		s := &Span{Kind: KindTool, Name: d.Name, Detail: clip(string(d.Arguments)), BeganUS: b.at, Open: true}
		b.tools[d.ID] = &tool{span: b.under(s), inner: &builder{began: b.began, depth: b.depth + 1}}
		return true
	case t == nil:
		return false
	case ev.Type == "tool.finished":
		s := t.span
		s.Open, s.DurationUS, s.Cost = false, d.DurationUS, d.Cost
		s.BeganUS = min(s.BeganUS, max(0, b.at-d.DurationUS))
		if d.IsError {
			s.Error = &host.Error{Code: host.Internal, Message: clip(textOf(d.Content))}
		} else {
			s.Detail += " → " + clip(string(d.Content))
		}
		t.end(b.at)
		delete(b.tools, d.ID)
		return true
	case d.Kind == agentKind && b.depth < maxDepth:
		var inner event
		if json.Unmarshal(d.Data, &inner) != nil || inner.Type == "" {
			return false
		}
		ok := t.inner.add(&inner)
		t.span.Spans = t.inner.spans
		return ok
	}
	return true
}

// textOf is a JSON string's text, or the raw JSON.
func textOf(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

// maxShown bounds the shown part of a content.
const maxShown = 80

// clip shortens a text to its shown part, on one line.
func clip(s string) string {
	r := []rune(strings.Join(strings.Fields(s[:min(len(s), 4*maxShown)]), " "))
	if len(r) > maxShown {
		return string(r[:maxShown]) + "…"
	}
	return string(r)
}
