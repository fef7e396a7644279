package foreign

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/agenthost/agenthost/host/fault"
)

// Grace is the time that a function may take to return after its context has ended.
const Grace = 2 * time.Second

// Call is a call of code that may panic or never return. Who, Name, Method and Run are
// for errors and the log.
type Call[T any] struct {
	Who    string // the role of the code, such as "history adapter"
	Name   string // its type; may be empty
	Method string
	Run    string
	Logger *slog.Logger
	Fn     func(context.Context) (T, error)
	Late   func(T) // takes a value that comes after Await has returned; may be nil
}

type answer[T any] struct {
	value T
	err   error
}

// Await runs the function in a goroutine of its own and returns its value and error. A
// function that panics or ends its goroutine has an error of code internal. One that
// does not return within [Grace] of the context's end is abandoned, with the context's
// error: it would hold its caller forever.
func (c *Call[T]) Await(ctx context.Context) (T, error) {
	answers := make(chan answer[T])
	abandoned := make(chan struct{})
	go func() {
		var a answer[T]
		returned := false
		defer func() { // also when the function ends its goroutine
			if !returned {
				a = answer[T]{err: fault.Errorf(fault.Internal, "%s failed in %s", c.Who, c.Method)}
			}
			select {
			case answers <- a:
			case <-abandoned:
				if a.err == nil && c.Late != nil {
					c.Late(a.value)
				}
			}
		}()
		c.guard(ctx, func() { a.value, a.err = c.Fn(ctx); returned = true }) // a panic is in the log before the caller sees the error
	}()
	select {
	case a := <-answers:
		return a.value, a.err
	case <-ctx.Done():
	}
	grace := time.NewTimer(Grace)
	defer grace.Stop()
	select {
	case a := <-answers:
		return a.value, a.err
	case <-grace.C:
		close(abandoned)
		c.Logger.ErrorContext(ctx, c.Who+" goes on after its context has ended", "method", c.Method, "run", c.Run)
		var none T
		return none, ctx.Err()
	}
}

// guard runs fn and logs its panic, which would end the process.
func (c *Call[T]) guard(ctx context.Context, fn func()) {
	defer func() {
		if p := recover(); p != nil {
			c.Logger.ErrorContext(ctx, c.Who+" panicked", "name", c.Name, "method", c.Method, "run", c.Run, "panic", p, "stack", string(debug.Stack()))
		}
	}()
	fn()
}

// NamePanic runs fn. A panic of fn continues with the name of its code before its text.
func NamePanic[T any](who string, fn func() (T, error)) (T, error) {
	defer func() {
		if p := recover(); p != nil {
			panic(who + ": " + fmt.Sprint(p))
		}
	}()
	return fn()
}

// EndedBy reports whether err is likely to be a consequence of the end of ctx: its code
// is canceled, deadline_exceeded or internal, and ctx has ended or is past its deadline.
// Code that looks at the clock can see the deadline before the context ends.
func EndedBy(ctx context.Context, err error) bool {
	if ctx.Err() == nil && !overdue(ctx) {
		return false
	}
	code := fault.CodeOf(err)
	return code == fault.Canceled || code == fault.DeadlineExceeded || code == fault.Internal
}

func overdue(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ok && !time.Now().Before(deadline)
}
