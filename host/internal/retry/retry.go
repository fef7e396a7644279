// Package retry spaces the attempts of an operation that fails: each wait is twice as
// long as the one before, up to a limit, with jitter, so that callers that failed
// together do not come back together. The caller decides which operations it retries,
// and how often.
package retry

import (
	"context"
	"math"
	"math/rand/v2"
	"time"
)

// Backoff is a policy. It is immutable and safe for concurrent use.
type Backoff struct {
	First time.Duration // the wait after the first failure
	Last  time.Duration // the longest wait, before jitter

	// Jitter shortens a wait by up to the part Earlier of it and lengthens it by up to
	// the part Later.
	Earlier, Later float64
}

// Wait returns the wait after the given number of consecutive failures, at least one.
func (b Backoff) Wait(failures int) time.Duration {
	d := min(b.First, b.Last)
	for range failures - 1 {
		if d >= b.Last/2 {
			d = b.Last
			break
		}
		d *= 2
	}
	d = min(d, math.MaxInt64/2) // leaves room for the jitter
	earliest := d - time.Duration(float64(d)*b.Earlier)
	latest := d + time.Duration(float64(d)*b.Later)
	return earliest + rand.N(latest-earliest+1)
}

// Sleep waits for d. It returns false at once when ctx ends first.
func Sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
