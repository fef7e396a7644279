package datadir

import (
	"context"
	"errors"
	"time"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/kv"
)

// lockPoll is the time between two attempts to open a directory that another process
// has open.
const lockPoll = 100 * time.Millisecond

// WaitLock calls open, and calls it again while its error wraps [kv.ErrLocked], for at
// most Options.WaitLock. It returns the last error of open, or that of the context if the
// context ends first. The logger gets one warning, with the first error, which names the
// other process if its id is known.
func WaitLock(ctx context.Context, options *Options, open func() error) error {
	opts := options.filled()
	err := open()
	if opts.WaitLock <= 0 || !errors.Is(err, kv.ErrLocked) {
		return err
	}
	opts.Logger.WarnContext(ctx, "waiting for the process that has the data directory open", "at_most", opts.WaitLock, "error", err)
	end := time.Now().Add(opts.WaitLock)
	for errors.Is(err, kv.ErrLocked) {
		left := time.Until(end)
		if left <= 0 {
			return err
		}
		timer := time.NewTimer(min(lockPoll, left))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fault.ContextError(ctx)
		}
		err = open()
	}
	return err
}
