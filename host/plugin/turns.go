package plugin

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// turns decides which calls run guest code. There are as many turns as cores,
// because guests compute: more of them at once would finish no sooner, and would
// keep the rest of the program waiting. A call gives its turn back while a host
// operation waits for something, and whenever its tick finds that it is
// another tenant's time.
//
// Tenants share turns, not calls: whoever has used the fewest instructions goes
// first, so a tenant with a thousand calls in line is served like one with a
// single call (start-time fair queueing). Within a tenant, what has begun goes
// on before what has not, and the rest in the order of arrival.
//
// It also bounds the calls that have begun, which hold an instance each. A
// tenant may have as many as are still free, so a single greedy one gets half,
// and there is always room for the next.
type turns struct {
	calls int // limit

	mu     sync.Mutex
	free   int   // turns
	begun  int   // calls
	clock  int64 // virtual: the pass of who was served last
	shares map[string]*share
	line   []*share  // with waiting calls
	spare  []*waiter // to be used again
}

// share is what one tenant has of the turns. Its fields are guarded by turns.mu.
type share struct {
	tenant string
	pass   int64        // instructions run, or forgone by not asking
	calls  int          // in progress, waiting ones too
	begun  int          // of them
	memory atomic.Int64 // bytes that they have; see memories
	queue  []*waiter    // nobody waits: empty
	goOn   int          // of queue, those that have begun
}

// waiter is a call that waits for its turn.
type waiter struct {
	ready  chan struct{} // gets one value when it is its turn
	begins bool          // it has not begun
	taken  bool          // ready has been sent to; guarded by turns.mu
}

const (
	// credit is how far behind the others a tenant's use may fall by asking for
	// nothing: this much it gets before anybody else when it comes back, some
	// milliseconds.
	credit = 10_000_000
	// callPrice is what a call counts beside its instructions: to begin and to end it
	// takes the host some microseconds, which others wait.
	callPrice = 10_000
	// stint is how much further than others a call goes before it gives its turn
	// to one of another tenant: half a millisecond and more, long against the
	// change.
	stint = 1_000_000
	// longStint is the same towards calls of the same tenant.
	longStint = 20_000_000
	// shareSweep is how many shares are kept before those of tenants without
	// calls are looked through.
	shareSweep = 1024
	// spareWaiters bounds what is kept to be used again.
	spareWaiters = 256
)

func newTurns(running, calls int) *turns {
	return &turns{free: running, calls: calls, shares: map[string]*share{}}
}

// enter begins a call of a tenant: it waits for a turn, until ctx ends or
// patience does. Its error is errBusy or ctx's.
func (t *turns) enter(ctx context.Context, tenant string, patience time.Duration) (*share, error) {
	t.mu.Lock()
	s := t.share(tenant)
	s.calls++
	if t.free > 0 && len(s.queue) == 0 && t.mayBegin(s) {
		t.begin(s)
		t.mu.Unlock()
		return s, nil
	}
	w := t.wait(s, true)
	t.mu.Unlock()
	if err := t.await(ctx, s, w, patience); err != nil {
		t.mu.Lock()
		t.forget(s)
		t.mu.Unlock()
		return nil, err
	}
	return s, nil
}

// leave ends a call. used is what it has run since it last said so; turn says
// that it has its turn.
func (t *turns) leave(s *share, used int64, turn bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.charge(s, used)
	t.begun--
	s.begun--
	t.forget(s)
	if turn {
		t.free++
	}
	t.dispatch()
}

// pause gives a call's turn back while the call waits for something else.
func (t *turns) pause(s *share, used int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.charge(s, used)
	t.free++
	t.dispatch()
}

// resume waits for a turn for a call that has paused. With an error the call
// has no turn.
func (t *turns) resume(ctx context.Context, s *share, patience time.Duration) error {
	t.mu.Lock()
	if t.free > 0 { // nobody in line could use it
		t.take(s)
		t.mu.Unlock()
		return nil
	}
	w := t.wait(s, false)
	t.mu.Unlock()
	return t.await(ctx, s, w, patience)
}

// again reports whether a call that has its turn keeps it. If not, it has gone
// to another call, and this one has to wait for w.
func (t *turns) again(s *share, used, stinted int64) (w *waiter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.charge(s, used)
	first := t.first()
	switch {
	case first == nil:
	case first != s && first.pass+stint < s.pass:
		w = t.wait(s, false)
	case first == s && stinted >= longStint:
		w = t.waitLast(s)
	}
	if w == nil {
		t.clock = max(t.clock, s.pass)
		return nil
	}
	t.free++
	t.dispatch()
	return w
}

// share returns a tenant's share, made if there is none.
func (t *turns) share(tenant string) *share {
	s := t.shares[tenant]
	if s == nil {
		if len(t.shares) >= shareSweep {
			t.sweep()
		}
		s = &share{tenant: tenant}
		t.shares[tenant] = s
	}
	s.pass = max(s.pass, t.clock-credit)
	return s
}

// forget ends a call of a share. A share is kept as long as its tenant has used
// more than others: coming back does not make it a newcomer.
func (t *turns) forget(s *share) {
	if s.calls--; s.calls == 0 && s.pass <= t.clock-credit {
		delete(t.shares, s.tenant)
	}
}

// sweep removes the shares whose tenants would get the same if they were new.
// If that leaves more than half, it removes all without calls: memory is worth
// more than a few milliseconds of fairness.
func (t *turns) sweep() {
	idle := func(most int64) {
		for tenant, s := range t.shares {
			if s.calls == 0 && s.pass <= most {
				delete(t.shares, tenant)
			}
		}
	}
	if idle(t.clock - credit); len(t.shares) > shareSweep/2 {
		idle(math.MaxInt64)
	}
}

func (t *turns) charge(s *share, used int64) { s.pass += used }

func (t *turns) mayBegin(s *share) bool { return s.begun < t.calls-t.begun }

// begin gives a call that has not begun a turn.
func (t *turns) begin(s *share) {
	t.begun++
	s.begun++
	t.take(s)
}

func (t *turns) take(s *share) {
	t.free--
	t.clock = max(t.clock, s.pass)
}

// wait puts a call into line: behind those of its tenant if it has not begun,
// before them if it has.
func (t *turns) wait(s *share, begins bool) *waiter {
	w := t.waiter(begins)
	if begins {
		t.append(s, w)
		return w
	}
	if len(s.queue) == 0 {
		t.append(s, w)
		return w
	}
	s.queue = slices.Insert(s.queue, 0, w)
	s.goOn++
	return w
}

// waitLast puts a call that has begun behind the others of its tenant.
func (t *turns) waitLast(s *share) *waiter {
	w := t.waiter(false)
	t.append(s, w)
	return w
}

func (t *turns) append(s *share, w *waiter) {
	if len(s.queue) == 0 {
		t.line = append(t.line, s)
	}
	s.queue = append(s.queue, w)
	if !w.begins {
		s.goOn++
	}
}

func (t *turns) waiter(begins bool) *waiter {
	w := &waiter{ready: make(chan struct{}, 1)}
	if n := len(t.spare); n > 0 {
		w, t.spare = t.spare[n-1], t.spare[:n-1]
	}
	w.begins, w.taken = begins, false
	return w
}

// first returns the share whose turn is next, nil if there is none that could
// use it.
func (t *turns) first() (first *share) {
	for _, s := range t.line {
		if (first == nil || s.pass < first.pass) && (s.goOn > 0 || t.mayBegin(s)) {
			first = s
		}
	}
	return first
}

// next returns which call of a share is next: the first in line or, where none
// may begin, the first of those that have begun.
func (t *turns) next(s *share) *waiter {
	if s.goOn == 0 || t.mayBegin(s) {
		return s.queue[0]
	}
	return s.queue[slices.IndexFunc(s.queue, func(w *waiter) bool { return !w.begins })]
}

// dispatch hands out the turns that are free.
func (t *turns) dispatch() {
	for t.free > 0 {
		s := t.first()
		if s == nil {
			return
		}
		w := t.next(s)
		t.remove(s, w)
		if w.begins {
			t.begin(s)
		} else {
			t.take(s)
		}
		w.taken = true
		w.ready <- struct{}{}
	}
}

// remove takes a call out of line.
func (t *turns) remove(s *share, w *waiter) {
	i := slices.Index(s.queue, w)
	s.queue = slices.Delete(s.queue, i, i+1)
	if !w.begins {
		s.goOn--
	}
	if len(s.queue) == 0 {
		i := slices.Index(t.line, s)
		t.line[i] = t.line[len(t.line)-1]
		t.line = t.line[:len(t.line)-1]
	}
}

// await waits until it is a call's turn. With an error it has none.
func (t *turns) await(ctx context.Context, s *share, w *waiter, patience time.Duration) error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	var err error
	select {
	case <-w.ready:
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
		err = errBusy
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.giveUp(s, w)
	}
	if len(t.spare) < spareWaiters {
		t.spare = append(t.spare, w)
	}
	return err
}

// giveUp takes back a call that will not wait any longer, and its turn if it got
// one at the last moment.
func (t *turns) giveUp(s *share, w *waiter) {
	if !w.taken {
		t.remove(s, w)
		t.dispatch() // what stood behind it may be free to go
		return
	}
	<-w.ready
	if w.begins {
		t.begun--
		s.begun--
	}
	t.free++
	t.dispatch()
}

// errBusy says that the wait for a turn took too long.
var errBusy = errors.New("every turn is taken")
