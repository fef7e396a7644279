package sessions_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/sessions"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/internal/testdriver"
)

// manyOrders is the variable for how often the tests of the order of turns are
// repeated, in place of a small number.
const manyOrders = "AGENTHOST_SESSIONS_ORDERS"

func repeated(t testing.TB, few int) int {
	t.Helper()
	n, err := strconv.Atoi(os.Getenv(manyOrders))
	if err != nil {
		return few
	}
	return n
}

// echo answers the last message of a user.
func echo(t testing.TB) *host.Agent {
	return newAgent(t, "clerk", hosttest.ModelFunc(func(_ context.Context, req *llm.Request) hosttest.Reply {
		return hosttest.Say("echo " + lastUser(req.Messages))
	}))
}

func lastUser(messages []*host.Message) string {
	for _, m := range slices.Backward(messages) {
		if m.Role == host.User {
			return m.Text()
		}
	}
	return ""
}

// silent does not answer before its turn is canceled; it says that it was asked.
func silent(t testing.TB) (agent *host.Agent, asked chan struct{}) {
	asked = make(chan struct{}, 8)
	return newAgent(t, "clerk", hosttest.ModelFunc(func(ctx context.Context, _ *llm.Request) hosttest.Reply {
		asked <- struct{}{}
		<-ctx.Done()
		return hosttest.Fail(ctx.Err())
	})), asked
}

// wantOrder holds a session to having each of the acknowledged turns once, in their
// order, answered in its place. It may have others, that were not answered.
func wantOrder(t testing.TB, s *service, session string, acknowledged []string) {
	t.Helper()
	snap, err := s.Snapshot(t.Context(), &sessions.SnapshotRequest{Session: session})
	if err != nil {
		t.Fatalf("Snapshot: %v", err)
	}
	got := texts(snap.State.Messages)
	var answered []string
	for i, text := range got {
		answer, ok := strings.CutPrefix(text, "assistant: echo ")
		if !ok {
			continue
		}
		if i == 0 || got[i-1] != "user: "+answer {
			t.Errorf("%q is in another's place: %q", text, got)
		}
		if slices.Contains(acknowledged, answer) {
			answered = append(answered, answer)
		}
	}
	if !slices.Equal(answered, acknowledged) {
		t.Errorf("answered are %q of %q, want %q", answered, got, acknowledged)
	}
}

// drivers runs a test on each driver that is there without a server.
func drivers(t *testing.T, test func(t *testing.T, driver kv.Driver)) {
	t.Run("memory", func(t *testing.T) { test(t, testdriver.New(t)) })
	t.Run("badger", func(t *testing.T) { test(t, openBadger(t, t.TempDir())) })
}

func openBadger(t testing.TB, dir string) kv.Driver {
	t.Helper()
	driver, err := badgerkv.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { driver.Close() })
	return driver
}

// A turn that is said when one in the background was acknowledged comes after it.
func TestTurnsComeAfterTheBackground(t *testing.T) {
	drivers(t, func(t *testing.T, driver kv.Driver) {
		s := newService(t, echo(t), &sessions.Options{Store: threads.New(driver, nil)})
		defer s.Close()
		for i := range repeated(t, 25) {
			session := fmt.Sprint("s", i)
			run(t, s, &request{Session: session, Text: "first", Detach: true})
			run(t, s, &request{Session: session, Text: "second", Detach: true})
			run(t, s, &request{Session: session, Text: "third"})
			wantOrder(t, s, session, []string{"first", "second", "third"})
		}
	})
}

// It does so after a restart too, if the turn had begun or not, and whoever goes on
// with it: the host that starts, or the turn that comes.
func TestTurnsComeAfterTheBackgroundOfBefore(t *testing.T) {
	for _, c := range []struct {
		name         string
		began, adopt bool
	}{{"begun and adopted", true, true}, {"begun", true, false}, {"adopted", false, true}, {"neither", false, false}} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for i := range repeated(t, 12) / 4 {
				session := fmt.Sprint("s", i)
				restart(t, dir, session, c.began)
				driver := openBadger(t, dir)
				s := newService(t, echo(t), &sessions.Options{Store: threads.New(driver, nil), Heartbeat: 10 * time.Millisecond, Expiry: 20 * time.Millisecond})
				if c.adopt {
					if n, err := s.Adopt(t.Context(), ""); n != 2 || err != nil {
						t.Fatalf("Adopt = %d, %v", n, err)
					}
				}
				run(t, s, &request{Session: session, Text: "third"})
				wantOrder(t, s, session, []string{"first", "second", "third"})
				s.Close()
				driver.Close()
			}
		})
	}
}

// restart has a process acknowledge two turns, and end.
func restart(t *testing.T, dir, session string, began bool) {
	t.Helper()
	driver := &dying{Driver: openBadger(t, dir)}
	agent, asked := silent(t)
	s := newService(t, agent, &sessions.Options{Store: threads.New(driver, nil)})
	run(t, s, &request{Session: session, Text: "first", Detach: true})
	if began {
		<-asked
	}
	run(t, s, &request{Session: session, Text: "second", Detach: true})
	driver.dead.Store(true)
	s.Close()
	driver.Driver.Close()
}

// admitting is a ledger that admits some runs, and refuses the rest.
type admitting struct{ left atomic.Int64 }

func (a *admitting) AdmitRun(context.Context, string, string) error {
	if a.left.Add(-1) >= 0 {
		return nil
	}
	return host.Errorf(host.ResourceExhausted, "nothing is left")
}

func (a *admitting) OpenRun(host.Scope, string) host.UsageRecord {
	return new(hosttest.Ledger).OpenRun(host.Scope{}, "")
}

// The message of a turn that was acknowledged, and refused when its run began, is in
// its snapshot, and can be answered from there.
func TestARefusalInTheBackgroundKeepsTheMessage(t *testing.T) {
	q := &admitting{}
	q.left.Store(3)
	s := newService(t, echo(t), &sessions.Options{Store: threads.New(testdriver.New(t), nil), Host: host.Options{Ledger: q}})
	one := run(t, s, &request{Session: "s", Text: "first"})
	q.left.Store(1) // it is asked when the turn is acknowledged, and when it begins
	out := run(t, s, &request{Session: "s", Text: "second", Detach: true})
	snap := wait(t, s, out.Snapshot)
	if snap.Status != sessions.Failed || snap.Error == nil || snap.Error.Code != host.ResourceExhausted || snap.Parent != one.Snapshot || snap.State == nil {
		t.Fatalf("the snapshot is %+v", snap)
	}
	if got := texts(snap.State.Messages); got[len(got)-1] != "user: second" {
		t.Errorf("its messages are %q", got)
	}
	q.left.Store(2)
	if again := run(t, s, &request{Snapshot: out.Snapshot}); again.Text() != "echo second" {
		t.Errorf("tried again it is %q", again.Text())
	}
	wantOrder(t, s, "s", []string{"first", "second"})
}

// A turn that waits in the background can be aborted, and those behind it go on.
func TestAbortOfATurnThatWaits(t *testing.T) {
	tool, begun, open := gate(t)
	m := hosttest.ModelFunc(func(_ context.Context, req *llm.Request) hosttest.Reply {
		if last := req.Messages[len(req.Messages)-1]; last.Role == host.User && last.Text() == "first" {
			return hosttest.Call("gate", "{}")
		}
		return hosttest.Say("echo " + lastUser(req.Messages))
	})
	s := newService(t, newAgent(t, "clerk", m, tool), &sessions.Options{Store: threads.New(testdriver.New(t), nil)})
	var ids []string
	for _, text := range []string{"first", "second", "third"} {
		ids = append(ids, run(t, s, &request{Session: "s", Text: text, Detach: true}).Snapshot)
	}
	<-begun
	if got, err := s.Abort(t.Context(), "", ids[1]); err != nil || got != sessions.Aborting {
		t.Errorf("Abort = %s, %v", got, err)
	}
	if snap := wait(t, s, ids[1]); snap.Status != sessions.Aborted {
		t.Errorf("it is %+v", snap)
	}
	if snap := snapshot(t, s, ids[2]); snap.Status != sessions.Pending {
		t.Errorf("the turn behind it is %s", snap.Status)
	}
	close(open)
	if snap := wait(t, s, ids[2]); snap.Status != sessions.Completed || snap.Parent != ids[0] {
		t.Errorf("the turn behind it is %+v", snap)
	}
}

// A turn that does not wait is refused while another is in the background, whoever
// runs that one.
func TestARacingTurnMeetsTheBackground(t *testing.T) {
	store := threads.New(testdriver.New(t), nil)
	agent, asked := silent(t)
	first := newService(t, agent, &sessions.Options{Store: store})
	defer first.Close()
	run(t, first, &request{Session: "s", Text: "first", Detach: true})
	<-asked
	for name, store := range map[string]*threads.Store{"here": store, "elsewhere": threads.New(store.Driver(), nil)} {
		s := newService(t, echo(t), &sessions.Options{Store: store, HistoryOptions: host.HistoryOptions{Racing: host.RaceConflict}})
		if _, err := s.Run(t.Context(), &request{Session: "s", Text: "second"}); host.CodeOf(err) != host.Conflict {
			t.Errorf("%s: a turn that does not wait: %v", name, err)
		}
	}
}

// cut is the driver of a process that dies at a commit.
type cut struct {
	kv.Driver
	left atomic.Int64
}

func (c *cut) Commit(ctx context.Context, txs ...kv.Tx) []kv.Result {
	if c.left.Add(-1) >= 0 {
		return c.Driver.Commit(ctx, txs...)
	}
	out := make([]kv.Result, len(txs))
	for i := range out {
		out[i].Err = kv.ErrClosed
	}
	return out
}

// talk says turns in a session until one fails, some in the background, and returns
// those that were acknowledged.
func talk(ctx context.Context, s *service, session string, rnd *rand.Rand, acknowledge func(text string)) {
	for i := range 6 {
		req := &request{Session: session, Text: fmt.Sprint(session, " turn ", i), Detach: rnd.IntN(3) > 0}
		if _, err := s.Run(ctx, req); err != nil {
			return
		}
		acknowledge(req.Text)
	}
}

// A process that dies at any commit leaves its turns to the next, which answers each
// in its place.
func TestOrderAfterRandomEnds(t *testing.T) {
	for i := range repeated(t, testdriver.Rounds(60, 4)) {
		t.Run(fmt.Sprint(i), func(t *testing.T) { orderAfterARandomEnd(t, i) }) // which closes its store
	}
}

func orderAfterARandomEnd(t *testing.T, i int) {
	rnd := rand.New(rand.NewPCG(uint64(i), 44))
	driver := &cut{Driver: testdriver.New(t)}
	driver.left.Store(2 + rnd.Int64N(50))
	first := newService(t, echo(t), &sessions.Options{Store: threads.New(driver, nil), Heartbeat: time.Millisecond, Expiry: 2 * time.Millisecond})
	var acknowledged []string
	talk(t.Context(), first, "s", rnd, func(text string) { acknowledged = append(acknowledged, text) })
	driver.left.Store(0)
	first.Close()

	second := newService(t, echo(t), &sessions.Options{Store: threads.New(driver.Driver, nil), Heartbeat: time.Millisecond, Expiry: 2 * time.Millisecond})
	if rnd.IntN(2) == 0 {
		if _, err := second.Adopt(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
	}
	run(t, second, &request{Session: "s", Text: "last"})
	wantOrder(t, second, "s", append(acknowledged, "last"))
	second.Close()
}

// orderDir is the variable that makes a test process one of TestOrderAfterKills.
// orderSession is the one for the session in which the one before was killed.
const (
	orderDir     = "AGENTHOST_SESSIONS_ORDER_DIR"
	orderSession = "AGENTHOST_SESSIONS_ORDER_SESSION"
)

// orderChild goes on with what the one before has left, and says turns in sessions of
// its own until it is killed.
func orderChild(dir string) error {
	driver, err := badgerkv.Open(dir, nil)
	if err != nil {
		return err
	}
	agent, err := host.NewAgent("clerk", &host.AgentOptions{Model: hosttest.ModelFunc(func(_ context.Context, req *llm.Request) hosttest.Reply {
		time.Sleep(rand.N(2 * time.Millisecond)) // the model thinks
		return hosttest.Say("echo " + lastUser(req.Messages))
	})})
	if err != nil {
		return err
	}
	s, err := sessions.New(agent, &sessions.Options{Host: host.Options{SingleTenant: true}, Store: threads.New(driver, nil), Heartbeat: 50 * time.Millisecond, Expiry: 100 * time.Millisecond})
	if err != nil {
		return err
	}
	ctx, rnd := context.Background(), rand.New(rand.NewPCG(rand.Uint64(), 44))
	if rnd.IntN(2) == 0 {
		if _, err := s.Adopt(ctx, ""); err != nil {
			return err
		}
	}
	say := func(session string) func(text string) {
		return func(text string) { fmt.Printf("said %s\t%s\n", session, text) }
	}
	if session := os.Getenv(orderSession); session != "" { // in which the one before was killed
		text := fmt.Sprint("last by ", os.Getpid())
		if _, err := s.Run(ctx, &request{Session: session, Text: text}); err != nil {
			return fmt.Errorf("the turn after session %s: %w", session, err)
		}
		say(session)(text)
	}
	for i := 0; ; i++ {
		session := fmt.Sprintf("%d-%d", os.Getpid(), i)
		talk(ctx, s, session, rnd, say(session))
	}
}

// orderChildren runs processes that are killed, and returns the turns that they
// acknowledged, by session.
func orderChildren(t *testing.T, dir string, kills int) map[string][]string {
	t.Helper()
	said, last := map[string][]string{}, ""
	for range kills {
		child := exec.CommandContext(t.Context(), os.Args[0])
		child.Env = append(os.Environ(), orderDir+"="+dir, orderSession+"="+last)
		var stderr strings.Builder
		child.Stderr = &stderr
		stdout, err := child.StdoutPipe()
		if err == nil {
			err = child.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		killed, lines := false, bufio.NewScanner(stdout)
		for after := 1 + rand.IntN(12); lines.Scan(); after-- {
			if after == 0 {
				<-time.After(rand.N(3 * time.Millisecond))
				killed = child.Process.Kill() == nil
			}
			what, ok := strings.CutPrefix(lines.Text(), "said ")
			if session, text, cut := strings.Cut(what, "\t"); ok && cut {
				said[session], last = append(said[session], text), session
			}
		}
		if err := child.Wait(); !killed {
			t.Fatalf("the child has ended: %v\n%s", err, stderr.String())
		}
	}
	return said
}

// A process that is killed at any time leaves its turns to the next, which answers
// each in its place.
func TestOrderAfterKills(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	said := orderChildren(t, dir, repeated(t, 8))
	s := newService(t, echo(t), &sessions.Options{Store: threads.New(openBadger(t, dir), nil)})
	defer s.Close()
	if _, err := s.Adopt(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	turns := 0
	for session, acknowledged := range said {
		run(t, s, &request{Session: session, Text: "the end"})
		wantOrder(t, s, session, append(acknowledged, "the end"))
		turns += len(acknowledged)
	}
	if list, err := s.Background(t.Context(), ""); err != nil || len(list) > 0 {
		t.Errorf("turns are left: %+v, %v", list, err)
	}
	t.Logf("%d turns of %d sessions were acknowledged", turns, len(said))
}

// Turns in the background that wait for one whose host is gone lend it their room: it is
// gone on with, although as many run as the limit allows.
func TestATurnThatWaitsLendsItsRoom(t *testing.T) {
	store := threads.New(testdriver.New(t), nil)
	agent, asked := silent(t)
	first := newService(t, agent, &sessions.Options{Store: store})
	run(t, first, &request{Session: "s", Text: "first", Detach: true})
	<-asked
	first.Close()
	second := newService(t, echo(t), &sessions.Options{Store: store, MaxBackground: 1})
	out := run(t, second, &request{Session: "s", Text: "second", Detach: true})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if snap, err := second.Wait(ctx, &sessions.SnapshotRequest{Snapshot: out.Snapshot}); err != nil || snap.Status != sessions.Completed {
		t.Fatalf("Wait = %+v, %v", snap, err)
	}
	wantOrder(t, second, "s", []string{"first", "second"})
}

// meddling is a driver on which another process puts a turn into the background just
// before this one does, and has ended it just after.
type meddling struct {
	kv.Driver
	once sync.Once
}

func (m *meddling) Commit(ctx context.Context, txs ...kv.Tx) (out []kv.Result) {
	order := kv.NewKey("sessions", "order", "s")
	for _, tx := range txs {
		if slices.ContainsFunc(tx.Writes, func(w kv.Write) bool { return w.Key == order }) {
			m.once.Do(func() {
				m.Driver.Commit(ctx, kv.Tx{Partition: tx.Partition, Writes: []kv.Write{kv.Put(order, []byte("x"))}})
				out = m.Driver.Commit(ctx, txs...)
				m.Driver.Commit(ctx, kv.Tx{Partition: tx.Partition, Writes: []kv.Write{kv.Delete(order)}})
			})
		}
	}
	if out == nil {
		out = m.Driver.Commit(ctx, txs...)
	}
	return out
}

// A turn is acknowledged also if the order of its session was there for a moment only.
func TestAnOrderThatComesAndGoes(t *testing.T) {
	t.Parallel()
	s := newService(t, echo(t), &sessions.Options{Store: threads.New(&meddling{Driver: testdriver.New(t)}, nil)})
	out := run(t, s, &request{Session: "s", Text: "first", Detach: true})
	if snap := wait(t, s, out.Snapshot); snap.Status != sessions.Completed {
		t.Errorf("it is %+v", snap)
	}
}

// unsure is a driver that makes the commit by which a turn is acknowledged, and does not
// say so.
type unsure struct {
	kv.Driver
	once sync.Once
}

func (u *unsure) Commit(ctx context.Context, txs ...kv.Tx) []kv.Result {
	results := u.Driver.Commit(ctx, txs...)
	for i, tx := range txs {
		if slices.ContainsFunc(tx.Writes, func(w kv.Write) bool { return w.Key == kv.NewKey("sessions", "order", "s") }) {
			u.once.Do(func() { results[i] = kv.Result{Err: kv.ErrInDoubt} })
		}
	}
	return results
}

// A turn whose record was stored is acknowledged and runs: those behind it would wait for it.
func TestATurnWhoseCommitIsInDoubtRuns(t *testing.T) {
	s := newService(t, echo(t), &sessions.Options{Store: threads.New(&unsure{Driver: testdriver.New(t)}, nil)})
	run(t, s, &request{Session: "s", Text: "first", Detach: true})
	run(t, s, &request{Session: "s", Text: "second"})
	wantOrder(t, s, "s", []string{"first", "second"})
}
