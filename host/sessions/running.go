package sessions

import (
	"context"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/threads"
)

// runKey names a run or a session. Tenants of runs and records are those that
// [host.Host.Tenant] returned: each is the name of its partition in the store.
type runKey struct{ tenant, run string }

// backgroundTurn is a turn that a goroutine of this process runs.
type backgroundTurn struct {
	turn     *turn                   // of the goroutine that runs it, until ended is closed
	tenant   string                  // the turn's
	run      string                  // the turn's
	attempt  int                     // the turn's
	cancel   context.CancelCauseFunc // of the run's context
	ended    chan struct{}           // closed when the turn has ended and is stored
	place    *threads.Place          // in the queue of the session's thread
	listener listener                // the stream of a turn that is not detached yet
	released bool                    // the service is closed: another one continues the turn
}

// runningTurns are the background turns of this process.
type runningTurns struct {
	limit    int
	lifetime context.Context // the lifetime of the service: ends with stop, and with it every turn
	end      context.CancelFunc
	working  sync.WaitGroup

	mu     sync.Mutex
	turns  map[runKey]*backgroundTurn
	closed bool
}

func newRunningTurns(limit int) *runningTurns {
	r := &runningTurns{limit: limit, turns: map[runKey]*backgroundTurn{}}
	r.lifetime, r.end = context.WithCancel(context.Background())
	return r
}

// retryBackground is the RetryAfter of a refused background turn: the time that a
// short turn takes.
const retryBackground = time.Second

// add makes room for a turn; a turn over the limit is added if the turn that waits
// for it has lent its room. Code unavailable after stop, resource_exhausted at the
// limit, already_exists for a run that runs here.
func (r *runningTurns) add(d *backgroundTurn, lent bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return host.Errorf(host.Unavailable, "the host is being stopped")
	}
	if len(r.turns) >= r.limit && !lent {
		e := host.Errorf(host.ResourceExhausted, "%d turns run in the background, as many as the limit MaxBackground allows", r.limit).
			WithHint("try again when one has ended")
		e.Limit, e.RetryAfter = "MaxBackground", retryBackground
		return e
	}
	key := runKey{d.tenant, d.run}
	if r.turns[key] != nil {
		return host.Errorf(host.AlreadyExists, "turn %q runs already", d.run)
	}
	r.turns[key] = d
	r.working.Add(1)
	return nil
}

// remove takes a turn out that has ended, and wakes those that wait for it.
func (r *runningTurns) remove(d *backgroundTurn) {
	r.mu.Lock()
	delete(r.turns, runKey{d.tenant, d.run})
	r.mu.Unlock()
	close(d.ended)
	r.working.Done()
}

// find returns a turn that runs here, nil if it does not.
func (r *runningTurns) find(tenant, run string) *backgroundTurn {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.turns[runKey{tenant, run}]
}

// beganHere reports whether a turn runs here from its first attempt: then its place
// in the queue of the thread says which turns come before it.
func (r *runningTurns) beganHere(tenant, run string) bool {
	d := r.find(tenant, run)
	return d != nil && d.attempt == 1
}

// released reports whether another service is to continue a turn.
func (r *runningTurns) released(tenant, run string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.turns[runKey{tenant, run}]
	return d != nil && d.released
}

func (r *runningTurns) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.turns)
}

// stop cancels all turns, releases them to other services and waits for their
// goroutines. It returns how many these were. It may be called twice.
func (r *runningTurns) stop() (stopped int) {
	r.mu.Lock()
	r.closed = true
	for _, d := range r.turns {
		d.released = true
		stopped++
	}
	r.mu.Unlock()
	r.end()
	r.working.Wait()
	return stopped
}

// pollEvery is how often the record of a turn in another process is read while a
// caller waits for its end.
const pollEvery = time.Second

// waitFor waits for the end of a turn; for the time poll if it does not run here.
func (r *runningTurns) waitFor(ctx context.Context, tenant, run string, poll time.Duration) error {
	var ended chan struct{}
	if d := r.find(tenant, run); d != nil {
		ended, poll = d.ended, pollEvery
	}
	timer := time.NewTimer(poll)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
	case <-ctx.Done():
		return fault.AsError(fault.ContextError(ctx))
	}
	return nil
}
