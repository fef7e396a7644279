package project

import (
	"context"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host/erasure"
)

// maxErasureWait bounds how long a finished command waits for the deletion of a tenant
// that it has resumed. The next command resumes the rest of the deletion.
const maxErasureWait = 2 * time.Minute

// resumeErasures completes interrupted deletions of tenants while a command runs that
// has the store to itself. A live host completes them in its retention sweeps.
func (p *Project) resumeErasures(ctx context.Context) error {
	if p.data.Badger() == nil || p.live { // a database's are resumed by the hosts that serve it
		return nil
	}
	begun, err := p.data.Badger().Erasing(ctx)
	if err != nil || len(begun) == 0 {
		return err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() {
		if err := p.Erasures().Resume(ctx); err != nil && ctx.Err() == nil {
			p.logger.Warn("end a deletion of a tenant that was interrupted", "error", err)
		}
	})
	p.closers.add(func() error {
		defer cancel()
		late := time.AfterFunc(maxErasureWait, func() {
			p.logger.Warn("the deletion of a tenant that was interrupted has not ended; the next command goes on", "waited", maxErasureWait)
			cancel()
		})
		defer late.Stop()
		running.Wait()
		return nil
	})
	if p.erasing != nil {
		p.erasing(len(begun))
	}
	return nil
}

// Erasures returns the deletion of tenants from all of the project's data. If another
// process has the data directory open, the error of each method has code
// failed_precondition.
func (p *Project) Erasures() *erasure.Tenants { return p.erasures }
