package instancepool

import (
	"sync"
	"time"
)

// Sweeper retires the idle instances of many plugins, in one goroutine that [Sweeper.Stop]
// ends. It is not a timer of each plugin: one begun by a call in a test's synctest bubble
// could not be stopped outside it, where the test has its runtime.
type Sweeper struct {
	sweep   func()
	changed chan struct{} // due is earlier than it was
	stopped chan struct{}
	ended   chan struct{}

	mu  sync.Mutex
	due time.Time // of the next sweep; zero while nothing is idle
}

// sweepGrain is the least time between two sweeps.
const sweepGrain = 100 * time.Millisecond

// StartSweeper returns a sweeper that calls sweep, which calls [Pools.Sweep] of all pools,
// whenever instances of some may have been idle for too long.
func StartSweeper(sweep func()) *Sweeper {
	s := &Sweeper{sweep: sweep, changed: make(chan struct{}, 1), stopped: make(chan struct{}), ended: make(chan struct{})}
	go s.run()
	return s
}

// Stop ends the goroutine and waits for it. It comes once.
func (s *Sweeper) Stop() {
	close(s.stopped)
	<-s.ended
}

// by makes sure that a sweep comes by then.
func (s *Sweeper) by(then time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.due.IsZero() && !then.Before(s.due) {
		return
	}
	s.due = then
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

func (s *Sweeper) next() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.due
}

func (s *Sweeper) run() {
	defer close(s.ended)
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	defer timer.Stop()
	for {
		select {
		case <-s.stopped:
			return
		case <-s.changed:
		case <-timer.C:
			s.begin()
		}
		if due := s.next(); !due.IsZero() {
			timer.Reset(max(time.Until(due), sweepGrain))
		}
	}
}

// begin sweeps all pools, which name the time of the next sweep.
func (s *Sweeper) begin() {
	s.mu.Lock()
	s.due = time.Time{}
	s.mu.Unlock()
	s.sweep()
}

// Sweep closes the instances that were idle for too long, and comes again if
// there are others.
func (ps *Pools[T, I]) Sweep() {
	ps.Retire(time.Now().Add(-ps.opts.IdleTime))
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.sweeping = ps.idle.n > 0; ps.sweeping {
		ps.opts.Sweeper.by(ps.idle.first.Link().Used.Add(ps.opts.IdleTime))
	}
}

// sweepLater makes sure that idle instances are looked through. ps.mu is held.
func (ps *Pools[T, I]) sweepLater() {
	if !ps.sweeping {
		ps.sweeping = true
		ps.opts.Sweeper.by(time.Now().Add(ps.opts.IdleTime))
	}
}
