package stream

import (
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runevent"
)

// AgentKitOptions are the optional parts of the encoder of AgentKit's chunks.
type AgentKitOptions struct {
	// Standalone says that an agent runs, and no network: AgentKit streams the two
	// differently.
	Standalone bool

	// User, if set, is the userId of every chunk.
	User string

	// SimulateChunking splits whole texts, arguments and results into several chunks,
	// as AgentKit's option of that name does: texts and arguments of more than 50
	// UTF-16 units, and tools' results of more than 80. It is for models that do not
	// stream, and clients that show a text as it grows. A character is not cut.
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
// or none. The chunks come in AgentKit's order, with these differences:
//
//   - Arguments come in the pieces that the model sends, and reasoning as parts of
//     that type (reasoning.delta).
//   - A tool's output has the partId and the messageId of its call, by which the
//     client finds it. AgentKit gives it a part of its own, and its client then takes
//     the last call without an output, which is another one when calls run in
//     parallel or the run was interrupted in between.
//   - A question to a person is hitl.requested. Its runId is the id that
//     host.Request.Resume takes, its partId the call's, which useAgent hands to
//     approveToolCall as toolCallId, and its request the question as the host has it.
//   - run.failed and run.interrupted are followed by stream.ended and nothing else;
//     AgentKit sends run.completed in between. An agent that asks is not completed.
//   - The ids of a run that resumes another have the time of its beginning,
//     publish-1735689600000-0:run.started: the client drops a chunk whose id,
//     message and part it has seen, and these are the first run's. So have the ids of
//     its texts, which may stand in that run's message if its process had ended.
//   - A failure of a tool is {"error":{"name","message"}} without a stack.
//
// Events without a chunk in AgentKit (processors, state, usage, progress of a
// tool, retries) are left out.
func AgentKit(opts *AgentKitOptions) Encoder {
	if opts == nil {
		opts = &AgentKitOptions{}
	}
	return &agentKit{opts: *opts, calls: map[int]*part{}, called: map[string]*part{}, begun: map[string]bool{}}
}

type agentKit struct {
	opts   AgentKitOptions
	ids    string // the prefix of the chunks' ids, contained in the parts' ids
	seq    int64
	parts  int // of texts and reasoning, so far
	agents int // runs of agents so far

	run, thread, network string
	agentRun, agent      string // the agent at work
	message              string // that its parts belong to: the id of its result
	round                int    // of its last answer
	replayed             bool   // the run's answers are stored ones

	text   *part            // being written; nil between texts
	calls  map[int]*part    // being written, by their place in the answer
	called map[string]*part // of the last answer, by the ids of the calls
	begun  map[string]bool  // ids of calls' parts of the agent at work

	dst []Frame
	ev  host.Event
	err error
}

// part is a piece of a message.
type part struct {
	id, message string
	kind        string
	content     []byte
	name        string // of a call's tool
	told        bool   // the name has been
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
	case *runevent.RunStarted:
		k.runStarted(d)
	case *runevent.AgentStarted:
		k.agentStarted(d)
	case *runevent.ModelCalled:
		k.round = d.Round
	case *runevent.TextDelta:
		k.delta("text", "text.delta", d.Text)
	case *runevent.ModelRetried, *runevent.ModelFellBack:
		k.abandon() // a new answer begins
	case *runevent.ReasoningDelta:
		k.delta("reasoning", "reasoning.delta", d.Text)
	case *llm.ToolCallDelta:
		k.callDelta(d.Index, d.Name, d.Arguments)
	case *runevent.MessageDone:
		if k.replayed && d.Message.Role == host.Assistant {
			k.round++ // no model is asked, and calls have the keys that they had
		}
		k.messageDone(d.Message)
	case *runevent.ToolFinished:
		if d.Parent == "" { // AgentKit knows the calls of models alone
			k.output(d)
		}
	case *runevent.Interrupted:
		k.asked(d)
	case *runevent.AgentFinished:
		k.agentFinished(d)
	case *runevent.RunFinished:
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
	id := fmt.Sprintf("publish-%s%d:%s", k.ids, k.seq, event)
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

func (k *agentKit) runStarted(d *runevent.RunStarted) {
	k.run, k.thread, k.network, k.replayed = k.ev.Run, d.Thread, k.ev.Network, d.Replayed
	if d.Resumes != "" {
		k.ids = fmt.Sprintf("%d-", k.ev.Time.UnixMilli())
	}
	if !k.opts.Standalone {
		k.send("run.started", object{"runId": k.run, "scope": "network", "name": k.network, "messageId": k.run})
	}
}

func (k *agentKit) agentStarted(d *runevent.AgentStarted) {
	k.agent, k.round = k.ev.Agent, 0
	clear(k.called)
	clear(k.begun)
	k.message = cmp.Or(d.Result, fmt.Sprintf("%s/%d", k.run, k.agents))
	k.agents++
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

// newPart opens a part of the agent's message.
func (k *agentKit) newPart(kind string) *part {
	k.parts++
	return k.open(&part{id: fmt.Sprintf("part_%s_%s%d", ending(k.run), k.ids, k.parts), message: k.message, kind: kind})
}

func (k *agentKit) open(p *part) *part {
	k.send("part.created", k.partData(p, nil))
	return p
}

// ending returns the last bytes of an id, so that a part's stays within the 40
// characters of AgentKit's.
func ending(id string) string { return strings.ToValidUTF8(id[max(0, len(id)-8):], "") }

// callPart returns the part of a call by its key, which is that of its agent's
// result, the round and the place in the answer. A run that resumes the call knows
// the key as well, and so finds the part.
func callPart(key string) *part {
	elements := strings.Split(key, "/") // a run's id may have slashes of its own
	n := max(len(elements), keyElements)
	elements = append(make([]string, n-len(elements)), elements...)
	return &part{id: "call_" + ending(strings.Join(elements[:n-3], "/")) + "_" + strings.Join(elements[n-3:], "_"),
		message: strings.Join(elements[:n-2], "/")}
}

// keyElements are those of a call's key: run, agent's run, round, place.
const keyElements = 4

// callOf returns the part of a call: of the last answer, or of a run before.
func (k *agentKit) callOf(id, key string) *part {
	switch p := k.called[id]; {
	case p != nil:
		return p
	case key == "": // of a program that makes events itself
		return &part{id: id, message: k.message}
	}
	return callPart(key)
}

func (k *agentKit) partData(p *part, final any) object {
	metadata := object{"agentName": k.agent}
	if p.name != "" {
		metadata["toolName"] = p.name
	}
	data := object{"partId": p.id, "runId": k.agentRun, "messageId": p.message, "type": p.kind, "metadata": metadata}
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
		k.text = k.newPart(kind)
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
		at := callPart(fmt.Sprintf("%s/%d/%d", k.message, k.round, index))
		p.id, p.message, p.name = at.id, at.message, name
		if !k.begun[p.id] { // an answer that was cut off may have had a call here
			k.open(p)
		}
		k.begun[p.id] = true
		k.argumentsDelta(p, string(p.content))
	}
}

func (k *agentKit) argumentsDelta(p *part, arguments string) {
	if arguments == "" {
		return
	}
	for piece := range k.pieces(arguments, chunkedText) {
		data := object{"partId": p.id, "messageId": p.message, "delta": piece}
		if !p.told {
			p.told = true
			data["toolName"] = p.name
		}
		k.send("tool_call.arguments.delta", data)
	}
}

// messageDone ends the open chunks. It sends the parts that the model did not
// stream.
func (k *agentKit) messageDone(m *host.Message) {
	if m.Role != host.Assistant {
		return
	}
	if text := m.Text(); text != "" && k.text == nil && len(k.calls) == 0 {
		k.delta("text", "text.delta", text)
	}
	k.endText()
	clear(k.called)
	for i, c := range m.ToolCalls() {
		if p := k.calls[i]; p == nil || p.id == "" {
			delete(k.calls, i)
			k.callDelta(i, c.Name, string(c.Arguments))
		}
		k.complete(k.calls[i], c.Arguments)
		k.called[c.ID] = k.calls[i]
	}
	clear(k.calls)
}

// output is a tool's result, in the wrapper that AgentKit puts around it. It is a
// part of another type with the id of the call's.
func (k *agentKit) output(d *runevent.ToolFinished) {
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
	call := k.callOf(d.ID, d.Key)
	p := k.open(&part{id: call.id, message: call.message, kind: "tool-output", name: d.Name})
	for piece := range k.pieces(string(raw), chunkedOutput) {
		k.send("tool_call.output.delta", object{"partId": p.id, "messageId": p.message, "delta": piece})
	}
	k.complete(p, json.RawMessage(raw))
}

// asked is a question to a person. AgentKit names the chunk but not its
// content: here the content is the host's question, unchanged.
func (k *agentKit) asked(d *runevent.Interrupted) {
	q := d.Question
	call := k.callOf(slices.Concat(q.Via, []string{q.ToolCall})[0], d.Key)
	k.send("hitl.requested", object{"runId": k.run, "partId": call.id, "messageId": call.message,
		"toolCallId": q.ToolCall, "toolName": q.Tool, "request": q})
}

func (k *agentKit) agentFinished(d *runevent.AgentFinished) {
	k.abandon()
	unfinished := []host.FinishReason{chat.FinishFailed, chat.FinishCanceled, chat.FinishInterrupted}
	if !k.opts.Standalone && !slices.Contains(unfinished, d.FinishReason) {
		k.send("run.completed", object{"runId": k.agentRun, "scope": "agent", "name": k.agent, "messageId": k.message})
	}
}

// abandon ends the open chunks of an answer that was cut off.
func (k *agentKit) abandon() {
	k.endText()
	clear(k.calls)
}

func (k *agentKit) runFinished(d *runevent.RunFinished) {
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
	case d.FinishReason == chat.FinishInterrupted:
		k.send("run.interrupted", about(nil))
	default:
		k.send("run.completed", about(nil))
	}
	ended := object{"scope": k.scope(), "messageId": k.run}
	if k.opts.Standalone && k.message != "" {
		ended["messageId"] = k.message
	}
	k.send("stream.ended", ended)
}
