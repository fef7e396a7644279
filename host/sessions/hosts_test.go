package sessions_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/cluster"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/sessions"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/internal/testdriver"
)

// memberService returns a service of a member of a cluster, as a host of a database has it.
func memberService(t *testing.T, driver kv.Driver, target host.Target) (*service, *cluster.Member) {
	t.Helper()
	m, err := cluster.New(driver, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := newService(t, target, &sessions.Options{Store: threads.New(driver, &threads.Options{Locks: cluster.NewLocks(m)}), Member: m})
	return s, m
}

// recoverLost waits until a member finds lost turns, as hosts do, and returns how long it
// took.
func recoverLost(t *testing.T, s *service, m *cluster.Member, want int) time.Duration {
	t.Helper()
	began := time.Now()
	for n := 0; n < want; {
		if time.Since(began) > time.Minute {
			t.Fatalf("%d of %d turns are taken over within a minute", n, want)
		}
		if _, err := m.Observe(t.Context()); err != nil {
			t.Fatal(err)
		}
		found, err := s.RecoverLost(t.Context())
		if err != nil {
			t.Fatalf("RecoverLost: %v", err)
		}
		if n += found; n < want {
			time.Sleep(m.Interval())
		}
	}
	return time.Since(began)
}

func TestADeadHostsTurnsContinueOnAnotherInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		driver := &dying{Driver: testdriver.New(t)}
		tool, begun, open := gate(t)
		other, otherBegun, otherOpen := gate(t)
		a, memberA := memberService(t, driver, newAgent(t, "clerk", model(hosttest.Call("gate", "{}"), hosttest.Say("of a")), tool))
		b, memberB := memberService(t, driver.Driver, newAgent(t, "clerk", model(hosttest.Say("one of b"), hosttest.Say("two of b"), hosttest.Call("gate", "{}"), hosttest.Say("three of b")), other))
		one := run(t, a, &request{Session: "s", Text: "one", Detach: true})
		<-begun
		two := run(t, a, &request{Session: "s", Text: "two", Detach: true})
		synctest.Wait()
		time.Sleep(10 * time.Second)
		if _, err := memberB.Observe(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n, err := b.RecoverLost(t.Context()); n != 0 || err != nil {
			t.Fatalf("RecoverLost while the host lives = %d, %v", n, err)
		}

		driver.dead.Store(true) // paused, as others see it
		if took := recoverLost(t, b, memberB, 2); took > memberB.Lease()+2*memberB.Interval() {
			t.Errorf("the turns are taken over after %s", took)
		}
		three := run(t, b, &request{Session: "s", Text: "three", Detach: true})
		<-otherBegun
		driver.dead.Store(false)
		close(open)
		time.Sleep(2 * sessions.DefaultHeartbeat)
		close(otherOpen)
		for _, out := range []*sessions.Output{one, two, three} {
			if snap := wait(t, b, out.Snapshot); snap.Status != sessions.Completed {
				t.Errorf("%s is %s: %v", out.Snapshot, snap.Status, snap.Error)
			}
		}
		want := []string{"user: one", "assistant: ", "tool: ", "assistant: one of b", "user: two", "assistant: two of b",
			"user: three", "assistant: ", "tool: ", "assistant: three of b"}
		got := texts(snapshot(t, b, three.Snapshot).State.Messages)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the session (-want +got):\n%s", diff)
		}
		if n, err := cluster.CountTenant(t.Context(), driver.Driver, threads.DefaultTenant); n != 1 || err != nil {
			t.Errorf("CountTenant = %d, %v; want the entry of b alone", n, err)
		}
		for _, s := range []*service{a, b} {
			s.Close()
		}
		_ = memberA.Close()
		_ = memberB.Close()
	})
}

func TestAClosedServiceHandsItsTurnsToOtherHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		driver := testdriver.New(t)
		tool, begun, _ := gate(t)
		a, memberA := memberService(t, driver, newAgent(t, "clerk", model(hosttest.Call("gate", "{}")), tool))
		b, memberB := memberService(t, driver, newAgent(t, "clerk", model(hosttest.Say("of b"))))
		announced := make(chan struct{}, 1)
		if err := memberB.Subscribe(t.Context(), sessions.ReleasedTopic, func() { announced <- struct{}{} }); err != nil {
			t.Fatal(err)
		}
		out := run(t, a, &request{Text: "one", Detach: true})
		<-begun
		stopped := time.Now()
		a.Close()
		<-announced // its member lives still
		if n, err := b.RecoverLost(t.Context()); n != 1 || err != nil {
			t.Fatalf("RecoverLost = %d, %v", n, err)
		}
		if took := time.Since(stopped); took > time.Second {
			t.Errorf("the turn is taken over after %s", took)
		}
		if snap := wait(t, b, out.Snapshot); snap.Status != sessions.Completed {
			t.Errorf("it is %s: %v", snap.Status, snap.Error)
		}
		b.Close()
		_ = memberA.Close()
		_ = memberB.Close()
	})
}

// Records of earlier versions name no host: their heartbeats count.
func TestATurnOfAProcessThatIsNoMemberExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		driver := &dying{Driver: testdriver.New(t)}
		tool, begun, _ := gate(t)
		former := newService(t, newAgent(t, "clerk", model(hosttest.Call("gate", "{}")), tool), &sessions.Options{Store: threads.New(driver, nil)})
		b, member := memberService(t, driver.Driver, newAgent(t, "clerk", model(hosttest.Say("of b"))))
		out := run(t, former, &request{Text: "one", Detach: true})
		<-begun
		driver.dead.Store(true)
		time.Sleep(10 * time.Second)
		if n, err := b.Recover(t.Context(), ""); n != 0 || err != nil {
			t.Errorf("Recover after 10 s = %d, %v; want nothing yet", n, err)
		}
		time.Sleep(sessions.DefaultExpiry)
		if n, err := b.Recover(t.Context(), ""); n != 1 || err != nil {
			t.Errorf("Recover = %d, %v", n, err)
		}
		if snap := wait(t, b, out.Snapshot); snap.Status != sessions.Completed {
			t.Errorf("it is %s: %v", snap.Status, snap.Error)
		}
		former.Close()
		b.Close()
		_ = member.Close()
	})
}

// stopping is a store as a process sees it that is stopped before it stores a background
// turn: no commit returns until it is woken.
type stopping struct {
	dying
	armed atomic.Bool
	woken chan struct{}
}

func (s *stopping) Commit(ctx context.Context, txs ...kv.Tx) []kv.Result {
	ofTurn := func(w kv.Write) bool { return strings.Contains(string(w.Key), "order") }
	if slices.ContainsFunc(txs, func(tx kv.Tx) bool { return slices.ContainsFunc(tx.Writes, ofTurn) }) {
		s.armed.Store(true)
	}
	if s.armed.Load() {
		<-s.woken
	}
	return s.dying.Commit(ctx, txs...)
}

// The entry by which others find the turn was removed while its host was paused.
func TestATurnThatBeginsAtTheEndOfAPauseIsFoundWhenItsHostDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		driver := &stopping{dying: dying{Driver: testdriver.New(t)}, woken: make(chan struct{})}
		tool, begun, open := gate(t)
		a, memberA := memberService(t, driver, newAgent(t, "clerk", model(hosttest.Call("gate", "{}"), hosttest.Say("of a")), tool))
		b, memberB := memberService(t, driver.Driver, newAgent(t, "clerk", model(hosttest.Say("of b"))))
		if _, err := memberB.Observe(t.Context()); err != nil {
			t.Fatal(err)
		}
		started := make(chan *sessions.Output)
		go func() { started <- run(t, a, &request{Session: "s", Text: "one", Detach: true}) }()
		synctest.Wait()
		if !driver.armed.Load() {
			t.Fatal("the host is not paused")
		}
		time.Sleep(memberA.Lease() + time.Second)
		if _, err := memberB.Observe(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n, err := b.RecoverLost(t.Context()); n != 0 || err != nil {
			t.Fatalf("RecoverLost = %d, %v; want nothing yet", n, err)
		}
		close(driver.woken)
		out := <-started
		<-begun
		driver.dead.Store(true)
		recoverLost(t, b, memberB, 1)
		if snap := wait(t, b, out.Snapshot); snap.Status != sessions.Completed {
			t.Errorf("the turn is %s: %v", snap.Status, snap.Error)
		}
		close(open)
		a.Close()
		b.Close()
		_ = memberA.Close()
		_ = memberB.Close()
	})
}

func TestRecoverLostNeedsAMember(t *testing.T) {
	s := stored(t, newAgent(t, "clerk", model()))
	if _, err := s.RecoverLost(t.Context()); host.CodeOf(err) != host.FailedPrecondition {
		t.Errorf("RecoverLost without a member: %v", err)
	}
	m, err := cluster.New(testdriver.New(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sessions.New(newAgent(t, "clerk", model()), &sessions.Options{Member: m}); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("a member where clients keep the sessions: %v", err)
	}
}
