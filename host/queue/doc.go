// Package queue runs work that was left for later: durably, once for each key,
// and fair between tenants, on any [kv.Driver].
//
//	q := queue.New(driver, nil)
//	q.Handle("welcome", func(ctx context.Context, job *host.Job) error { return greet(ctx, job.Payload) })
//	err := q.Start(ctx)
//	defer q.Close()
//	h, err := host.New(&host.Options{Queue: q})
//
// A tool, a router, a provider leaves work with [host.Enqueue], a plugin with its
// operation queue.send, and everybody else with [Queue.Enqueue].
//
// # When a job runs
//
// A job is on disk when Enqueue has returned. If a run has left it, it waits
// until the run's turn is stored, and is dropped if the turn is not. Then its
// handler is called, with a time limit, and again after a failure: each wait is
// twice as long as the one before, up to a limit. A job is given up after
// [Options].Attempts, and at once if its error says that it was asked wrongly
// (invalid_argument, not_found and their like, unless the error is retryable). A
// job that was given up is dead: it stays, with its error, until somebody says
// [Queue.Retry] or [Queue.Drop], or it is the oldest of too many.
//
// A handler may be called again for work that it has done, if the process ends
// between the two: it must bear that. What is promised is that a job whose
// Enqueue returned is done at least once or is seen among the dead, and that of
// jobs with one key there is one.
//
// # Crashes
//
// Whoever takes a job holds it for a while, [Options].Lease, and holds on while
// its handler runs. If the process is killed, the job is taken again when that
// has passed, by another process or the next; such an attempt counts, so that a
// job that kills its host is given up as well. Jobs of a run whose process was
// killed before the run could say whether its turn was stored are decided by
// [Options].RunStatus, after the same time.
//
// # Several processes
//
// Any number of processes may have a queue on one store (package sockkv shares a
// Badger directory). A job runs in one of them, and of a serial one job, in
// whichever: mostly in the one that it was left in, and in another if that comes to
// look first; each looks at everything when it starts, when another has ended, and
// every [Options].HeldPoll. A process says every third of its lease that it lives.
// What it holds, jobs that it runs and jobs that wait for its runs, nobody else
// takes as long as it does; clocks that jump do not change that, for what counts is
// how long the others have waited for the next sign. A process that was stopped for
// longer than its lease finds its jobs taken: the contexts of their handlers end,
// and what they say is not heard.
//
// # Tenants
//
// A tenant's jobs are in the tenant's partition. One tenant alone has half of the
// workers; of those that wait, the tenant with the fewest at work goes first. The
// jobs of a tenant are bounded, waiting and dead.
//
// With several processes each counts what the others have left when it looks at it.
//
// A job whose record cannot be read is left alone until the next process, and holds up
// nothing else.
package queue
