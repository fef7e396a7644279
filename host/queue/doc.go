// Package queue runs work that was left for later: durably, once for each key,
// and fair between tenants, on any [kv.Driver].
//
//	q, err := queue.New(driver, nil)
//	q.Handle("welcome", func(ctx context.Context, job *host.Job) error { ... })
//	err = q.Start(ctx)
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
// has passed, by the next process; such an attempt counts, so that a job that
// kills its host is given up as well. Jobs of a run whose process was killed
// before the run could say whether its turn was stored are decided by
// [Options].RunStatus.
//
// # Tenants
//
// A tenant's jobs are in the tenant's partition. One tenant alone has half of the
// workers; of those that wait, the tenant with the fewest at work goes first. The
// jobs of a tenant are bounded, waiting and dead.
//
// A job whose record cannot be read is left alone until the next process, and holds up
// nothing else.
//
// One process at a time runs the jobs of a store, as one process owns a Badger
// directory.
package queue
