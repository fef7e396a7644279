package runs_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runs"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/internal/testhost"
)

// blocked returns a model that answers when release is closed, or fails with its context.
func blocked(release <-chan struct{}) host.Model {
	return hosttest.ModelFunc(func(ctx context.Context, _ *llm.Request) hosttest.Reply {
		select {
		case <-release:
			return hosttest.Say("done")
		case <-ctx.Done():
			return hosttest.Fail(ctx.Err())
		}
	})
}

func TestStartReturnsTheErrorOfARefusedRequest(t *testing.T) {
	agent := newAgent(t, "clerk", &host.AgentOptions{Model: words(1)})
	r := newRegistry(t, newHost(t, nil), &runs.Options{StartWait: time.Minute}) // for a refusal on a busy machine
	for name, c := range map[string]struct {
		target host.Target
		req    *host.Request
		opts   *runs.StartOptions
		want   host.Code
	}{
		"a request that says nothing":  {agent, &host.Request{Tenant: "acme"}, nil, host.InvalidArgument},
		"a tenant of a bad name":       {agent, &host.Request{Tenant: "a\x00b", Text: "go"}, nil, host.InvalidArgument},
		"no target":                    {nil, &host.Request{Tenant: "acme", Text: "go"}, nil, host.InvalidArgument},
		"an unknown choice of leaving": {agent, &host.Request{Tenant: "acme", Text: "go"}, &runs.StartOptions{OnLeave: "explode"}, host.InvalidArgument},
		"a durable run, no journal":    {agent, &host.Request{Tenant: "acme", Text: "go", Durable: true}, nil, host.FailedPrecondition},
	} {
		if run, err := r.Start(t.Context(), c.target, c.req, c.opts); host.CodeOf(err) != c.want || run != nil {
			t.Errorf("%s: Start = %v, %v; want code %s", name, run, err, c.want)
		}
	}
	if page, err := r.List(t.Context(), &runs.ListRequest{Tenant: "acme"}); err != nil || len(page.Runs) > 0 {
		t.Errorf("refused requests left %d runs, %v", len(page.Runs), err)
	}
	if _, err := runs.New(nil, nil); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("New without a host: %v", err)
	}
}

// slowLedger refuses a run that has waited.
type slowLedger struct{ host.Ledger }

func (slowLedger) AdmitRun(context.Context, string, string) error {
	time.Sleep(time.Minute)
	return host.Errorf(host.ResourceExhausted, "the budget is used up")
}

// The reason of a refusal that comes after Start is part of the run, as readers of other hosts
// have it.
func TestARunThatIsRefusedLateSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry(t, newHost(t, &host.Options{Ledger: slowLedger{}}), nil)
		agent := newAgent(t, "clerk", &host.AgentOptions{Model: words(1)})
		run, err := r.Start(t.Context(), agent, &host.Request{Tenant: "acme", Text: "go"}, nil)
		if err != nil || !run.Waiting {
			t.Fatalf("Start = %+v, %v; want a run that waits", run, err)
		}
		run, err = r.Wait(t.Context(), "acme", run.ID)
		if host.CodeOf(err) != host.ResourceExhausted || run.Status != runs.Failed || run.Error == nil || run.Error.Code != host.ResourceExhausted {
			t.Errorf("Wait = %+v, %v; want the refusal in both", run, err)
		}
	})
}

func TestRunsOfAnotherTenantAreNotFound(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	r := newRegistry(t, newHost(t, nil), nil)
	run, err := r.Start(t.Context(), newAgent(t, "clerk", &host.AgentOptions{Model: blocked(release)}), &host.Request{Tenant: "acme", Text: "go"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, getErr := r.Get(t.Context(), "other", run.ID)
	_, cancelErr := r.Cancel(t.Context(), "other", run.ID)
	_, waitErr := r.Wait(t.Context(), "other", run.ID)
	_, answerErr := r.Answer(t.Context(), "other", run.ID, nil, nil)
	var eventsErr error
	for _, eventsErr = range r.Events(t.Context(), "other", run.ID, 0) {
	}
	for i, err := range []error{getErr, cancelErr, waitErr, answerErr, eventsErr} {
		if host.CodeOf(err) != host.NotFound {
			t.Errorf("call %d of another tenant: %v, want not_found", i, err)
		}
	}
	if page, err := r.List(t.Context(), &runs.ListRequest{Tenant: "other"}); err != nil || len(page.Runs) > 0 {
		t.Errorf("another tenant lists %d runs, %v", len(page.Runs), err)
	}
	if got, err := r.Get(t.Context(), "acme", run.ID); err != nil || got.Status != runs.Running {
		t.Errorf("the run is %+v, %v; want it to run", got, err)
	}
}

func TestListPagesThroughRunsOfAStatusAndThread(t *testing.T) {
	r := newRegistry(t, newHost(t, nil), nil)
	agent := newAgent(t, "clerk", &host.AgentOptions{Model: hosttest.ModelFunc(func(context.Context, *llm.Request) hosttest.Reply { return hosttest.Say("ok") })})
	want := map[string]bool{}
	for i := range 25 {
		id := fmt.Sprintf("run-%d", i)
		if _, err := r.Start(t.Context(), agent, &host.Request{Tenant: "acme", Run: id, Text: "go"}, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Wait(t.Context(), "acme", id); err != nil {
			t.Fatal(err)
		}
		want[id] = true
	}
	req := &runs.ListRequest{Tenant: "acme", Status: runs.Completed, Limit: 10}
	var last time.Time
	for pages := 1; ; pages++ {
		page, err := r.List(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		for _, run := range page.Runs {
			if !want[run.ID] || !last.IsZero() && run.Started.After(last) {
				t.Errorf("page %d has %s, started %s after %s", pages, run.ID, run.Started, last)
			}
			delete(want, run.ID)
			last = run.Started
		}
		if req.Cursor = page.Next; page.Next == "" {
			if pages != 3 {
				t.Errorf("%d pages, want 3", pages)
			}
			break
		}
	}
	if len(want) > 0 {
		t.Errorf("runs on no page: %v", want)
	}
	for _, other := range []*runs.ListRequest{{Tenant: "acme", Status: runs.Running}, {Tenant: "acme", Thread: "t9"}} {
		if page, err := r.List(t.Context(), other); err != nil || len(page.Runs) > 0 {
			t.Errorf("List(%+v) = %d runs, %v; want none", other, len(page.Runs), err)
		}
	}
	for name, bad := range map[string]*runs.ListRequest{
		"an unknown status": {Tenant: "acme", Status: "odd"}, "a negative limit": {Tenant: "acme", Limit: -1},
		"a high limit": {Tenant: "acme", Limit: 1001}, "a bad cursor": {Tenant: "acme", Cursor: "!"}, "another cursor": {Tenant: "acme", Cursor: "YWJj"},
	} {
		if _, err := r.List(t.Context(), bad); host.CodeOf(err) != host.InvalidArgument {
			t.Errorf("%s: %v, want invalid_argument", name, err)
		}
	}
}

func TestARunEndsWhenItsReadersHaveLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry(t, newHost(t, nil), &runs.Options{LeaveGrace: 10 * time.Second})
		agent := newAgent(t, "clerk", &host.AgentOptions{Model: blocked(nil)})
		start := func(leave runs.Leave) string {
			run, err := r.Start(t.Context(), agent, &host.Request{Tenant: "acme", Text: "go"}, &runs.StartOptions{OnLeave: leave})
			if err != nil {
				t.Fatal(err)
			}
			return run.ID
		}
		status := func(id string) runs.Status {
			synctest.Wait()
			run, err := r.Get(t.Context(), "acme", id)
			if err != nil {
				t.Fatal(err)
			}
			return run.Status
		}
		stays, read, unread := start(runs.LeaveContinues), start(runs.LeaveCancels), start(runs.LeaveCancels)
		for range 3 { // a reader that comes back in time keeps the run
			time.Sleep(9 * time.Second)
			for range r.Events(t.Context(), "acme", read, 0) {
				break
			}
		}
		if got := []runs.Status{status(stays), status(read), status(unread)}; got[0] != runs.Running || got[1] != runs.Running || got[2] != runs.Canceled {
			t.Errorf("after 27 s the runs are %v, want running, running, canceled", got)
		}
		time.Sleep(11 * time.Second)
		if got := []runs.Status{status(stays), status(read)}; got[0] != runs.Running || got[1] != runs.Canceled {
			t.Errorf("after a silence of 11 s the runs are %v, want running, canceled", got)
		}
		run, err := r.Wait(t.Context(), "acme", read)
		if host.CodeOf(err) != host.Canceled || run.Error == nil || !strings.Contains(run.Error.Message, "no reader for 10s") {
			t.Errorf("the run that lost its readers ended with %v, %v", run, err)
		}
	})
}

func TestEndedRunsAreForgottenInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry(t, newHost(t, nil), &runs.Options{KeptFor: 10 * time.Second, MaxEnded: 2})
		agent := newAgent(t, "clerk", &host.AgentOptions{Model: hosttest.ModelFunc(func(context.Context, *llm.Request) hosttest.Reply { return hosttest.Say("ok") })})
		for i := range 3 {
			id := fmt.Sprint("r", i)
			if _, err := r.Start(t.Context(), agent, &host.Request{Tenant: "acme", Run: id, Text: "go"}, nil); err != nil {
				t.Fatal(err)
			}
			if _, err := r.Wait(t.Context(), "acme", id); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		has := func(id string) bool { _, err := r.Get(t.Context(), "acme", id); return err == nil }
		if has("r0") || !has("r1") || !has("r2") {
			t.Errorf("kept are r0 %t, r1 %t, r2 %t; want the last two", has("r0"), has("r1"), has("r2"))
		}
		if _, err := r.Start(t.Context(), agent, &host.Request{Tenant: "acme", Run: "r2", Text: "go"}, nil); host.CodeOf(err) != host.AlreadyExists {
			t.Errorf("a second run of the id: %v, want already_exists", err)
		}
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if has("r1") || has("r2") {
			t.Error("runs are kept for longer than KeptFor")
		}
	})
}

func TestRunsAreBounded(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	r := newRegistry(t, newHost(t, nil), &runs.Options{MaxRuns: 1})
	agent := newAgent(t, "clerk", &host.AgentOptions{Model: blocked(release)})
	if _, err := r.Start(t.Context(), agent, &host.Request{Tenant: "acme", Text: "go"}, nil); err != nil {
		t.Fatal(err)
	}
	_, err := r.Start(t.Context(), agent, &host.Request{Tenant: "acme", Text: "go"}, nil)
	refusal, ok := err.(*host.Error)
	if !ok || refusal.Code != host.ResourceExhausted || refusal.Limit != "MaxRuns" || refusal.RetryAfter <= 0 {
		t.Errorf("a run over the limit: %v, want resource_exhausted of MaxRuns", err)
	}
}

func TestDrainWaitsThenCancels(t *testing.T) {
	release := make(chan struct{})
	r := newRegistry(t, newHost(t, nil), nil)
	quick := newAgent(t, "quick", &host.AgentOptions{Model: blocked(release)})
	stuck := newAgent(t, "stuck", &host.AgentOptions{Model: blocked(nil)})
	for _, agent := range []*host.Agent{quick, stuck} {
		if _, err := r.Start(t.Context(), agent, &host.Request{Tenant: "acme", Run: agent.Name(), Text: "go"}, nil); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	drained := make(chan error, 1)
	go func() { drained <- r.Drain(ctx) }()
	close(release)
	if run, err := r.Wait(t.Context(), "acme", "quick"); err != nil || run.Status != runs.Completed {
		t.Errorf("a run that ends while the registry drains: %+v, %v", run, err)
	}
	select {
	case err := <-drained:
		t.Errorf("Drain returned %v while a run was live", err)
	default:
	}
	cancel()
	if err := <-drained; host.CodeOf(err) != host.Canceled {
		t.Errorf("Drain = %v, want the end of its context", err)
	}
	if run, err := r.Get(t.Context(), "acme", "stuck"); err != nil || run.Status != runs.Canceled {
		t.Errorf("the other run is %+v, %v; want it canceled", run, err)
	}
	if _, err := r.Start(t.Context(), quick, &host.Request{Tenant: "acme", Text: "go"}, nil); host.CodeOf(err) != host.Unavailable {
		t.Errorf("Start after Drain: %v, want unavailable", err)
	}
}

// asking returns an agent whose tool needs an approval.
func asking(t *testing.T) *host.Agent {
	t.Helper()
	model := hosttest.ModelFunc(func(_ context.Context, req *llm.Request) hosttest.Reply {
		if last := req.Messages[len(req.Messages)-1]; len(last.ToolResults()) > 0 {
			return hosttest.Say("refunded")
		}
		return hosttest.Call("refund", `{}`)
	})
	refund := host.NewTool("refund", "Refunds.", func(context.Context, *host.Call, struct{}) (string, error) { return "ok", nil },
		&host.ToolOptions{Approve: host.ApproveAlways("it is money")})
	return newAgent(t, "clerk", &host.AgentOptions{Model: model, Tools: []*host.Tool{refund}})
}

func TestAnswerContinuesAnInterruptedRun(t *testing.T) {
	store := threads.New(kv.NewMemory(), nil)
	history := testhost.NewHistory(t, store)
	for name, opts := range map[string]*host.Options{"with a journal": {History: history}, "without a journal": nil} {
		t.Run(name, func(t *testing.T) {
			r, agent := newRegistry(t, newHost(t, opts), nil), asking(t)
			run, err := r.Start(t.Context(), agent, &host.Request{Tenant: "acme", Text: "refund me"}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if run, err = r.Wait(t.Context(), "acme", run.ID); err != nil || run.Status != runs.Interrupted || len(run.Questions) != 1 {
				t.Fatalf("Wait = %+v, %v; want a question", run, err)
			}
			answer := []host.Answer{{Question: run.Questions[0].ID, Decision: host.Approve}}
			next, err := r.Answer(t.Context(), "acme", run.ID, answer, nil)
			if err != nil {
				t.Fatal(err)
			}
			if next, err = r.Wait(t.Context(), "acme", next.ID); err != nil || next.Status != runs.Completed || next.Result.Text() != "refunded" {
				t.Errorf("the run with the answer: %+v, %v", next, err)
			}
			if _, err := r.Answer(t.Context(), "acme", next.ID, answer, nil); host.CodeOf(err) != host.FailedPrecondition {
				t.Errorf("an answer to a run that asks nothing: %v", err)
			}
		})
	}
}

func TestAnswerFindsARunOfAnotherProcessInTheJournal(t *testing.T) {
	store := threads.New(kv.NewMemory(), nil)
	history := testhost.NewHistory(t, store)
	agent := asking(t)
	first := newRegistry(t, newHost(t, &host.Options{History: history}), nil)
	run, err := first.Start(t.Context(), agent, &host.Request{Tenant: "acme", Text: "refund me"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if run, err = first.Wait(t.Context(), "acme", run.ID); err != nil {
		t.Fatal(err)
	}
	answer := []host.Answer{{Question: run.Questions[0].ID, Decision: host.Deny}}
	second := newRegistry(t, newHost(t, &host.Options{History: history}), &runs.Options{Journal: store, Target: func(name string) (host.Target, error) {
		if name != "clerk" {
			return nil, host.Errorf(host.NotFound, "there is no agent %q", name)
		}
		return agent, nil
	}})
	next, err := second.Answer(t.Context(), "acme", run.ID, answer, nil)
	if err != nil {
		t.Fatal(err)
	}
	if next, err = second.Wait(t.Context(), "acme", next.ID); err != nil || next.Status != runs.Completed {
		t.Errorf("the run with the answer: %+v, %v", next, err)
	}
	if _, err := second.Answer(t.Context(), "acme", "none", answer, nil); host.CodeOf(err) != host.NotFound {
		t.Errorf("an answer to no run: %v", err)
	}
}

func TestOnlyAKnownStatusCanBeTheEnd(t *testing.T) {
	for status, want := range map[runs.Status]bool{
		"": false, "unknown": false, runs.Running: false,
		runs.Interrupted: true, runs.Completed: true, runs.Failed: true, runs.Canceled: true,
	} {
		if got := status.Ended(); got != want {
			t.Errorf("Status(%q).Ended() = %t, want %t", status, got, want)
		}
	}
}
