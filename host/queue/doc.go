// Package queue runs jobs later: durably, once for each key, and fair between
// tenants, on any [kv.Driver].
//
//	q := queue.New(driver, nil)
//	q.Handle("welcome", func(ctx context.Context, job *host.Job) error { return greet(ctx, job.Payload) })
//	err := q.Start(ctx)
//	defer q.Close()
//	h, err := host.New(&host.Options{Queue: q})
//
// A tool, a router or a provider enqueues jobs with [host.Enqueue], a plugin with
// its operation queue.send, and all other code with [Queue.Enqueue].
//
// # When a job runs
//
// A job is on disk when Enqueue has returned. A job that a run has enqueued
// waits until the run's turn is stored, and is dropped if the turn is not. Then
// its handler is called, with a time limit, and again after a failure: each wait
// is twice as long as the one before, up to a limit. The queue gives a job up
// after [Options].Attempts, and at once if its error faults the request
// (invalid_argument, not_found and similar codes, unless the error is
// retryable). A job given up is dead: it stays, with its error, until a call of
// [Queue.Retry] or [Queue.Drop], or until it is the oldest of too many.
//
// A handler may be called again for a finished job, if the process ends before
// the queue records the result: it must tolerate that. The queue promises that
// a job whose Enqueue returned is done at least once or is listed among the
// dead, and that a key has one job.
//
// # Crashes
//
// A process takes a job under a lease, [Options].Lease, and renews it while the
// handler runs. If the process is killed, another process or its successor
// takes the job when the lease has passed; the killed attempt counts, so that a
// job that kills its host is given up as well. Jobs of a run whose process was
// killed before the run could say whether its turn was stored are decided by
// [Options].RunStatus, after the same time.
//
// # Several processes
//
// Any number of processes may have a queue on one store (package sockkv shares a
// Badger directory). A job runs in one process at a time, and of the jobs of one
// serial one runs at a time: mostly in the process that enqueued the job, and in
// another if that one looks first; each looks at all jobs when it starts, when
// another has ended, and every [Options].HeldPoll. A process writes a heartbeat
// every third of its lease. No other process takes the jobs that it holds, those
// that it runs and those that wait for its runs, while the heartbeats come; clocks
// that jump do not change that, because the others measure how long they have
// waited for the next heartbeat. A process that was stopped for longer than its
// lease finds its jobs taken: the contexts of their handlers end, and their results
// are ignored.
//
// # Tenants
//
// A tenant's jobs are in the tenant's partition. One tenant alone has half of the
// workers; among waiting tenants, the one with the fewest running jobs goes
// first. The number of a tenant's jobs is bounded, waiting and dead, and so are the
// bytes of those that wait ([Options].MaxBytes).
//
// With several processes, each counts the jobs that the others enqueued when it
// reads them.
//
// A job whose record cannot be read is left alone until the next process, and holds up
// nothing else.
package queue
