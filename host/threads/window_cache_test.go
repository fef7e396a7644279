package threads_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/threads/internal/threadtest"
	"github.com/agenthost/agenthost/internal/longtest"
)

// Two hosts with caches and one without change the same threads in random order, in every
// way that there is: all of them load the same messages.
func TestCachedWindowsAreThoseOfTheStore(t *testing.T) {
	for seed := range uint64(longtest.Alone(2, 12)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			driver := kv.NewMemory()
			opts := threads.Options{Window: 7}
			hosts := []*threads.Store{threads.New(driver, &opts), threads.New(driver, &opts)}
			opts.CacheBytes = -1
			plain := threads.New(driver, &opts)
			ids := []string{"t0"}
			for step := range 150 {
				s, id := hosts[random.IntN(2)], ids[random.IntN(len(ids))]
				change := changeAtRandom(t, s, id, random, step)
				if strings.HasPrefix(change, "fork") {
					ids = append(ids, fmt.Sprint("t", step))
				}
				for _, id := range ids {
					want := threadtest.Load(t, plain, id)
					for i, h := range hosts {
						if diff := cmp.Diff(threadtest.Texts(want.Messages), threadtest.Texts(threadtest.Load(t, h, id).Messages)); diff != "" {
							t.Fatalf("step %d, %s: host %d loads another thread %s (-want +got):\n%s", step, change, i, id, diff)
						}
					}
				}
			}
		})
	}
}

// changeAtRandom changes a thread and says how.
func changeAtRandom(t *testing.T, s *threads.Store, id string, random *rand.Rand, step int) string {
	t.Helper()
	run := fmt.Sprint("run", step)
	loaded := threadtest.Load(t, s, id).Messages
	one := func() string { return loaded[random.IntN(len(loaded))].ID }
	tenant := s.For("")
	try := func(err error) { // what cannot be edited or rewound to stays
		switch host.CodeOf(err) {
		case "", host.InvalidArgument, host.FailedPrecondition, host.NotFound, host.Conflict:
		default:
			t.Fatal(err)
		}
	}
	switch n := random.IntN(12); {
	case n == 0 && len(loaded) > 0:
		_, err := tenant.EditMessage(t.Context(), id, one(), host.UserText(fmt.Sprint("edited ", step)), nil)
		try(err)
		return "edit"
	case n == 1 && len(loaded) > 0:
		_, err := tenant.DeleteMessage(t.Context(), id, one(), nil)
		try(err)
		return "deletion"
	case n == 2 && len(loaded) > 0:
		_, err := tenant.Rewind(t.Context(), id, threads.At{Message: one()}, nil)
		try(err)
		return "rewind"
	case n == 3 && len(loaded) > 4:
		_, err := tenant.Reduce(t.Context(), id, lastTwo{}, nil)
		try(err)
		return "reduction"
	case n == 4:
		try(tenant.ShowWhole(t.Context(), id))
		return "end of a reduction"
	case n == 5 && len(loaded) > 0:
		threadtest.Fork(t, s, id, fmt.Sprint("t", step), threads.At{})
		return "fork"
	case n == 6 && id != "t0":
		try(tenant.Delete(t.Context(), id))
		threadtest.Say(t, s, id, run, host.UserText(fmt.Sprint("made again ", step)))
		return "deletion of the thread"
	case n == 7:
		head := threadtest.Say(t, s, id, run, host.UserText(fmt.Sprint("look ", step)))
		call := fmt.Sprint("c", step)
		threadtest.Answer(t, s, id, run, head, threadtest.Calls(run+"calls", call), threadtest.Result(call), threadtest.Assistant(run, fmt.Sprint("seen ", step)))
		return "turn with a call"
	}
	head := threadtest.Say(t, s, id, run, host.UserText(fmt.Sprint("question ", step)))
	threadtest.Answer(t, s, id, run, head, threadtest.Assistant(run, fmt.Sprint("answer ", step)))
	return "turn"
}

// lastTwo is a reducer that keeps the last two messages and puts one before them.
type lastTwo struct{}

var _ host.MessageReducer = lastTwo{}

func (lastTwo) Reduce(_ context.Context, v *llm.View) ([]*host.Message, error) {
	return append([]*host.Message{host.UserText(fmt.Sprintf("%d messages", len(v.Messages)-2))}, v.Messages[len(v.Messages)-2:]...), nil
}

// The next turn on a thread whose window was just used costs what the turn adds.
func TestNextTurnDecodesWhatWasAdded(t *testing.T) {
	d := &spy{Driver: kv.NewMemory()}
	s := threads.New(d, nil)
	threadtest.Fill(t, s, "t1", 2000)
	threadtest.Load(t, s, "t1")
	i := 0
	allocs := testing.AllocsPerRun(20, func() {
		threadtest.Load(t, s, "t1")
		aTurn(t, s, "t1", i)
		i++
	})
	if allocs >= 1500 {
		t.Errorf("a turn after a window of 2,000 messages makes %.0f allocations, want fewer than 1,500", allocs)
	}
	t.Logf("a turn after a window of 2,000 messages: %.0f allocations", allocs)
	_, _, reads := d.measure(func() { threadtest.Load(t, s, "t1") })
	if reads > 6 { // the record, the new entries, the state
		t.Errorf("the next load reads %d times", reads)
	}
}

func TestWindowsStayWithinTheirBytes(t *testing.T) {
	for bytes, want := range map[int64]int{-1: 0, 1: 0, 20_000: 3, 0: 10} {
		s, _ := threadtest.NewStore(t, &threads.Options{CacheBytes: bytes})
		for i := range 10 {
			id := fmt.Sprint("t", i)
			threadtest.Say(t, s, id, "r", host.UserText(strings.Repeat("x", 1000)))
			threadtest.Load(t, s, id)
		}
		if n, err := s.CountCached(""); n < want || n > 2*want || err != nil {
			t.Errorf("with %d bytes %d of 10 threads are kept, %v; want about %d", bytes, n, err, want)
		}
	}
}

// A tenant's deletion empties the cache, and a read that began before does not fill it
// again.
func TestADroppedTenantHasNoWindows(t *testing.T) {
	d := &spy{Driver: kv.NewMemory()}
	s := threads.New(d, nil)
	say := func(tenant string) *host.HistoryRequest {
		req := &host.HistoryRequest{Tenant: tenant, Thread: "t1", Run: "r", Input: host.UserText("secret")}
		if _, err := s.AppendUserMessage(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Get(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		return req
	}
	gone, _ := say("gone"), say("stays")
	drop := func() {
		if err := s.DropTenant("gone"); err != nil {
			t.Error(err)
		}
	}
	count := func(tenant string) int {
		n, err := s.CountCached(tenant)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := count("gone"); n != 1 {
		t.Fatalf("%d threads are cached, want 1", n)
	}
	drop()
	if n, m := count("gone"), count("stays"); n != 0 || m != 1 {
		t.Errorf("after the deletion %d threads of the tenant are cached and %d of the other, want 0 and 1", n, m)
	}
	d.afterGet = drop
	if _, err := s.Get(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	if n := count("gone"); n != 0 {
		t.Errorf("a read that began before the deletion has left %d threads in the cache", n)
	}
	if err := s.DropTenant(strings.Repeat("x", 1000)); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("DropTenant of no name = %v", err)
	}
}

func TestADeletedOrChangedThreadHasNoWindow(t *testing.T) {
	for name, change := range map[string]func(tn *threads.Tenant) error{
		"deletion": func(tn *threads.Tenant) error { return tn.Delete(t.Context(), "t1") },
		"edit": func(tn *threads.Tenant) error {
			_, err := tn.EditMessage(t.Context(), "t1", "q1", host.UserText("x"), nil)
			return err
		},
		"deletion of one": func(tn *threads.Tenant) error { _, err := tn.DeleteMessage(t.Context(), "t1", "a1", nil); return err },
		"rewind": func(tn *threads.Tenant) error {
			_, err := tn.Rewind(t.Context(), "t1", threads.At{Message: "a0"}, nil)
			return err
		},
		"marker of a reducer": func(tn *threads.Tenant) error { _, err := tn.Reduce(t.Context(), "t1", lastTwo{}, nil); return err },
		"repair":              func(tn *threads.Tenant) error { _, err := tn.Repair(t.Context(), "t1"); return err },
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := threadtest.NewStore(t, nil)
			threadtest.TalkWithIDs(t, s, "t1", 0, 3)
			threadtest.Load(t, s, "t1")
			if n, _ := s.CountCached(""); n != 1 {
				t.Fatalf("%d threads are cached, want 1", n)
			}
			if err := change(s.For("")); err != nil {
				t.Fatal(err)
			}
			if n, _ := s.CountCached(""); n != 0 {
				t.Error("the thread is still cached")
			}
		})
	}
}
