package stream

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"unicode/utf16"

	"github.com/agenthost/agenthost/host"
)

// AgentKitOptions are the optional parts of the encoder of AgentKit's chunks.
type AgentKitOptions struct {
	// Standalone says that an agent runs, and no network: AgentKit streams the two
	// differently.
	Standalone bool

	// User, if set, is the userId of every chunk.
	User string

	// SimulateChunking cuts what comes in one piece into several, as AgentKit's
	// option of that name does: texts and arguments of more than 50 UTF-16 units, and
	// tools' results of more than 80. It is for models that do not stream, and clients
	// that show a text as it grows. A character is not cut.
	SimulateChunking bool
}

// The sizes of simulated chunks, in UTF-16 units.
const (
	chunkedText   = 50
	chunkedOutput = 80
)

// AgentKit returns an encoder of AgentKit's streaming chunks, as its useAgent
// client reads them:
//
//	{"event","data":{...},"timestamp":ms,"sequenceNumber","id":"publish-0:run.started"}
//
// sequenceNumber counts the chunks of a run from 0, for an event may be several
// or none. The chunks come in AgentKit's order, with these differences, of which
// all but the first are what it declares and never sends: arguments come in the
// pieces that the model sends; reasoning comes as parts of that type
// (reasoning.delta); a question to a person is
// hitl.requested, and the run ends with run.interrupted. A failure of a tool is {"error":{"name","message"}} without a
// stack. What AgentKit has no chunk for (processors, state, usage, progress of a
// tool, retries) is left out.
func AgentKit(opts *AgentKitOptions) Encoder {
	if opts == nil {
		opts = &AgentKitOptions{}
	}
	return &agentKit{opts: *opts, calls: map[int]*part{}}
}

type agentKit struct {
	opts   AgentKitOptions
	seq    int64
	parts  int // so far
	agents int // runs of agents so far

	run, thread, network string
	agentRun, agent      string // the agent at work
	message              string // what its parts belong to

	text  *part         // being written; nil between texts
	calls map[int]*part // being written, by their place in the answer

	dst []Frame
	ev  host.Event
	err error
}

// part is a piece of a message.
type part struct {
	id, kind string
	content  []byte
	name     string // of a call's tool
	told     bool   // the name has been
}

type object = map[string]any

// pieces returns a text in the pieces that it is sent in: one, unless chunking is
// simulated.
func (k *agentKit) pieces(text string, size int) iter.Seq[string] {
	return func(yield func(string) bool) {
		from, units := 0, 0
		for at, r := range text {
			n := max(utf16.RuneLen(r), 1)
			if k.opts.SimulateChunking && units+n > size {
				if !yield(text[from:at]) {
					return
				}
				from, units = at, 0
			}
			units += n
		}
		yield(text[from:])
	}
}

// Encode implements Encoder.
func (k *agentKit) Encode(dst []Frame, ev host.Event) ([]Frame, error) {
	ev = ev.ForClient()
	k.dst, k.ev, k.err = dst, ev, nil
	switch d := ev.Data.(type) {
	case *host.RunStarted:
		k.runStarted(d)
	case *host.AgentStarted:
		k.agentStarted()
	case *host.TextDelta:
		k.delta("text", "text.delta", d.Text)
	case *host.ModelRetried, *host.ModelFellBack:
		k.abandon() // what comes now is another answer
	case *host.ReasoningDelta:
		k.delta("reasoning", "reasoning.delta", d.Text)
	case *host.ToolCallDelta:
		k.callDelta(d.Index, d.Name, d.Arguments)
	case *host.MessageDone:
		k.messageDone(d.Message)
	case *host.ToolFinished:
		k.output(d)
	case *host.Interrupted:
		k.asked(d.Question)
	case *host.AgentFinished:
		k.agentFinished(d)
	case *host.RunFinished:
		k.runFinished(d)
	}
	return k.dst, k.err
}

// send makes a frame.
func (k *agentKit) send(event string, data object) {
	if k.thread != "" {
		data["threadId"] = k.thread
	}
	if k.opts.User != "" {
		data["userId"] = k.opts.User
	}
	raw, err := json.Marshal(data)
	if err != nil {
		k.err = host.Errorf(host.Internal, "write AgentKit chunk %s: %w", event, err)
		return
	}
	id := fmt.Sprintf("publish-%d:%s", k.seq, event)
	b := append([]byte(`{"event":"`), event...)
	b = append(append(b, `","data":`...), raw...)
	b = strconv.AppendInt(append(b, `,"timestamp":`...), k.ev.Time.UnixMilli(), 10)
	b = strconv.AppendInt(append(b, `,"sequenceNumber":`...), k.seq, 10)
	b = append(append(append(b, `,"id":"`...), id...), `"}`...)
	k.seq++
	k.dst = append(k.dst, Frame{ID: id, Data: b})
}

func (k *agentKit) scope() string {
	if k.opts.Standalone {
		return "agent"
	}
	return "network"
}

func (k *agentKit) runStarted(d *host.RunStarted) {
	k.run, k.thread, k.network = k.ev.Run, d.Thread, k.ev.Network
	if !k.opts.Standalone {
		k.send("run.started", object{"runId": k.run, "scope": "network", "name": k.network, "messageId": k.run})
	}
}

func (k *agentKit) agentStarted() {
	k.agent = k.ev.Agent
	k.agents++
	k.message = fmt.Sprintf("%s-%d", k.run, k.agents)
	k.agentRun = k.message
	data := object{"runId": k.agentRun, "scope": "agent", "name": k.agent, "messageId": k.message}
	if k.opts.Standalone {
		k.agentRun = k.run
		data["runId"] = k.run
	} else {
		data["parentRunId"] = k.run
	}
	k.send("run.started", data)
}

// newPart opens a part.
func (k *agentKit) newPart(kind, tool string) *part {
	k.parts++
	p := &part{id: fmt.Sprintf("part_%s_%d", k.run[max(0, len(k.run)-8):], k.parts), kind: kind, name: tool}
	k.send("part.created", k.partData(p, nil))
	return p
}

func (k *agentKit) partData(p *part, final any) object {
	metadata := object{"agentName": k.agent}
	if p.name != "" {
		metadata["toolName"] = p.name
	}
	data := object{"partId": p.id, "runId": k.agentRun, "messageId": k.message, "type": p.kind, "metadata": metadata}
	if final != nil {
		data["finalContent"] = final
	}
	return data
}

func (k *agentKit) complete(p *part, final any) { k.send("part.completed", k.partData(p, final)) }

// delta is a piece of text or of reasoning. One ends where the other begins.
func (k *agentKit) delta(kind, event, text string) {
	if k.text != nil && k.text.kind != kind {
		k.endText()
	}
	if k.text == nil {
		k.text = k.newPart(kind, "")
	}
	k.text.content = append(k.text.content, text...)
	for piece := range k.pieces(text, chunkedText) {
		k.send(event, object{"partId": k.text.id, "messageId": k.message, "delta": piece})
	}
}

func (k *agentKit) endText() {
	if k.text != nil {
		k.complete(k.text, string(k.text.content))
		k.text = nil
	}
}

// callDelta is a piece of a call. The part opens when the tool's name is known.
func (k *agentKit) callDelta(index int, name, arguments string) {
	k.endText()
	p := k.calls[index]
	if p == nil {
		p = &part{kind: "tool-call"}
		k.calls[index] = p
	}
	p.content = append(p.content, arguments...)
	switch {
	case p.id != "":
		k.argumentsDelta(p, arguments)
	case name != "":
		*p = part{id: k.newPart("tool-call", name).id, kind: p.kind, name: name, content: p.content}
		k.argumentsDelta(p, string(p.content))
	}
}

func (k *agentKit) argumentsDelta(p *part, arguments string) {
	if arguments == "" {
		return
	}
	for piece := range k.pieces(arguments, chunkedText) {
		data := object{"partId": p.id, "messageId": k.message, "delta": piece}
		if !p.told {
			p.told = true
			data["toolName"] = p.name
		}
		k.send("tool_call.arguments.delta", data)
	}
}

// messageDone ends what is being written. What a model did not stream is told
// now.
func (k *agentKit) messageDone(m *host.Message) {
	if m.Role != host.Assistant {
		return
	}
	if text := m.Text(); text != "" && k.text == nil && len(k.calls) == 0 {
		k.delta("text", "text.delta", text)
	}
	k.endText()
	for i, c := range m.ToolCalls() {
		if p := k.calls[i]; p == nil || p.id == "" {
			delete(k.calls, i)
			k.callDelta(i, c.Name, string(c.Arguments))
		}
		k.complete(k.calls[i], c.Arguments)
	}
	clear(k.calls)
}

// output is a tool's result, in the wrapper that AgentKit puts around it.
func (k *agentKit) output(d *host.ToolFinished) {
	final := object{"data": d.Content}
	if d.IsError {
		var text string
		if json.Unmarshal(d.Content, &text) != nil {
			text = string(d.Content)
		}
		final = object{"error": object{"name": "Error", "message": text}}
	}
	raw, err := json.Marshal(final)
	if err != nil {
		k.err = host.Errorf(host.Internal, "write result of %s: %w", d.Name, err)
		return
	}
	p := k.newPart("tool-output", d.Name)
	for piece := range k.pieces(string(raw), chunkedOutput) {
		k.send("tool_call.output.delta", object{"partId": p.id, "messageId": k.message, "delta": piece})
	}
	k.complete(p, json.RawMessage(raw))
}

// asked is a question to a person. AgentKit names the chunk and not what is in
// it: here it is the question as the host has it.
func (k *agentKit) asked(q *host.Question) {
	k.send("hitl.requested", object{"runId": k.agentRun, "messageId": k.message, "toolCallId": q.ToolCall, "toolName": q.Tool, "request": q})
}

func (k *agentKit) agentFinished(d *host.AgentFinished) {
	k.abandon()
	if !k.opts.Standalone && !slices.Contains([]host.FinishReason{host.FinishFailed, host.FinishCanceled}, d.FinishReason) {
		k.send("run.completed", object{"runId": k.agentRun, "scope": "agent", "name": k.agent, "messageId": k.message})
	}
}

// abandon ends what a model had begun when it was cut off.
func (k *agentKit) abandon() {
	k.endText()
	clear(k.calls)
}

func (k *agentKit) runFinished(d *host.RunFinished) {
	if k.run == "" {
		k.run, k.network = k.ev.Run, k.ev.Network
	}
	if d.Thread != "" {
		k.thread = d.Thread
	}
	about := func(more object) object {
		data := object{"runId": k.run, "scope": k.scope(), "name": k.network}
		if !k.opts.Standalone {
			data["messageId"] = k.run
		}
		for name, value := range more {
			data[name] = value
		}
		return data
	}
	switch {
	case d.Error != nil:
		k.send("run.failed", about(object{"error": d.Error.Message, "recoverable": false}))
	case d.FinishReason == host.FinishInterrupted:
		k.send("run.interrupted", about(nil))
	}
	k.send("run.completed", about(nil))
	ended := object{"scope": k.scope(), "messageId": k.run}
	if k.opts.Standalone && k.message != "" {
		ended["messageId"] = k.message
	}
	k.send("stream.ended", ended)
}
