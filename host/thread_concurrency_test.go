package host_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/runevent"
)

// talked is a history with two turns in thread T, and what answers on.
func talked(t *testing.T, opts *host.HistoryOptions) (*hosttest.History, *host.Host, *host.Agent, *hosttest.Model) {
	t.Helper()
	kept := hosttest.NewHistory()
	history, err := host.NewHistory(kept, opts)
	if err != nil {
		t.Fatal(err)
	}
	model := hosttest.NewModel(hosttest.Say("one"), hosttest.Say("two"))
	agent := newAgent(t, &host.AgentOptions{Model: model, History: history})
	h := newHost(t, nil)
	for _, id := range []string{"u1", "u2"} {
		m := host.UserText("question " + id)
		m.ID = id
		if _, err := h.Run(t.Context(), agent, &host.Request{Thread: "T", Input: m}); err != nil {
			t.Fatal(err)
		}
	}
	return kept, h, agent, model
}

func textsOf(messages []*host.Message) []string {
	out := []string{}
	for _, m := range messages {
		out = append(out, m.Text())
	}
	return out
}

func TestRegenerateTakesTheAnswerBack(t *testing.T) {
	kept, h, agent, model := talked(t, nil)
	calls := len(kept.Calls())
	model.Queue(hosttest.Say("better"))
	result, err := h.Run(t.Context(), agent, &host.Request{Thread: "T", Regenerate: "u2"})
	if err != nil || result.Text() != "better" || result.Branch != "" {
		t.Fatalf("Run = %+v, %v", result, err)
	}
	want := []string{"question u1", "one", "question u2", "better"}
	if diff := cmp.Diff(want, textsOf(kept.Messages("", "T"))); diff != "" {
		t.Errorf("thread (-want +got):\n%s", diff)
	}
	requests := model.Requests()
	if diff := cmp.Diff(want[:3], textsOf(requests[len(requests)-1].Messages)); diff != "" {
		t.Errorf("the model is asked (-want +got):\n%s", diff)
	}
	order := []string{`Regenerate "u2"`, "Get: 3 messages", "AppendResults: 1 results, stop"}
	if diff := cmp.Diff(order, kept.Calls()[calls:]); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestRegenerateOnABranchLeavesTheThread(t *testing.T) {
	kept, h, agent, model := talked(t, nil)
	model.Queue(hosttest.Say("better"), hosttest.Say("more"))
	var started *runevent.RunStarted
	stream := h.Stream(t.Context(), agent, &host.Request{Thread: "T", Regenerate: "u2", NewBranch: true})
	for ev, err := range stream {
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := ev.Data.(*runevent.RunStarted); ok {
			started = s
		}
	}
	if started == nil || started.Branch == "" || started.Message != "u2" {
		t.Fatalf("the run started with %+v", started)
	}
	result, err := h.Run(t.Context(), agent, &host.Request{Thread: "T", Branch: started.Branch, Text: "go on"})
	if err != nil || result.Branch != started.Branch {
		t.Fatalf("Run on the branch = %+v, %v", result, err)
	}
	requests := model.Requests()
	if diff := cmp.Diff([]string{"question u1", "one", "question u2", "better", "go on"}, textsOf(requests[len(requests)-1].Messages)); diff != "" {
		t.Errorf("the model is asked on the branch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"question u1", "one", "question u2", "two"}, textsOf(kept.Messages("", "T"))); diff != "" {
		t.Errorf("thread (-want +got):\n%s", diff)
	}
}

// narrow has the methods of a history and nothing else.
type narrow struct {
	host.UserMessageAppender
	host.HistoryLoader
	host.ResultAppender
}

func TestWhatAHistoryCannotDoIsRefused(t *testing.T) {
	kept := hosttest.NewHistory()
	plain := newHistory(t, narrow{kept, kept, kept})
	agent := newAgent(t, &host.AgentOptions{Model: says("no"), History: plain})
	able := newAgent(t, &host.AgentOptions{Model: says("no"), History: newHistory(t, kept)})
	h := newHost(t, nil)
	for name, test := range map[string]struct {
		agent *host.Agent
		req   host.Request
		says  string
	}{
		"regenerate":                {agent, host.Request{Thread: "T", Regenerate: "u1"}, "needs Regenerate"},
		"regenerate on a branch":    {agent, host.Request{Thread: "T", Regenerate: "u1", NewBranch: true}, "needs Branch"},
		"a branch":                  {agent, host.Request{Thread: "T", Branch: "b1", Text: "hi"}, "needs Branch"},
		"a conflict":                {agent, host.Request{Thread: "T", Text: "hi", Racing: host.RaceConflict}, "needs LockThread"},
		"an unknown race":           {able, host.Request{Thread: "T", Text: "hi", Racing: "fast"}, `"fast"`},
		"regenerate with a text":    {able, host.Request{Thread: "T", Text: "hi", Regenerate: "u1"}, "something new"},
		"regenerate without thread": {able, host.Request{Regenerate: "u1"}, "names no thread"},
		"a branch of no thread":     {able, host.Request{Branch: "b1", Text: "hi"}, "not its thread"},
		"a branch for nothing":      {able, host.Request{Thread: "T", Text: "hi", NewBranch: true}, "branch for nothing"},
		"an impossible message":     {able, host.Request{Thread: "T", Regenerate: strings.Repeat("x", 300)}, "300 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := h.Run(t.Context(), test.agent, &test.req)
			if host.CodeOf(err) != host.InvalidArgument || !strings.Contains(err.Error(), test.says) {
				t.Errorf("Run = %v (code %q), want code invalid_argument and %q", err, host.CodeOf(err), test.says)
			}
		})
	}
	if calls := kept.Calls(); len(calls) > 0 {
		t.Errorf("the history was asked %q", calls)
	}
	_, err := host.NewHistory(narrow{kept, kept, kept}, &host.HistoryOptions{Racing: host.RaceBranch})
	if host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("NewHistory = %v", err)
	}
}

// A message that there is not, or that is not a person's, is not answered, and the
// thread stays.
func TestRegenerateRefuses(t *testing.T) {
	kept, h, agent, model := talked(t, nil)
	said := kept.Messages("", "T")
	for message, want := range map[string]host.Code{"nope": host.NotFound, said[1].ID: host.InvalidArgument} {
		_, err := h.Run(t.Context(), agent, &host.Request{Thread: "T", Regenerate: message})
		if host.CodeOf(err) != want {
			t.Errorf("Run = %v, want code %s", err, want)
		}
	}
	if n := len(model.Requests()); n != 2 {
		t.Errorf("the model was asked %d times", n)
	}
	if diff := cmp.Diff(textsOf(said), textsOf(kept.Messages("", "T"))); diff != "" {
		t.Errorf("thread (-want +got):\n%s", diff)
	}
}

// lazy does not take the answer back.
type lazy struct{ *hosttest.History }

func (lazy) Regenerate(context.Context, *host.HistoryRequest, string) (string, error) { return "", nil }

func TestAHistoryThatKeepsTheAnswerIsFound(t *testing.T) {
	kept, _, _, _ := talked(t, nil)
	agent := newAgent(t, &host.AgentOptions{Model: says("no"), History: newHistory(t, lazy{kept})})
	_, err := newHost(t, nil).Run(t.Context(), agent, &host.Request{Thread: "T", Regenerate: "u1"})
	if host.CodeOf(err) != host.DataLoss {
		t.Errorf("Run = %v, want code data_loss", err)
	}
}

// race runs a turn while another holds the thread, and returns its outcome.
func race(t *testing.T, h *host.Host, agent *host.Agent, req *host.Request) (*host.RunResult, error) {
	t.Helper()
	type outcome struct {
		result *host.RunResult
		err    error
	}
	done := make(chan outcome, 1)
	first := true
	for _, err := range h.Stream(t.Context(), agent, &host.Request{Thread: "T", Text: "slow"}) {
		if err != nil {
			t.Fatal(err)
		}
		if first { // the turn has the thread and has stored its message
			first = false
			result, err := h.Run(t.Context(), agent, req)
			done <- outcome{result, err}
		}
	}
	o := <-done
	return o.result, o.err
}

func TestATurnThatDoesNotWait(t *testing.T) {
	t.Run("conflicts", func(t *testing.T) {
		kept, h, agent, model := talked(t, &host.HistoryOptions{Racing: host.RaceConflict})
		model.Queue(hosttest.Say("slowly"))
		_, err := race(t, h, agent, &host.Request{Thread: "T", Text: "hasty"})
		if host.CodeOf(err) != host.Conflict {
			t.Errorf("Run = %v, want code conflict", err)
		}
		want := []string{"question u1", "one", "question u2", "two", "slow", "slowly"}
		if diff := cmp.Diff(want, textsOf(kept.Messages("", "T"))); diff != "" {
			t.Errorf("thread (-want +got):\n%s", diff)
		}
	})
	t.Run("branches", func(t *testing.T) {
		kept, h, agent, model := talked(t, nil)
		model.Queue(hosttest.Say("hastily"), hosttest.Say("slowly"))
		result, err := race(t, h, agent, &host.Request{Thread: "T", Text: "hasty", Racing: host.RaceBranch})
		if err != nil || result.Branch == "" {
			t.Fatalf("Run = %+v, %v", result, err)
		}
		want := []string{"question u1", "one", "question u2", "two", "slow", "slowly"}
		if diff := cmp.Diff(want, textsOf(kept.Messages("", "T"))); diff != "" {
			t.Errorf("thread (-want +got):\n%s", diff)
		}
		asked := model.Requests()[2].Messages
		if diff := cmp.Diff([]string{"question u1", "one", "question u2", "two", "hasty"}, textsOf(asked)); diff != "" {
			t.Errorf("the model is asked on the branch (-want +got):\n%s", diff)
		}
	})
}
