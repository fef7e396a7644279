package host

import (
	"context"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/agenthost/agenthost/host/fault"
)

// toolGrace is how long a handler may take to return after its context has
// ended.
const toolGrace = 2 * time.Second

// awaitHandler runs the handler, and passes on the events of a call that is pumped. A handler that
// does not return after its context has ended is abandoned: it would hold the run, and
// the thread, forever.
func (tc *toolCalls) awaitHandler(ctx context.Context, tool *Tool, c *toolCall) (*ToolOutput, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	answer := make(chan toolAnswer, 1)
	go tc.runHandler(ctx, tool, c.attempt, answer)
	var events <-chan any
	if c.pumped {
		events = c.batch.Events()
	}
	ended := ctx.Done()
	var late <-chan time.Time
	for {
		select {
		case a := <-answer:
			return a.out, a.err
		case ev := <-events:
			tc.deliver(c.batch, ev)
		case <-ended:
			ended = nil
			grace := time.NewTimer(toolGrace)
			defer grace.Stop()
			late = grace.C
		case <-late:
			tc.events.Log(ctx, slog.LevelError, "tool goes on after its context has ended", "tool", tool.Name)
			return nil, ctx.Err()
		}
	}
}

// handlerStack is how much stack a handler gets at its start.
const handlerStack = 8 << 10

// growStack makes the stack of a new goroutine large enough for most handlers. Decoding
// arguments and calling a sandbox go deep, and a stack that grows there is copied frame by
// frame: 4 µs a call where growing it at its beginning takes a tenth of that.
//
//go:noinline
func growStack(i int) byte {
	var room [handlerStack]byte
	return room[i%handlerStack]
}

type toolAnswer struct {
	out *ToolOutput
	err error
}

// runHandler runs the handler in a goroutine of its own, where a panic would end
// the process, and a runtime.Goexit (a test's FailNow) would never answer.
func (tc *toolCalls) runHandler(ctx context.Context, tool *Tool, call *Call, answer chan<- toolAnswer) {
	growStack(0)
	var a toolAnswer
	defer func() {
		if a.out == nil { // it panicked, or ended its goroutine
			a.err = fault.Disclose(Errorf(Internal, "The tool %s failed.", tool.Name))
		}
		if p := recover(); p != nil {
			tc.events.Log(ctx, slog.LevelError, "tool panicked", "tool", tool.Name, "panic", p, "stack", string(debug.Stack()))
		}
		answer <- a
	}()
	out, err := tool.handler(ctx, call)
	a = toolAnswer{out.own(), err}
}
