package turnqueue_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads/internal/turnqueue"
)

type table = turnqueue.Table[int]

var key = turnqueue.Key{Partition: "p", Thread: "t"}

// hasCome reports whether a turn has the thread.
func hasCome(turn <-chan struct{}) bool {
	select {
	case <-turn:
		return true
	default:
		return false
	}
}

// enter joins the queue of the thread, in which many turns may wait.
func enter(t *testing.T, l *table) (turn <-chan struct{}, ticket int64) {
	t.Helper()
	turn, ticket, err := l.Enter(key, 100)
	if err != nil {
		t.Fatal(err)
	}
	return turn, ticket
}

func TestTurnsComeInTheOrderOfTheirTickets(t *testing.T) {
	var l table
	first, ticket := enter(t, &l)
	second, _ := enter(t, &l)
	third, _ := enter(t, &l)
	if !hasCome(first) || hasCome(second) || l.Waiting(key) != 2 {
		t.Fatalf("the first turn has the thread: %t, the second: %t; %d wait, want 2", hasCome(first), hasCome(second), l.Waiting(key))
	}
	l.Leave(key)
	again := l.EnterAgain(key, ticket)
	if !hasCome(second) || hasCome(again) {
		t.Errorf("after the first turn the second has the thread: %t, and the first again: %t", hasCome(second), hasCome(again))
	}
	l.Leave(key)
	if !hasCome(again) || hasCome(third) {
		t.Errorf("the turn with the first ticket has the thread: %t, and the third: %t", hasCome(again), hasCome(third))
	}
	l.Leave(key)
	l.Leave(key)
	if !hasCome(third) || l.Count() != 0 {
		t.Errorf("the third turn had the thread: %t; %d queues are left, want none", hasCome(third), l.Count())
	}
}

func TestATurnThatGivesUpHandsOnWhatItHas(t *testing.T) {
	var l table
	enter(t, &l)
	second, _ := enter(t, &l)
	third, _ := enter(t, &l)
	l.GiveUp(key, second)
	l.Leave(key)
	if hasCome(second) || !hasCome(third) {
		t.Errorf("the turn that has given up has the thread: %t, and the next: %t", hasCome(second), hasCome(third))
	}
	fourth, _ := enter(t, &l)
	l.GiveUp(key, third) // it had come in the same moment
	if !hasCome(fourth) {
		t.Error("a turn that gave up the thread kept it")
	}
	l.Leave(key)
	if l.Count() != 0 {
		t.Errorf("%d queues are left, want none", l.Count())
	}
}

func TestAQueueIsBounded(t *testing.T) {
	var l table
	for limit, code := range []fault.Code{fault.Conflict, fault.ResourceExhausted} {
		if _, _, err := l.Enter(key, limit); err != nil {
			t.Errorf("Enter with a limit of %d: %v, want room for one", limit, err)
		}
		if _, _, err := l.Enter(key, limit); fault.CodeOf(err) != code {
			t.Errorf("Enter again with a limit of %d: %v, want code %s", limit, err, code)
		}
	}
	if n := l.Waiting(key); n != 1 {
		t.Errorf("%d turns wait, want 1", n)
	}
	if _, _, err := l.Enter(turnqueue.Key{Partition: "p", Thread: "t", Branch: "b"}, 0); err != nil {
		t.Errorf("Enter of a branch: %v, want a queue of its own", err)
	}
}

func TestWhatATurnHasDoneEndsWithIt(t *testing.T) {
	var l table
	fence := []kv.Cond{kv.Absent("k")}
	l.SetFence(key, fence)
	l.Began(key, "r", 1)
	if l.Fence(key) != nil || l.Before(key) != nil {
		t.Error("a thread without a turn remembers something")
	}
	enter(t, &l)
	next, _ := enter(t, &l)
	l.SetFence(key, fence)
	l.Began(key, "r", 1)
	l.Began(key, "r", 2) // its first commit is tried again
	if got := l.HeadOf(key, "r"); got != "" {
		t.Errorf("the head before the first commit is %q, want none", got)
	}
	l.Wrote(key, "h")
	l.Began(key, "r", 3)
	if before := l.Before(key); before == nil || *before != 2 || l.HeadOf(key, "r") != "h" || l.HeadOf(key, "other") != "" || len(l.Fence(key)) != 1 {
		t.Errorf("the turn began at %v with head %q and fence %v, want 2, h and %v", before, l.HeadOf(key, "r"), l.Fence(key), fence)
	}
	l.Leave(key)
	if before := l.Before(key); !hasCome(next) || before != nil || l.HeadOf(key, "r") != "" || l.Fence(key) != nil {
		t.Errorf("the next turn finds point %v, head %q and fence %v of the one before", before, l.HeadOf(key, "r"), l.Fence(key))
	}
	l.Wrote(key, "h2")
	if got := l.HeadOf(key, "r"); got != "" {
		t.Errorf("the head of a turn that began nowhere is %q, want none", got)
	}
}

// Many turns on few threads, some of which give up: each has its thread alone.
func TestTurnsHammer(t *testing.T) {
	var l table
	var running [3]atomic.Int32
	var all sync.WaitGroup
	for worker := range 12 {
		all.Go(func() {
			n := worker % len(running)
			key := turnqueue.Key{Partition: "p", Thread: string(rune('a' + n))}
			for i := range 500 {
				turn, ticket, err := l.Enter(key, 100)
				if err != nil {
					t.Errorf("Enter: %v", err)
					return
				}
				if i%7 == worker%7 {
					l.GiveUp(key, turn)
					continue
				}
				<-turn
				if got := running[n].Add(1); got != 1 {
					t.Errorf("%d turns have a thread at once", got)
				}
				running[n].Add(-1)
				l.Leave(key)
				if i%50 == 0 {
					<-l.EnterAgain(key, ticket)
					l.Leave(key)
				}
			}
		})
	}
	all.Wait()
	if l.Count() != 0 {
		t.Errorf("%d queues are left, want none", l.Count())
	}
}
