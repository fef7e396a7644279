package callmeter

import (
	"context"
	"fmt"
	"time"

	"github.com/agenthost/agenthost/host"
)

// deadline is when a call must end: when its caller leaves, or at a time.
type deadline struct {
	caller   context.Context // the lifetime of the caller
	at       time.Time
	ofCaller bool // the time is the caller's, not the limit's
}

func (d *deadline) begin(c *Call) {
	d.caller, d.at, d.ofCaller = c.Context, c.Start.Add(c.Timeout), false
	if at, ok := c.Context.Deadline(); ok && at.Before(d.at) {
		d.at, d.ofCaller = at, true
	}
}

func (d *deadline) passed(now time.Time) bool {
	return d.caller.Err() != nil || !now.Before(d.at)
}

// error returns the error of a call whose time is up.
func (d *deadline) error(subject string, c *Call) error {
	if d.ofCaller { // whose own timer is about to go off
		return &host.Error{Code: host.DeadlineExceeded, Err: context.DeadlineExceeded,
			Message: fmt.Sprintf("%s was stopped: %v", subject, context.DeadlineExceeded)}
	}
	return host.Errorf(host.DeadlineExceeded, "%s ran longer than the limit %s of %s", subject, c.Limits.Timeout, c.Timeout)
}

// EndedError returns the error of work that ended because ctx did: its code is canceled
// or deadline_exceeded, whatever the cause.
func EndedError(ctx context.Context, format string, args ...any) error {
	cause := context.Cause(ctx)
	return &host.Error{Code: host.CodeOf(ctx.Err()), Err: cause,
		Message: fmt.Sprintf(format, args...) + " was stopped: " + cause.Error()}
}
