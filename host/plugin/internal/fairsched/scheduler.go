package fairsched

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Scheduler decides which calls run. It has a number of permits; a call that runs
// holds one. A call gives its permit back while it is blocked, and whenever
// [Scheduler.Check] finds that another flow's call is next.
//
// Calls belong to flows, and permits are shared between flows, not calls: the flow
// that has used the least runs first, so that a flow with a thousand waiting calls
// is served like one with a single call. Within a flow, calls that have started run
// before those that have not, and the rest in the order of arrival.
//
// The scheduler also bounds the calls that have started and are not suspended. A flow may
// start as many calls as others could still start, so a single greedy flow gets half, and
// the next flow always has room.
//
// All methods may be called by many goroutines at once.
type Scheduler struct {
	maxCalls int // bound on started

	mu       sync.Mutex
	permits  int   // free ones
	started  int   // calls
	clock    int64 // virtual time: the pass of the flow that was served last
	flows    map[string]*Flow
	runQueue []*Flow   // flows with waiting calls
	spare    []*Waiter // to be used again
}

// Flow is one party to a [Scheduler], for example a tenant, and all its calls. Its
// unexported fields are guarded by the scheduler's mutex.
type Flow struct {
	// Memory is how many bytes the calls of the flow hold. The scheduler does not use
	// it; it is here because the host of a call has its flow without a lookup.
	Memory atomic.Int64

	name      string
	pass      int64     // virtual time: units used, or forgone by not asking
	calls     int       // in progress, waiting ones too
	started   int       // of calls
	queue     []*Waiter // calls that wait
	resumable int       // of queue, those that have started
}

// Waiter is a call that waits for a permit.
type Waiter struct {
	ready   chan struct{} // gets one value when the permit is granted
	starts  bool          // the call has not started
	granted bool          // ready has been sent to; guarded by the scheduler's mutex
}

// The numbers below are in the caller's unit of use; they fit instructions of a
// WebAssembly guest, of which a core runs one to two billion a second.
const (
	// MaxCredit is how far the use of an idle flow may fall behind the others': when it
	// returns, it gets this much, some milliseconds, before all others.
	MaxCredit = 10_000_000
	// quantum is by how much the use of a running call's flow may exceed another's
	// before the call gives its permit to the other flow: half a millisecond and more,
	// long against the cost of the switch.
	quantum = 1_000_000
	// longQuantum is the same towards calls of the same flow.
	longQuantum = 20_000_000
	// maxFlows is how many flows are kept before those without calls are swept.
	maxFlows = 1024
	// maxSpareWaiters bounds how many waiters are kept for reuse.
	maxSpareWaiters = 256
)

// ErrBusy says that no permit was free within the caller's patience.
var ErrBusy = errors.New("every turn is taken")

// New returns a scheduler with running permits, in which at most calls calls may have
// started at a time.
func New(running, calls int) *Scheduler {
	return &Scheduler{permits: running, maxCalls: calls, flows: map[string]*Flow{}}
}

// Stats is the state of a [Scheduler] at a moment.
type Stats struct {
	Free    int // permits that no call has
	Waiting int // calls in the run queue
	Flows   map[string]FlowStats
}

// FlowStats is the state of a [Flow] at a moment.
type FlowStats struct {
	Calls   int   // started and waiting
	Started int   // of them
	Waiting int   // of them
	Used    int64 // its virtual time
	Memory  int64
}

// Stats returns the state of the scheduler.
func (s *Scheduler) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Stats{Free: s.permits, Flows: make(map[string]FlowStats, len(s.flows))}
	for _, f := range s.runQueue {
		st.Waiting += len(f.queue)
	}
	for name, f := range s.flows {
		st.Flows[name] = FlowStats{Calls: f.calls, Started: f.started, Waiting: len(f.queue), Used: f.pass, Memory: f.Memory.Load()}
	}
	return st
}

// Enter starts a call of the named flow: it waits for a permit until ctx ends or
// patience is over. The error is [ErrBusy] or that of ctx. A call that has entered
// ends with [Scheduler.Leave].
func (s *Scheduler) Enter(ctx context.Context, flow string, patience time.Duration) (*Flow, error) {
	s.mu.Lock()
	f := s.flow(flow)
	f.calls++
	if s.permits > 0 && len(f.queue) == 0 && s.mayStart(f) {
		s.start(f)
		s.mu.Unlock()
		return f, nil
	}
	w := s.wait(f, true)
	s.mu.Unlock()
	if err := s.Await(ctx, f, w, patience); err != nil {
		s.mu.Lock()
		s.forget(f)
		s.mu.Unlock()
		return nil, err
	}
	return f, nil
}

// Leave ends a call. used is its use since it was last reported; permit says that
// the call holds one.
func (s *Scheduler) Leave(f *Flow, used int64, permit bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.pass += used
	s.started--
	f.started--
	s.forget(f)
	if permit {
		s.permits++
	}
	s.dispatch()
}

// Block begins a blocking section: it gives the permit of a call back while the call
// waits for something else. used is as for [Scheduler.Leave].
func (s *Scheduler) Block(f *Flow, used int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.pass += used
	s.permits++
	s.dispatch()
}

// Unblock ends a blocking section: it waits for a permit as [Scheduler.Enter] does.
// With an error the call holds none.
func (s *Scheduler) Unblock(ctx context.Context, f *Flow, patience time.Duration) error {
	s.mu.Lock()
	if s.permits > 0 { // no waiting call could use it
		s.acquire(f)
		s.mu.Unlock()
		return nil
	}
	w := s.wait(f, false)
	s.mu.Unlock()
	return s.Await(ctx, f, w, patience)
}

// Suspend is [Scheduler.Block] for a call that waits for others to start: it gives back its
// place among those that have started, too.
func (s *Scheduler) Suspend(f *Flow, used int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started--
	f.started--
	f.pass += used
	s.permits++
	s.dispatch()
}

// Resume is [Scheduler.Unblock] for a suspended call. It has started again at once, beyond
// the bound if need be: those that have places may wait for it. With an error it has only
// no permit.
func (s *Scheduler) Resume(ctx context.Context, f *Flow, patience time.Duration) error {
	s.mu.Lock()
	s.started++
	f.started++
	s.mu.Unlock()
	return s.Unblock(ctx, f, patience)
}

// Check adds used to a flow and reports whether the running call keeps its permit,
// which it has held for ran units. It returns nil if so. If not, the permit has been
// given to another call, and this one has to [Scheduler.Await] w.
func (s *Scheduler) Check(f *Flow, used, ran int64) (w *Waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.pass += used
	first := s.first()
	switch {
	case first == nil:
	case first != f && first.pass+quantum < f.pass:
		w = s.wait(f, false)
	case first == f && ran >= longQuantum:
		w = s.waitBehind(f)
	}
	if w == nil {
		s.clock = max(s.clock, f.pass)
		return nil
	}
	s.permits++
	s.dispatch()
	return w
}

// flow returns the flow of a name, and makes a missing one.
func (s *Scheduler) flow(name string) *Flow {
	f := s.flows[name]
	if f == nil {
		if len(s.flows) >= maxFlows {
			s.sweep()
		}
		f = &Flow{name: name}
		s.flows[name] = f
	}
	f.pass = max(f.pass, s.clock-MaxCredit)
	return f
}

// forget removes a call from its flow. It keeps a flow that has used more than others,
// so that a flow does not lose its debt by leaving.
func (s *Scheduler) forget(f *Flow) {
	if f.calls--; f.calls == 0 && f.pass <= s.clock-MaxCredit {
		delete(s.flows, f.name)
	}
}

// sweep removes the flows that a new flow would be equal to. If more than half of the
// flows remain, it removes all flows without calls: memory is worth more than a few
// milliseconds of fairness.
func (s *Scheduler) sweep() {
	idle := func(most int64) {
		for name, f := range s.flows {
			if f.calls == 0 && f.pass <= most {
				delete(s.flows, name)
			}
		}
	}
	if idle(s.clock - MaxCredit); len(s.flows) > maxFlows/2 {
		idle(math.MaxInt64)
	}
}

// mayStart reports whether another call of a flow may start.
func (s *Scheduler) mayStart(f *Flow) bool { return f.started < s.maxCalls-s.started }

// start gives a permit to a call that has not started.
func (s *Scheduler) start(f *Flow) {
	s.started++
	f.started++
	s.acquire(f)
}

// acquire takes a permit for a call of a flow.
func (s *Scheduler) acquire(f *Flow) {
	s.permits--
	s.clock = max(s.clock, f.pass)
}

// wait queues a call: behind those of its flow if it has not started, before them if
// it has.
func (s *Scheduler) wait(f *Flow, starts bool) *Waiter {
	w := s.newWaiter(starts)
	if starts || len(f.queue) == 0 {
		s.enqueue(f, w)
		return w
	}
	f.queue = slices.Insert(f.queue, 0, w)
	f.resumable++
	return w
}

// waitBehind queues a call that has started behind the others of its flow.
func (s *Scheduler) waitBehind(f *Flow) *Waiter {
	w := s.newWaiter(false)
	s.enqueue(f, w)
	return w
}

// enqueue appends a call to the queue of its flow.
func (s *Scheduler) enqueue(f *Flow, w *Waiter) {
	if len(f.queue) == 0 {
		s.runQueue = append(s.runQueue, f)
	}
	f.queue = append(f.queue, w)
	if !w.starts {
		f.resumable++
	}
}

func (s *Scheduler) newWaiter(starts bool) *Waiter {
	w := &Waiter{ready: make(chan struct{}, 1)}
	if n := len(s.spare); n > 0 {
		w, s.spare = s.spare[n-1], s.spare[:n-1]
	}
	w.starts, w.granted = starts, false
	return w
}

// first returns the flow that the next permit is for, nil if none could use it.
func (s *Scheduler) first() (first *Flow) {
	for _, f := range s.runQueue {
		if (first == nil || f.pass < first.pass) && (f.resumable > 0 || s.mayStart(f)) {
			first = f
		}
	}
	return first
}

// nextCall returns the call of a flow that runs next: the first in the queue or, where
// none may start, the first of those that have started.
func (s *Scheduler) nextCall(f *Flow) *Waiter {
	if f.resumable == 0 || s.mayStart(f) {
		return f.queue[0]
	}
	return f.queue[slices.IndexFunc(f.queue, func(w *Waiter) bool { return !w.starts })]
}

// dispatch gives the free permits to waiting calls.
func (s *Scheduler) dispatch() {
	for s.permits > 0 {
		f := s.first()
		if f == nil {
			return
		}
		w := s.nextCall(f)
		s.dequeue(f, w)
		if w.starts {
			s.start(f)
		} else {
			s.acquire(f)
		}
		w.granted = true
		w.ready <- struct{}{}
	}
}

// dequeue removes a call from the queue of its flow.
func (s *Scheduler) dequeue(f *Flow, w *Waiter) {
	i := slices.Index(f.queue, w)
	f.queue = slices.Delete(f.queue, i, i+1)
	if !w.starts {
		f.resumable--
	}
	if len(f.queue) == 0 {
		i := slices.Index(s.runQueue, f)
		s.runQueue[i] = s.runQueue[len(s.runQueue)-1]
		s.runQueue = s.runQueue[:len(s.runQueue)-1]
	}
}

// Await waits for the permit of a call that [Scheduler.Check] has queued, until ctx
// ends or patience is over. With an error the call holds none.
func (s *Scheduler) Await(ctx context.Context, f *Flow, w *Waiter, patience time.Duration) error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	var err error
	select {
	case <-w.ready:
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
		err = ErrBusy
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.withdraw(f, w)
	}
	if len(s.spare) < maxSpareWaiters {
		s.spare = append(s.spare, w)
	}
	return err
}

// withdraw removes a call that waits no longer, and takes back the permit that it may
// have got at the last moment.
func (s *Scheduler) withdraw(f *Flow, w *Waiter) {
	if !w.granted {
		s.dequeue(f, w)
		s.dispatch() // calls behind it may now be able to run
		return
	}
	<-w.ready
	if w.starts {
		s.started--
		f.started--
	}
	s.permits++
	s.dispatch()
}
