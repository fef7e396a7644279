package plugin

import (
	"sync"
	"time"
)

// sweeper retires idle instances of all plugins of a runtime, in one goroutine
// that [Runtime.Close] ends. It is not a timer of each plugin: one begun by a
// call in a test's synctest bubble could not be stopped outside it, where the
// test has its runtime.
type sweeper struct {
	rt      *Runtime
	changed chan struct{} // due is earlier than it was
	stopped chan struct{}
	ended   chan struct{}

	mu  sync.Mutex
	due time.Time // of the next sweep; zero while nothing is idle
}

// sweepGrain is the least time between two sweeps.
const sweepGrain = 100 * time.Millisecond

func startSweeper(rt *Runtime) *sweeper {
	s := &sweeper{rt: rt, changed: make(chan struct{}, 1), stopped: make(chan struct{}), ended: make(chan struct{})}
	go s.run()
	return s
}

// stop ends the goroutine and waits for it.
func (s *sweeper) stop() {
	close(s.stopped)
	<-s.ended
}

// by makes sure that a sweep comes by then.
func (s *sweeper) by(then time.Time) {
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

func (s *sweeper) next() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.due
}

func (s *sweeper) run() {
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
			s.sweep()
		}
		if due := s.next(); !due.IsZero() {
			timer.Reset(max(time.Until(due), sweepGrain))
		}
	}
}

// sweep looks through all plugins.
func (s *sweeper) sweep() {
	s.mu.Lock()
	s.due = time.Time{}
	s.mu.Unlock()
	for _, p := range s.rt.open() {
		p.instances.sweep(time.Now())
	}
}

// sweep closes the instances that were idle for too long, and comes again if
// there are others.
func (ip *instancePools) sweep(now time.Time) {
	ip.retire(now.Add(-ip.limits.IdleTime))
	ip.mu.Lock()
	defer ip.mu.Unlock()
	if ip.sweeping = ip.idle.n > 0; ip.sweeping {
		ip.sweeper.by(ip.idle.first.used.Add(ip.limits.IdleTime))
	}
}

// sweepLater makes sure that idle instances are looked through. Plugin.mu is
// held.
func (ip *instancePools) sweepLater() {
	if !ip.sweeping {
		ip.sweeping = true
		ip.sweeper.by(time.Now().Add(ip.limits.IdleTime))
	}
}
