package watch

import (
	"context"
	"time"
)

// Poll calls look until ctx ends: the first time after wait, and each later time
// after as long as the call before has returned.
func Poll(ctx context.Context, wait time.Duration, look func() (wait time.Duration)) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		if ctx.Err() != nil {
			return
		}
		timer.Reset(look())
	}
}
