package instrument

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/foreign"
)

// Instrument is called around the operations of a host. Package otelhost has one.
type Instrument interface {
	// Begin is called when an operation begins. It returns the context under which the
	// operation runs, made of ctx, and a function that is called once when the operation
	// has ended; either may be nil for none. The operations inside of an operation begin
	// with its context.
	//
	// Many goroutines call Begin at once, and the function that ends an operation is
	// called in another goroutine than Begin where the operation ended there. An
	// operation waits for both: they must return at once. A tool that does not return
	// after its context has ended is abandoned, so operations inside of one may end
	// after the operation around them, and after the run.
	//
	// The fields of op that are marked "at the end" are set when the function is called.
	// Nothing of op but the Header of an [HTTP] must be changed, and messages, requests and answers must not be kept.
	//
	// err is the operation's error with its full text, which no client and no other
	// tenant may read: see host/fault.ForClient. That of an operation whose context ended
	// has code canceled or deadline_exceeded. An operation that panicked has code
	// internal.
	//
	// A panic in Begin or in the function is logged and does nothing to the operation. A
	// context that is not made of ctx is not used.
	Begin(ctx context.Context, op Operation) (_ context.Context, end func(err error))
}

// Money is an amount by a table of prices.
type Money struct {
	Amount   int64  // in billionths of the currency
	Currency string // "" if there is no price
}

// Options are the optional parts of a guard.
type Options struct {
	// Price returns the price of a call of a model; nil has no prices.
	Price  func(model string, used chat.Usage) Money
	Logger *slog.Logger // receives panics; nil discards
}

// Guard calls an instrument around operations, and keeps its faults from them. Hosts
// have one; so do the parts of a host that it calls with a context: see [FromContext].
// It is safe for concurrent use.
type Guard struct {
	instrument Instrument
	opts       Options
}

// NewGuard returns a guard; nil, which is none, for a nil instrument.
func NewGuard(in Instrument, opts *Options) *Guard {
	if in == nil {
		return nil
	}
	g := &Guard{instrument: in}
	if opts != nil {
		g.opts = *opts
	}
	if g.opts.Logger == nil {
		g.opts.Logger = slog.New(slog.DiscardHandler)
	}
	return g
}

type guardKey struct{}

// NewContext returns a context that carries the guard.
func (g *Guard) NewContext(ctx context.Context) context.Context {
	return context.WithValue(ctx, guardKey{}, g)
}

// FromContext returns the guard of the host whose run ctx belongs to; nil outside a run and
// on a host without an instrument.
func FromContext(ctx context.Context) *Guard {
	g, _ := ctx.Value(guardKey{}).(*Guard)
	return g
}

// Start tells the instrument that an operation begins, and returns the operation's context.
// The caller ends the operation once, by its method End.
func (g *Guard) Start(ctx context.Context, op Operation) (inner context.Context) {
	s := op.state()
	s.guard, s.began = g, time.Now()
	defer func() {
		g.logPanic(ctx, recover())
		if inner == nil || inner.Value(guardKey{}) != ctx.Value(guardKey{}) {
			inner = ctx
		}
	}()
	inner, s.end = g.instrument.Begin(ctx, op)
	return inner
}

// Do runs fn as an operation that ends when fn returns or panics. The instrument's error
// has the code of the end of the operation's context, if it is a consequence of that.
func Do[T any](ctx context.Context, g *Guard, op Operation, fn func(context.Context) (T, error)) (out T, err error) {
	ctx = g.Start(ctx, op)
	err = fault.Errorf(fault.Internal, "the operation panicked")
	defer func() {
		seen := err
		if foreign.EndedBy(ctx, err) {
			seen = &fault.Error{Code: fault.CodeOf(fault.ContextError(ctx)), Message: err.Error(), Err: err}
		}
		op.End(seen)
	}()
	out, err = fn(ctx)
	return out, err
}

func (g *Guard) logPanic(ctx context.Context, p any) {
	if p != nil {
		g.opts.Logger.ErrorContext(ctx, "instrument panicked", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	}
}
