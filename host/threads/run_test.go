package threads_test

// Scenario: a host runs agents on the store: runs that succeed, fail, are canceled and
// race on one thread.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/threads/internal/threadtest"
	"github.com/agenthost/agenthost/internal/testdriver"
)

// model answers with what fn says to the last message.
type model func(ctx context.Context, view []*host.Message) ([]host.Part, error)

func (model) Name() string { return "fake" }

func (m model) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		parts, err := m(ctx, req.Messages)
		if err != nil {
			yield(llm.Chunk{}, err)
			return
		}
		yield(llm.Chunk{Response: &llm.Response{Parts: parts, FinishReason: chat.FinishStop}}, nil)
	}
}

// echo answers a message with its text.
func echo(_ context.Context, view []*host.Message) ([]host.Part, error) {
	return []host.Part{&host.Text{Text: "echo " + view[len(view)-1].Text()}}, nil
}

// unhurried are the limits of hosts on a machine that is busy: a hundred turns that race
// on one thread of a database wait for each other longer than by default.
var unhurried = host.Limits{HistoryTimeout: 5 * time.Minute, CommitTimeout: 5 * time.Minute}

// newHost returns a host that keeps history in adapter.
func newHost(t testing.TB, adapter any, m model) *host.Host {
	t.Helper()
	history, err := host.NewHistory(adapter, nil)
	if err != nil {
		t.Fatal(err)
	}
	h, err := host.New(&host.Options{SingleTenant: true, History: history, Model: m, Limits: unhurried})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func newAgent(t testing.TB, opts *host.AgentOptions) *host.Agent {
	t.Helper()
	a, err := host.NewAgent("clerk", opts)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// unlocked is a store that lets turns race.
type unlocked struct {
	host.ThreadCreator
	host.UserMessageAppender
	host.HistoryLoader
	host.ResultAppender
}

func TestRunsContinueAThread(t *testing.T) {
	d := testdriver.New(t)
	var seen []string
	remember := func(ctx context.Context, view []*host.Message) ([]host.Part, error) {
		seen = threadtest.Texts(view)
		return echo(ctx, view)
	}
	first, err := newHost(t, threads.New(d, nil), remember).Run(t.Context(), newAgent(t, nil),
		&host.Request{Tenant: "acme", Text: "one", State: map[string]any{"n": 1}})
	if err != nil || first.Thread == "" {
		t.Fatalf("Run = %+v, %v", first, err)
	}
	s := threads.New(d, nil) // another process, so to speak
	second, err := newHost(t, s, remember).Run(t.Context(), newAgent(t, nil),
		&host.Request{Tenant: "acme", Thread: first.Thread, Text: "two"})
	if err != nil || second.Thread != first.Thread || string(second.State) != `{"n":1}` {
		t.Fatalf("Run = %+v, %v", second, err)
	}
	if diff := cmp.Diff([]string{"one", "echo one", "two"}, seen); diff != "" {
		t.Errorf("the model saw (-want +got):\n%s", diff)
	}
	show, err := s.For("acme").Show(t.Context(), first.Thread, 0)
	if err != nil {
		t.Fatalf("Show = %v", err)
	}
	threadtest.WantTexts(t, show.Messages, "one", "echo one", "two", "echo two")
	if len(show.Snapshots) != 2 || show.Snapshots[1].ID != second.Run || show.Snapshots[1].Parent != first.Run {
		t.Errorf("snapshots = %+v", show.Snapshots)
	}
}

func TestFailedRunKeepsWhatWasFinished(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	lookup := host.NewTool("lookup", "looks up", func(context.Context, *host.Call, struct{}) (string, error) { return "in Lyon", nil }, nil)
	down := host.Errorf(host.Unavailable, "the model's server is down")
	fails := func(_ context.Context, view []*host.Message) ([]host.Part, error) {
		if view[len(view)-1].Role == host.User {
			return []host.Part{&host.ToolCall{ID: "1", Name: "lookup", Arguments: json.RawMessage(`{}`)}}, nil
		}
		return nil, down
	}
	agent := newAgent(t, &host.AgentOptions{Tools: []*host.Tool{lookup}})
	res, err := newHost(t, s, fails).Run(t.Context(), agent, &host.Request{Thread: "t1", Text: "where is it?"})
	threadtest.WantCode(t, "Run", err, host.Unavailable)

	show, err := s.For("").Show(t.Context(), "t1", 0)
	if err != nil {
		t.Fatalf("Show = %v", err)
	}
	threadtest.WantTexts(t, show.Messages, "where is it?", "call 1", "result 1")
	for i := range show.Messages {
		snap := show.SnapshotOf(i)
		if i == 0 {
			if snap != nil {
				t.Errorf("the user's message is marked %q", snap.Status)
			}
			continue
		}
		if snap == nil || snap.Status != threads.Failed || snap.ID != res.Run || snap.Error.Code != host.Unavailable {
			t.Errorf("message %d is marked %+v, want failed and why", i, snap)
		}
	}

	// The next turn goes on from there.
	if _, err := newHost(t, s, echo).Run(t.Context(), agent, &host.Request{Thread: "t1", Text: "and now?"}); err != nil {
		t.Fatalf("Run = %v", err)
	}
	info, err := s.For("").Thread(t.Context(), "t1")
	if err != nil || info.Status != threads.Completed || info.Messages != 5 || info.Turns != 2 {
		t.Errorf("Thread = %+v, %v", info, err)
	}
}

func TestCanceledRunKeepsWhatWasFinished(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	slow := func(ctx context.Context, view []*host.Message) ([]host.Part, error) {
		if view[len(view)-1].Role == host.User {
			return []host.Part{&host.ToolCall{ID: "1", Name: "nothing", Arguments: json.RawMessage(`{}`)}}, nil
		}
		cancel()
		return nil, ctx.Err()
	}
	_, err := newHost(t, s, slow).Run(ctx, newAgent(t, nil), &host.Request{Thread: "t1", Text: "q"})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Run = %v, want context.Canceled", err)
	}
	show, err := s.For("").Show(t.Context(), "t1", 0)
	if err != nil {
		t.Fatalf("Show = %v", err)
	}
	threadtest.WantTexts(t, show.Messages, "q", "call 1", "result 1")
	if len(show.Snapshots) != 1 || show.Snapshots[0].Status != threads.Canceled {
		t.Errorf("snapshots = %+v", show.Snapshots)
	}
}

func TestDiscardedFailureKeepsTheQuestion(t *testing.T) {
	s, _ := threadtest.NewStore(t, nil)
	fails := func(_ context.Context, view []*host.Message) ([]host.Part, error) {
		if view[len(view)-1].Role == host.User {
			return []host.Part{&host.ToolCall{ID: "1", Name: "nothing", Arguments: json.RawMessage(`{}`)}}, nil
		}
		return nil, host.Errorf(host.Unavailable, "down")
	}
	net, err := host.NewNetwork("net", []*host.Agent{newAgent(t, &host.AgentOptions{Description: "d"})},
		&host.NetworkOptions{DiscardOnFailure: true, Router: host.RouterFunc("once", func(_ context.Context, req *host.RouteRequest) (*host.Route, error) {
			if req.CallCount > 0 {
				return nil, nil
			}
			return &host.Route{Next: []string{"clerk"}}, nil
		})})
	if err != nil {
		t.Fatal(err)
	}
	_, err = newHost(t, s, fails).Run(t.Context(), net, &host.Request{Thread: "t1", Text: "q"})
	threadtest.WantCode(t, "Run", err, host.Unavailable)
	show, err := s.For("").Show(t.Context(), "t1", 0)
	if err != nil {
		t.Fatalf("Show = %v", err)
	}
	threadtest.WantTexts(t, show.Messages, "q")
	if len(show.Snapshots) != 1 || show.Snapshots[0].Status != threads.Failed {
		t.Errorf("snapshots = %+v", show.Snapshots)
	}
}

func TestRacingTurnsWait(t *testing.T) {
	const turns = 20
	s, _ := threadtest.NewStore(t, nil)
	h, agent := newHost(t, s, echo), newAgent(t, nil)
	var wg sync.WaitGroup
	for i := range turns {
		wg.Go(func() {
			if _, err := h.Run(t.Context(), agent, &host.Request{Thread: "t1", Text: fmt.Sprint(i)}); err != nil {
				t.Errorf("Run %d = %v", i, err)
			}
		})
	}
	wg.Wait()
	messages := threadtest.Load(t, s, "t1").Messages
	seen := map[string]bool{}
	for i := 0; i+1 < len(messages); i += 2 {
		question, reply := messages[i].Text(), messages[i+1].Text()
		if reply != "echo "+question {
			t.Errorf("message %d is %q, want the answer to %q", i+1, reply, question)
		}
		seen[question] = true
	}
	if len(seen) != turns || len(messages) != 2*turns {
		t.Errorf("%d questions in %d messages, want %d in %d", len(seen), len(messages), turns, 2*turns)
	}
	if n := s.Queues(); n != 0 {
		t.Errorf("%d queues are left", n)
	}
}

// Without the lock the turns that lose get a conflict; every question stays, and
// so does every answer of a turn that did not.
func TestRacingTurnsConflict(t *testing.T) {
	const turns = 20
	s, _ := threadtest.NewStore(t, nil)
	var asked sync.WaitGroup
	asked.Add(turns)
	together := func(ctx context.Context, view []*host.Message) ([]host.Part, error) {
		asked.Done()
		asked.Wait() // until all questions are stored
		return echo(ctx, view)
	}
	h, agent := newHost(t, unlocked{s, s, s, s}, together), newAgent(t, nil)
	var mu sync.Mutex
	won := map[string]bool{}
	var wg sync.WaitGroup
	for i := range turns {
		wg.Go(func() {
			text := fmt.Sprint(i)
			res, err := h.Run(t.Context(), agent, &host.Request{Thread: "t1", Text: text})
			switch {
			case err == nil:
				mu.Lock()
				won["echo "+text] = true
				mu.Unlock()
			case host.CodeOf(err) != host.Conflict || res == nil || res.Text() != "echo "+text:
				t.Errorf("Run %d = %+v, %v, want a conflict and the result", i, res, err)
			}
		})
	}
	wg.Wait()
	if len(won) != 1 {
		t.Errorf("%d turns were stored, want the one whose question was the last", len(won))
	}
	got := map[string]bool{}
	for _, m := range threadtest.Load(t, s, "t1").Messages {
		if m.Role == host.Assistant && !won[m.Text()] {
			t.Errorf("answer %q is stored; its turn got a conflict", m.Text())
		}
		got[m.Text()] = true
	}
	if len(got) != turns+len(won) {
		t.Errorf("%d messages are stored, want %d questions and %d answers", len(got), turns, len(won))
	}
}

// Writers of two stores on one driver, as of two processes, meet at the record.
func TestRacingWritersOfTwoStores(t *testing.T) {
	const each = 25
	d := testdriver.New(t)
	stores := []*threads.Store{threads.New(d, nil), threads.New(d, nil)}
	var wg sync.WaitGroup
	for i := range each * len(stores) {
		wg.Go(func() {
			s := stores[i%len(stores)]
			id := fmt.Sprint(i / 2) // each id twice
			if _, err := s.AppendUserMessage(t.Context(), threadtest.Request("t1", "", threadtest.WithID(id, id))); err != nil {
				t.Errorf("AppendUserMessage = %v", err)
			}
		})
	}
	wg.Wait()
	got := map[string]int{}
	for _, m := range threadtest.Load(t, stores[0], "t1").Messages {
		got[m.ID]++
	}
	for i := range each {
		if n := got[fmt.Sprint(i)]; n != 1 {
			t.Errorf("message %d is stored %d times", i, n)
		}
	}
	if page, err := stores[1].For("").List(t.Context(), nil); err != nil || len(page.Threads) != 1 {
		t.Errorf("List = %+v, %v, want one thread", page, err)
	}
}
