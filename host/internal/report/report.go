// Package report sends the events of a run to its reader, its meter and its tracer.
//
// The data of events goes in, from the run's goroutine; events come out, numbered without
// gaps and with the run and the agent at work. A reader that leaves cancels the run and
// gets nothing more. Changes of the state are sent once, after the whole state. The log and
// the guard of panics are here too, for both name the run.
//
// A [Reporter] is used by one goroutine at a time, but for its log, which any may write to
// while the agent at work stays. It knows no network and no tool.
package report

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
	"github.com/agenthost/agenthost/host/internal/redact"
	"github.com/agenthost/agenthost/host/internal/statedoc"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runevent"
)

// Reporter sends the events of a run, or of an agent that works as a tool in one.
type Reporter struct {
	Scope  *llm.Scope // the current one of the run
	Logger *slog.Logger
	Meter  interface { // nil is none
		Measure(scope llm.Scope, ev runevent.Event)
	}
	Tracer interface { // nil is none
		Trace(scope llm.Scope, ev runevent.Event)
	}
	Yield  func(runevent.Event, error) bool
	Cancel context.CancelFunc
	Whole  bool // no reader takes deltas: models may answer in one piece

	Replayed bool // the run is answered with a stored turn
	Broken   bool // the reader has left

	Depth  int    // of agents used as tools
	Around Around // nil in the run itself

	seq       int64
	reading   bool // the reader has the goroutine
	stateSent bool // the whole state has been sent
}

// Around is the call that an agent used as a tool works for. The run around it sends the
// changes and artifacts that it is given.
type Around interface {
	Changed(revision int64) // changes of the state, up to a revision
	Made(a chat.Artifact)
}

// Branch returns the reporter of an agent used as a tool, whose events have numbers of
// their own. It has the reader of r until it gets one.
func (r *Reporter) Branch() Reporter {
	b := *r
	b.seq, b.Depth = 0, r.Depth+1
	return b
}

// Emit sends an event to the reader. When the reader has left, Emit cancels the run
// and sends nothing more.
func (r *Reporter) Emit(data runevent.Data) {
	ev := runevent.Event{Seq: r.seq, Time: time.Now().UTC(), Run: r.Scope.Run, Network: r.Scope.Network, Agent: r.Scope.Agent, Data: data}
	r.seq++
	if r.Meter != nil && !r.Replayed {
		r.Meter.Measure(*r.Scope, ev)
	}
	if r.Tracer != nil && r.Depth == 0 && !r.Replayed {
		r.Tracer.Trace(*r.Scope, ev)
	}
	if r.Broken {
		return
	}
	r.reading = true
	more := r.Yield(ev, nil)
	r.reading = false
	if !more {
		r.Broken = true
		r.Cancel()
	}
}

// Log writes an entry of the run to the log, with its context, tenant and thread.
func (r *Reporter) Log(ctx context.Context, level slog.Level, message string, args ...any) {
	r.Logger.Log(ctx, level, message, append([]any{"tenant", r.Scope.Tenant, "run", r.Scope.Run, "thread", r.Scope.Thread}, args...)...)
}

// LogMasked logs the text of an error that clients do not read.
func (r *Reporter) LogMasked(ctx context.Context, message string, err error, args ...any) {
	if fault.Masked(err) && fault.CodeOf(err) != fault.Canceled { // who canceled it knows
		text := strings.ToValidUTF8(err.Error()[:min(len(err.Error()), redact.MaxRead)], "")
		r.Log(ctx, slog.LevelError, message, append([]any{"code", fault.CodeOf(err), "error", text}, args...)...)
	}
}

// Guard makes an error of a panic in code that the run calls, so that the run ends like
// any that fails: its finished messages are stored, and the thread is unlocked. A
// panic of the reader itself is not recovered.
func (r *Reporter) Guard(ctx context.Context, who string, fn func() error) (err error) {
	defer func() {
		if r.reading {
			return
		}
		if p := recover(); p != nil {
			r.Log(ctx, slog.LevelError, "panic in a run", "agent", r.Scope.Agent, "panic", p, "stack", string(debug.Stack()))
			err = fault.Errorf(fault.Internal, "%s panicked: %s", who, redact.Cut(fmt.Sprint(p)))
		}
	}()
	return fn()
}

// SendState sends the changes of the state since it was last sent. Those of an agent used
// as a tool are sent by the run around it, when the call has returned.
func (r *Reporter) SendState(state *statedoc.View) {
	if r.Depth > 0 {
		return
	}
	ops := state.TakeAllChanges()
	if !r.stateSent {
		r.stateSent = true
		raw, _ := state.Snapshot()
		r.Emit(&runevent.StatePatched{Ops: []jsondoc.Op{{Op: "replace", Path: "", Value: raw}}})
		return
	}
	if len(ops) > 0 {
		r.Emit(&runevent.StatePatched{Ops: ops})
	}
}

// SendChanges sends the changes of the state up to a revision, an event each. Those in an
// agent used as a tool are for the run around it to send.
func (r *Reporter) SendChanges(state *statedoc.View, revision int64) {
	if r.Around != nil {
		r.Around.Changed(revision)
		return
	}
	for _, ops := range state.TakeChanges(revision) {
		r.Emit(&runevent.StatePatched{Ops: ops})
	}
}

// SendArtifacts sends artifacts, also to the run around an agent used as a tool.
func (r *Reporter) SendArtifacts(artifacts []chat.Artifact) {
	for _, a := range artifacts {
		r.Emit(&runevent.ArtifactMade{Artifact: &a})
		if r.Around != nil {
			r.Around.Made(a)
		}
	}
}
