package host

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/instrument"
	"github.com/agenthost/agenthost/host/internal/redact"
	"github.com/agenthost/agenthost/host/runevent"
)

// runEvents sends the events of a run to its reader.
type runEvents struct {
	scope  *Scope
	meter  Meter
	tracer Tracer
	logger *slog.Logger

	instrument *instrument.Guard // nil is none
	operation  *instrument.Run   // nil without an instrument

	yield     func(Event, error) bool
	cancel    context.CancelFunc
	seq       int64
	depth     int   // of agents used as tools
	caller    *Call // that an agent used as a tool works for; nil in the run itself
	opened    bool  // RunStarted is sent
	replayed  bool  // the run is answered with a stored turn
	broken    bool  // the reader has left
	reading   bool  // the reader has the goroutine
	stateSent bool  // the whole state has been sent
	whole     bool  // no reader takes deltas: models may answer in one piece
}

// emit sends an event to the reader. When the reader has left, emit cancels the run
// and sends nothing more.
func (e *runEvents) emit(data EventData) {
	ev := Event{Seq: e.seq, Time: time.Now().UTC(), Run: e.scope.Run, Network: e.scope.Network, Agent: e.scope.Agent, Data: data}
	e.seq++
	if meter := e.meter; meter != nil && !e.replayed {
		meter.Measure(*e.scope, ev)
	}
	if t := e.tracer; t != nil && e.depth == 0 && !e.replayed {
		t.Trace(*e.scope, ev)
	}
	if e.broken {
		return
	}
	e.reading = true
	more := e.yield(ev, nil)
	e.reading = false
	if !more {
		e.broken = true
		e.cancel()
	}
}

// log writes down what happened in the run, with its context and where it belongs to.
func (e *runEvents) log(ctx context.Context, level slog.Level, what string, args ...any) {
	e.logger.Log(ctx, level, what, append([]any{"tenant", e.scope.Tenant, "run", e.scope.Run, "thread", e.scope.Thread}, args...)...)
}

// guard makes an error of a panic in code that the run calls, so that the run ends like
// any that fails: its finished messages are stored, and the thread is unlocked. A
// panic of the reader itself is not recovered.
func (e *runEvents) guard(ctx context.Context, who string, fn func() error) (err error) {
	defer func() {
		if e.reading {
			return
		}
		if p := recover(); p != nil {
			e.log(ctx, slog.LevelError, "panic in a run", "agent", e.scope.Agent, "panic", p, "stack", string(debug.Stack()))
			err = Errorf(Internal, "%s panicked: %s", who, redact.Cut(fmt.Sprint(p)))
		}
	}()
	return fn()
}

// logMasked writes down the text of an error that clients do not read.
func (e *runEvents) logMasked(ctx context.Context, what string, err error, args ...any) {
	if fault.Masked(err) && CodeOf(err) != Canceled { // who canceled it knows
		text := strings.ToValidUTF8(err.Error()[:min(len(err.Error()), maxFailureRead)], "")
		e.log(ctx, slog.LevelError, what, append([]any{"code", CodeOf(err), "error", text}, args...)...)
	}
}

// sendState sends the changes of the state since it was last sent.
func (e *runEvents) sendState(state *State) {
	if e.depth > 0 {
		return // the run around it does, when the call has returned
	}
	ops := state.view().TakeAllChanges()
	if !e.stateSent {
		e.stateSent = true
		e.emit(&runevent.StatePatched{Ops: []PatchOp{{Op: "replace", Path: "", Value: state.JSON()}}})
		return
	}
	if len(ops) > 0 {
		e.emit(&runevent.StatePatched{Ops: ops})
	}
}
