package plugin

import (
	"context"
	"slices"
	"sync"
)

// fairSlots are the workers of a queue. A tenant may have as many as are still
// free, so that one alone gets half; of those that wait, the tenant with the
// fewest goes first, and within it who came first.
type fairSlots struct {
	mu      sync.Mutex
	free    int
	running map[string]int // by tenant
	line    []*slotWaiter
}

type slotWaiter struct {
	tenant string
	ready  chan struct{} // closed when it has a slot
}

func newFairSlots(n int) *fairSlots { return &fairSlots{free: n, running: map[string]int{}} }

// take waits for a slot. With an error, which is ctx's, there is none.
func (s *fairSlots) take(ctx context.Context, tenant string) error {
	w := &slotWaiter{tenant, make(chan struct{})}
	s.mu.Lock()
	s.line = append(s.line, w)
	s.dispatch()
	s.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.line, w); i >= 0 {
		s.line = slices.Delete(s.line, i, i+1)
	} else {
		s.release(tenant) // it came at the last moment
	}
	return ctx.Err()
}

// give gives a slot back.
func (s *fairSlots) give(tenant string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release(tenant)
}

func (s *fairSlots) release(tenant string) {
	s.free++
	if s.running[tenant]--; s.running[tenant] == 0 {
		delete(s.running, tenant)
	}
	s.dispatch()
}

// dispatch hands out what is free. The mutex is held.
func (s *fairSlots) dispatch() {
	for {
		first := -1
		for i, w := range s.line {
			n := s.running[w.tenant]
			if n < s.free && (first < 0 || n < s.running[s.line[first].tenant]) {
				first = i
			}
			if first >= 0 && s.running[s.line[first].tenant] == 0 {
				break
			}
		}
		if first < 0 {
			return
		}
		w := s.line[first]
		s.line = slices.Delete(s.line, first, first+1)
		s.free--
		s.running[w.tenant]++
		close(w.ready)
	}
}

// jobKeys are the idempotency keys that one tenant used last: those of now and
// those of before, which go when those of now are many.
type jobKeys struct{ now, before map[jobKey]struct{} }

func (k *jobKeys) has(key jobKey) bool {
	if k == nil {
		return false
	}
	_, now := k.now[key]
	_, before := k.before[key]
	return now || before
}

func (k *jobKeys) add(key jobKey) {
	if len(k.now) >= keptJobKeys {
		k.now, k.before = nil, k.now
	}
	if k.now == nil {
		k.now = map[jobKey]struct{}{}
	}
	k.now[key] = struct{}{}
}

func (k *jobKeys) remove(key jobKey) {
	if k != nil {
		delete(k.now, key)
		delete(k.before, key)
	}
}
