package project

import (
	"context"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/queue"
)

// drainTimeout is how long a command waits at its end for the jobs that its runs have
// enqueued. In a data directory the next process runs the rest.
const drainTimeout = 5 * time.Second

// openQueue makes the queue, on the threads' store.
func (p *Project) openQueue(driver kv.Driver) {
	p.queue = queue.New(driver, &queue.Options{RunStatus: p.threads.RunStatus, Member: p.hosts.member, Logger: p.logger})
}

// startQueue starts running jobs, including those that earlier commands have left.
func (p *Project) startQueue(ctx context.Context) error {
	p.queue.Handle(plugin.JobName, p.plugins.runtime.HandleJob)
	if err := p.queue.Start(ctx); err != nil {
		return err
	}
	p.closers.add(func() error {
		drain, cancel := context.WithTimeout(ctx, drainTimeout)
		defer cancel()
		_ = p.queue.Drain(drain) // unfinished jobs stay in the queue
		return p.queue.Close()
	})
	return nil
}

// enqueuer is the project's queue for a runtime, which is made before the store is
// open.
type enqueuer struct{ app *Project }

// Enqueue implements [host.Enqueuer].
func (e enqueuer) Enqueue(ctx context.Context, job *host.Job) (string, error) {
	if e.app.queue == nil {
		return "", &host.Error{Code: host.Unavailable, Message: "the queue is not open yet", Retryable: true}
	}
	return e.app.queue.Enqueue(ctx, job)
}
