package threads_test

// Scenario: a hundred turns run at once on one thread, under each concurrency policy.

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/threads/internal/threadtest"
)

const racers = 100

// runRacers runs a hundred turns at once on one thread, and returns the texts of
// those that were done, in no order, with the branch of each.
func runRacers(t *testing.T, s *threads.Store, racing host.Racing) (done map[string]string, refused []string) {
	t.Helper()
	h := newHost(t, s, echo)
	agent := newAgent(t, nil)
	done = map[string]string{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range racers {
		wg.Go(func() {
			text := fmt.Sprintf("turn %d", i)
			result, err := h.Run(context.Background(), agent, &host.Request{Thread: "t1", Text: text, Racing: racing})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				done[text] = result.Branch
				return
			}
			if host.CodeOf(err) != host.Conflict {
				t.Errorf("Run = %v", err)
			}
			refused = append(refused, text)
		})
	}
	wg.Wait()
	return done, refused
}

// wantTurns holds messages to being pairs of a turn and its echo, and returns the
// turns.
func wantTurns(t *testing.T, messages []*host.Message) []string {
	t.Helper()
	got := threadtest.Texts(messages)
	var turns []string
	for i := 0; i+1 < len(got); i += 2 {
		if got[i+1] != "echo "+got[i] {
			t.Errorf("%q is followed by %q", got[i], got[i+1])
		}
		turns = append(turns, got[i])
	}
	if len(got)%2 != 0 {
		t.Errorf("%q is not answered", got[len(got)-1])
	}
	slices.Sort(turns)
	return turns
}

func TestAHundredRacingTurnsWait(t *testing.T) {
	s, _ := threadtest.NewStore(t, &threads.Options{MaxWaiting: racers})
	done, refused := runRacers(t, s, "")
	if len(done) != racers || len(refused) > 0 {
		t.Errorf("%d turns are done, %d refused", len(done), len(refused))
	}
	if got := wantTurns(t, threadtest.Load(t, s, "t1").Messages); len(got) != racers {
		t.Errorf("%d turns are stored", len(got))
	}
}

// A turn that is refused leaves nothing, and can be sent again.
func TestAHundredRacingTurnsConflict(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	done, refused := runRacers(t, s, host.RaceConflict)
	if len(done)+len(refused) != racers || len(done) == 0 {
		t.Errorf("%d turns are done, %d refused", len(done), len(refused))
	}
	want := []string{}
	for text := range done {
		want = append(want, text)
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, wantTurns(t, threadtest.Load(t, s, "t1").Messages)); diff != "" {
		t.Errorf("stored turns (-want +got):\n%s", diff)
	}
	h, agent := newHost(t, s, echo), newAgent(t, nil)
	for _, text := range refused {
		if _, err := h.Run(t.Context(), agent, &host.Request{Thread: "t1", Text: text, Racing: host.RaceConflict}); err != nil {
			t.Fatalf("sent again: %v", err)
		}
	}
	if got := wantTurns(t, threadtest.Load(t, s, "t1").Messages); len(got) != racers {
		t.Errorf("%d turns are stored in the end", len(got))
	}
}

// Every turn is on the thread or on a branch of it, answered where it is.
func TestAHundredRacingTurnsBranch(t *testing.T) {
	s, d := threadtest.NewStore(t, nil)
	done, refused := runRacers(t, s, host.RaceBranch)
	if len(done) != racers || len(refused) > 0 {
		t.Fatalf("%d turns are done, %d refused", len(done), len(refused))
	}
	lines := map[string][]string{}
	for b, err := range s.For("").Branches(t.Context(), "t1") {
		if err != nil {
			t.Fatal(err)
		}
		if !b.Open || b.ID != "" && b.Cause != threads.Raced {
			t.Errorf("branch %+v", b)
		}
		req := threadtest.Request("t1", "", nil)
		req.Branch = b.ID
		loaded, err := s.Get(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		lines[b.ID] = wantTurns(t, loaded.Messages)
	}
	for text, branch := range done {
		if !slices.Contains(lines[branch], text) {
			t.Errorf("%q is not on its branch %q", text, branch)
		}
	}
	if err := s.For("").Delete(t.Context(), "t1"); err != nil {
		t.Fatal(err)
	}
	if left := threadtest.KeysOf(t, d, threads.DefaultTenant); len(left) > 0 {
		t.Errorf("%d keys are left, among them %s", len(left), left[0])
	}
}

// Turns go on with a branch, answer on it again, and leave the thread alone; a
// branch is resumed by rewinding to it.
func TestTurnsOnABranch(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	threadtest.TalkWithIDs(t, s, "t1", 0, 2)
	h, agent := newHost(t, s, echo), newAgent(t, nil)
	result, err := h.Run(t.Context(), agent, &host.Request{Thread: "t1", Regenerate: "q1", NewBranch: true})
	if err != nil || result.Branch != "b1" {
		t.Fatalf("Run = %+v, %v", result, err)
	}
	on := &host.Request{Thread: "t1", Branch: "b1", Input: threadtest.WithID("q2", "more")}
	if _, err := h.Run(t.Context(), agent, on); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Run(t.Context(), agent, &host.Request{Thread: "t1", Branch: "b1", Regenerate: "q2"}); err != nil {
		t.Fatal(err)
	}
	wantIDs(t, s, "t1", "q0", "a0", "q1", "a1")
	req := threadtest.Request("t1", "", nil)
	req.Branch = "b1"
	loaded, err := s.Get(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	threadtest.WantTexts(t, loaded.Messages, "question 0", "answer 0", "question 1", "echo question 1", "more", "echo more")
	if string(loaded.State) != `{"n":0}` {
		t.Errorf("state of the branch is %s", loaded.State)
	}
	if got := len(branches(t, s, "t1")); got != 3 { // the thread, the branch, and what the branch was
		t.Errorf("%d branches, want 3", got)
	}
	_, err = h.Run(t.Context(), agent, &host.Request{Thread: "t1", Branch: "b2", Text: "x"})
	threadtest.WantCode(t, "Run on a branch that was left behind", err, host.FailedPrecondition)
	_, err = h.Run(t.Context(), agent, &host.Request{Thread: "t1", Branch: "b9", Text: "x"})
	threadtest.WantCode(t, "Run on an unknown branch", err, host.NotFound)

	threadtest.Rewind(t, s, "t1", threads.At{Branch: "b1"})
	threadtest.WantTexts(t, threadtest.Load(t, s, "t1").Messages, "question 0", "answer 0", "question 1", "echo question 1", "more", "echo more")
	threadtest.TalkWithIDs(t, s, "t1", 5, 6)
	if got := idsAt(t, s, "t1", threads.At{Branch: "b1"}); len(got) != 6 {
		t.Errorf("a turn of the thread is on the branch that it was rewound to: %q", got)
	}
	threadtest.Fork(t, s, "t1", "t2", threads.At{Branch: "b1"})
	if got := len(threadtest.Load(t, s, "t2").Messages); got != 6 {
		t.Errorf("the fork of the branch has %d messages", got)
	}
}

// A run that was asked to be durable regenerates once, and what it did is resumed
// on its branch.
func TestADurableRunRegeneratesOnce(t *testing.T) {
	for _, branch := range []bool{false, true} {
		s, _ := threadtest.NewStore(t, nil)
		threadtest.TalkWithIDs(t, s, "t1", 0, 2)
		agent := newAgent(t, nil)
		stop, cancel := context.WithCancel(t.Context())
		dying := newHost(t, dead{s, stop}, func(ctx context.Context, _ []*host.Message) ([]host.Part, error) {
			cancel() // from here on nothing is stored any more
			return []host.Part{&host.Text{Text: "lost"}}, nil
		})
		_, err := dying.Run(t.Context(), agent, &host.Request{Thread: "t1", Regenerate: "q1", NewBranch: branch, Durable: true})
		if err == nil {
			t.Fatal("the run that dies ends well")
		}
		open, err := s.For("").Runs(t.Context())
		if err != nil || len(open) != 1 {
			t.Fatalf("Runs = %+v, %v", open, err)
		}
		before := len(branches(t, s, "t1"))
		result, err := newHost(t, s, echo).Run(t.Context(), agent, &host.Request{Resume: open[0].Run})
		if err != nil || (result.Branch != "") != branch {
			t.Fatalf("Run = %+v, %v", result, err)
		}
		if got := len(branches(t, s, "t1")); got != before {
			t.Errorf("the resumed run made branches: %d, before %d", got, before)
		}
		req := threadtest.Request("t1", "", nil)
		req.Branch = result.Branch
		loaded, err := s.Get(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		threadtest.WantTexts(t, loaded.Messages, "question 0", "answer 0", "question 1", "echo question 1")
	}
}

// dead is a store whose process has ended when its context has.
type dead struct {
	*threads.Store
	ctx context.Context
}

func (d dead) AppendSteps(ctx context.Context, ref host.RunRef, at int, steps []json.RawMessage) error {
	if d.ctx.Err() != nil {
		return host.Errorf(host.Unavailable, "the process has ended")
	}
	return d.Store.AppendSteps(ctx, ref, at, steps)
}

func (d dead) AppendResults(ctx context.Context, req *host.HistoryRequest, turn *host.Turn) error {
	if d.ctx.Err() != nil {
		return host.Errorf(host.Unavailable, "the process has ended")
	}
	return d.Store.AppendResults(ctx, req, turn)
}

func (d dead) EndRun(ctx context.Context, ref host.RunRef, status host.RunStatus, rest json.RawMessage) error {
	if d.ctx.Err() != nil {
		return host.Errorf(host.Unavailable, "the process has ended")
	}
	return d.Store.EndRun(ctx, ref, status, rest)
}

func (d dead) LeaveRun(ctx context.Context, ref host.RunRef, rest json.RawMessage, asks []host.AskedQuestion) error {
	if d.ctx.Err() != nil {
		return host.Errorf(host.Unavailable, "the process has ended")
	}
	return d.Store.LeaveRun(ctx, ref, rest, asks)
}

// A message that was answered is answered from storage while another turn runs on the
// thread, and begins no branch.
func TestAMessageSentAgainIntoARaceBeginsNoBranch(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	h, agent := newHost(t, s, echo), newAgent(t, nil)
	first := host.UserText("first")
	first.ID = "m1"
	req := &host.Request{Thread: "t1", Input: first, Racing: host.RaceBranch}
	if _, err := h.Run(t.Context(), agent, req); err != nil {
		t.Fatal(err)
	}
	unlock, err := s.LockThread(t.Context(), &host.HistoryRequest{Tenant: host.DefaultTenant, Thread: "t1", Run: "another"})
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	result, err := h.Run(t.Context(), agent, req)
	if err != nil || !result.Replayed || result.Text() != "echo first" || result.Branch != "" {
		t.Errorf("sent again: %+v, %v; want the stored answer, on no branch", result, err)
	}
	branches := 0
	for _, err := range s.For("").Branches(t.Context(), "t1") {
		if branches++; err != nil {
			t.Fatal(err)
		}
	}
	if branches != 1 {
		t.Errorf("there are %d branches, want that of the thread", branches)
	}
}

// A branch that is begun while the thread's first turn opens the thread, and one after
// that, begin before the turn: with no message of it.
func TestBranchesBesideTheTurnThatOpensAThread(t *testing.T) {
	d := &spy{Driver: kv.NewMemory()}
	t.Cleanup(func() { _ = d.Driver.Close() })
	s := threads.New(d, nil)
	unlock, err := s.LockThread(t.Context(), threadtest.Request("t1", "r1", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	racer := threadtest.Request("t1", "r2", nil)
	var branches [2]string
	d.before = func(kv.Tx) error {
		d.before = nil // of the branch's own commit
		branches[0], err = s.Branch(t.Context(), racer, "")
		return nil
	}
	if _, err := s.OpenThread(t.Context(), threadtest.Request("t1", "r1", host.UserText("first"))); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if branches[1], err = s.Branch(t.Context(), racer, ""); err != nil {
		t.Fatal(err)
	}
	for _, branch := range branches {
		on := threadtest.Request("t1", "r2", nil)
		on.Branch = branch
		if loaded, err := s.Get(t.Context(), on); err != nil || len(loaded.Messages) > 0 {
			t.Errorf("branch %q begins with %d messages, %v", branch, len(loaded.Messages), err)
		}
	}
}
