package threads_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/threads/internal/threadtest"
	"github.com/agenthost/agenthost/internal/testdriver"
)

func TestLockThreadIsFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := threads.New(testdriver.New(t), nil)
		unlock, err := s.LockThread(t.Context(), threadtest.Request("t1", "", nil))
		if err != nil {
			t.Fatalf("LockThread = %v", err)
		}
		var order []int
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() {
				next, err := s.LockThread(t.Context(), threadtest.Request("t1", "", nil))
				if err != nil {
					t.Errorf("LockThread = %v", err)
					return
				}
				order = append(order, i)
				next()
				next() // harmless
			})
			synctest.Wait()
		}
		if len(order) != 0 || s.Waiting(threads.DefaultTenant, "t1") != 5 {
			t.Errorf("%v ran while the thread was held", order)
		}
		unlock()
		wg.Wait()
		if !slices.Equal(order, []int{0, 1, 2, 3, 4}) {
			t.Errorf("order = %v", order)
		}
		if n := s.Queues(); n != 0 {
			t.Errorf("%d queues are kept for threads that nobody holds", n)
		}
	})
}

func TestLockThreadHoldsOneThreadOfOneTenant(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	for _, req := range []*host.HistoryRequest{
		{Thread: "t1"}, {Thread: "t2"}, {Thread: "t1", Tenant: "acme"}, {Thread: "t2", Tenant: "acme"},
	} {
		unlock, err := s.LockThread(t.Context(), req)
		if err != nil {
			t.Fatalf("LockThread(%+v) = %v", req, err)
		}
		defer unlock()
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.LockThread(ctx, &host.HistoryRequest{Thread: "t1", Tenant: threads.DefaultTenant})
	threadtest.WantCode(t, "LockThread of the same thread by the tenant's full name", err, host.Canceled)
}

func TestLockThreadNeedsAThread(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	_, err := s.LockThread(t.Context(), threadtest.Request("", "", nil))
	threadtest.WantCode(t, "LockThread without a thread", err, host.InvalidArgument)
}

func TestLockThreadBoundsWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := threads.New(testdriver.New(t), &threads.Options{MaxWaiting: 2})
		unlock, _ := s.LockThread(t.Context(), threadtest.Request("t1", "", nil))
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				if next, err := s.LockThread(t.Context(), threadtest.Request("t1", "", nil)); err == nil {
					next()
				}
			})
		}
		synctest.Wait()
		_, err := s.LockThread(t.Context(), threadtest.Request("t1", "", nil))
		threadtest.WantCode(t, "LockThread of the third that waits", err, host.ResourceExhausted)
		unlock()
		wg.Wait()
	})
}

func TestLockThreadEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := threads.New(testdriver.New(t), nil)
		unlock, _ := s.LockThread(t.Context(), threadtest.Request("t1", "", nil))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := s.LockThread(ctx, threadtest.Request("t1", "", nil))
		threadtest.WantCode(t, "LockThread", err, host.DeadlineExceeded)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("LockThread = %v, want context.DeadlineExceeded", err)
		}
		reason := errors.New("the reader left")
		ctx2, cancel2 := context.WithCancelCause(t.Context())
		cancel2(reason)
		_, err = s.LockThread(ctx2, threadtest.Request("t1", "", nil))
		threadtest.WantCode(t, "LockThread", err, host.Canceled)
		if !errors.Is(err, reason) || !errors.Is(err, context.Canceled) {
			t.Errorf("LockThread = %v, want the cause and context.Canceled", err)
		}
		unlock()
		if n := s.Queues(); n != 0 {
			t.Errorf("%d queues are left", n)
		}
	})
}

// Those who give up in the moment in which their turn comes pass it on.
func TestLockThreadHammer(t *testing.T) {
	s, _ := threadtest.NewStore(t, &threads.Options{MaxWaiting: 1000})
	var wg sync.WaitGroup
	held := 0 // guarded by the thread's lock, which the race detector checks
	for i := range 200 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%5)*100*time.Microsecond)
			defer cancel()
			if i%2 == 0 {
				ctx = t.Context()
			}
			unlock, err := s.LockThread(ctx, threadtest.Request("t1", "", nil))
			if err != nil {
				if ctx.Err() == nil {
					t.Errorf("LockThread = %v", err)
				}
				return
			}
			held++
			unlock()
		})
	}
	wg.Wait()
	if held < 100 || s.Queues() != 0 {
		t.Errorf("%d got the thread, want at least the 100 that wait for ever; %d queues are left", held, s.Queues())
	}
}

// A place that was taken comes before turns that ask for the thread later, and is no
// one's when it is left.
func TestTakePlace(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	req := &host.HistoryRequest{Thread: "t"}
	var places []*threads.Place
	for range 3 {
		p, err := s.TakePlace(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		places = append(places, p)
	}
	_, err := s.LockThread(t.Context(), &host.HistoryRequest{Thread: "t", Racing: host.RaceConflict})
	threadtest.WantCode(t, "LockThread behind a place", err, host.Conflict)
	places[1].Leave()
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = places[2].Lock(canceled)
	threadtest.WantCode(t, "Lock of a canceled context", err, host.Canceled)
	unlock, err := places[0].Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	unlock()
	if unlock, err = s.LockThread(t.Context(), &host.HistoryRequest{Thread: "t", Racing: host.RaceConflict}); err != nil {
		t.Fatalf("LockThread behind places that were left: %v", err)
	}
	unlock()
}
