package main

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// maxErasureWait bounds how long a command that is done waits for the deletion of a
// tenant which it has taken up. The next command takes up what is left.
const maxErasureWait = 2 * time.Minute

// resumeErasures ends deletions of tenants that were interrupted, while a command runs
// that has the store to itself. A live host does it with what it removes anyway.
func (a *app) resumeErasures(ctx context.Context) error {
	if a.data.db == nil || a.live {
		return nil
	}
	begun, err := a.data.db.Erasing(ctx)
	if err != nil || len(begun) == 0 {
		return err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() {
		if err := a.erasures().Resume(ctx); err != nil && ctx.Err() == nil {
			a.logger.Warn("end a deletion of a tenant that was interrupted", "error", err)
		}
	})
	a.closers = append(a.closers, func() error {
		defer cancel()
		late := time.AfterFunc(maxErasureWait, func() {
			a.logger.Warn("the deletion of a tenant that was interrupted has not ended; the next command goes on", "waited", maxErasureWait)
			cancel()
		})
		defer late.Stop()
		running.Wait()
		return nil
	})
	fmt.Fprintf(a.env.stderr, "Ending the deletion of %s that was interrupted.\n", plural(len(begun), "tenant"))
	return nil
}
