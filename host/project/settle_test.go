package project

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runs"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/internal/testguest"
)

// TestRunsWhoseQuestionsHaveExpiredAreSettled has runs of two tenants wait for approvals that
// no person gives in time, and one that waits for longer.
func TestRunsWhoseQuestionsHaveExpiredAreSettled(t *testing.T) {
	dir := t.TempDir()
	writeProjectFile(t, dir, "agenthost.yaml", `version: 1
agents: {clerk: {tools: [guest]}, slow: {tools: [patient]}}
plugins: {guest: {path: guest.wasm}, patient: {path: guest.wasm, prefix: p_}}
approve:
  - {tool: t, timeout: 1ns, on_timeout: approve}
  - {tool: p_t, timeout: 1h}
models: {m: {provider: scripted, rules: rules.yaml}}
`)
	writeProjectFile(t, dir, "rules.yaml", `rules:
  - {match: {after: t}, reply: {text: done}}
  - {match: {tool: p_t}, reply: {calls: [{name: p_t, arguments: {}}]}}
  - {match: {tool: t}, reply: {calls: [{name: t, arguments: {}}]}}
`)
	writeProjectFile(t, dir, "guest.wasm", string(testguest.Modules()["result"]))
	c, err := ReadFile(nil, dir)
	if err != nil {
		t.Fatal(err)
	}
	var logged bytes.Buffer
	p, err := Open(t.Context(), c, &Options{Data: filepath.Join(dir, "data"), Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}()
	ask := func(tenant, target string) {
		t.Helper()
		to, err := p.Target(target)
		if err != nil {
			t.Fatal(err)
		}
		run, err := p.Runs().Start(t.Context(), to, &host.Request{Tenant: tenant, Text: "go", Client: &llm.ClientTerms{Unstored: true}}, nil)
		if err == nil {
			run, err = p.Runs().Wait(t.Context(), tenant, run.ID)
		}
		if err != nil || run.Status != runs.Interrupted {
			t.Fatalf("the run is %+v, %v", run, err)
		}
	}
	ask("acme", "clerk")
	ask("globex", "clerk")
	ask("acme", "slow")
	settling := newSettlement(p.Runs(), p.threads, p.Target, p.data.Tenants, p.logger)
	settling.settle(t.Context())
	settling.work.Wait()
	for tenant, want := range map[string]string{"acme": "slow", "globex": ""} {
		waiting := ""
		page, err := p.threads.WaitingRuns(t.Context(), tenant, host.WaitingFilter{})
		if err != nil {
			t.Fatal(err)
		}
		for _, rec := range page {
			waiting += rec.Target
		}
		if waiting != want {
			t.Errorf("of %s %q still waits, want %q", tenant, waiting, want)
		}
		list, err := p.Runs().List(t.Context(), &runs.ListRequest{Tenant: tenant})
		if err != nil {
			t.Fatal(err)
		}
		for _, run := range list.Runs {
			if ended, err := p.Runs().Wait(t.Context(), tenant, run.ID); err != nil || ended.Target == "clerk" && ended.Status != runs.Completed && ended.Status != runs.Interrupted {
				t.Errorf("a run of %s is %+v, %v", tenant, ended, err)
			}
		}
	}
	if logged.Len() > 0 {
		t.Errorf("the log has %s", &logged)
	}
}

// askedRuns are runs that ask, and that run until end is closed once they are answered.
type askedRuns struct {
	questions []*host.Question // of every run
	end       chan struct{}

	mu       sync.Mutex
	answered map[string]bool
	live     map[string]int // by tenant
	most     int            // of one tenant at one time
}

func (a *askedRuns) Waiting(_ context.Context, tenant, id string) (*runs.Run, error) {
	return &runs.Run{Tenant: tenant, ID: id, Questions: a.questions}, nil
}

func (a *askedRuns) Answer(_ context.Context, tenant, id string, _ []host.Answer, _ *runs.StartOptions) (*runs.Run, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.answered[id] {
		return nil, host.Errorf(host.Conflict, "run %q is answered", id)
	}
	a.answered[id] = true
	a.live[tenant]++
	a.most = max(a.most, a.live[tenant])
	return &runs.Run{Tenant: tenant, ID: id}, nil
}

func (a *askedRuns) Wait(ctx context.Context, tenant, id string) (*runs.Run, error) {
	select {
	case <-a.end:
	case <-ctx.Done():
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.live[tenant]--
	return &runs.Run{Tenant: tenant, ID: id}, nil
}

// settlementOf returns a settlement of runs of acme and globex, what it logs, and a function
// that has a run ask a question which expired some time ago.
func settlementOf(t *testing.T, asked *askedRuns) (s *settlement, logged *bytes.Buffer, ask func(tenant, run, target string, ago time.Duration)) {
	t.Helper()
	asked.answered, asked.live, asked.end = map[string]bool{}, map[string]int{}, make(chan struct{})
	store := threads.New(kv.NewMemory(), nil)
	logged = &bytes.Buffer{}
	target := func(name string) (host.Target, error) {
		if name != "clerk" {
			return nil, host.Errorf(host.NotFound, "there is no agent %q", name)
		}
		return nil, nil
	}
	partitions := func(context.Context) iter.Seq2[string, error] {
		return func(yield func(string, error) bool) { _ = yield("acme", nil) && yield("globex", nil) }
	}
	s = newSettlement(asked, store, target, partitions, slog.New(slog.NewTextHandler(logged, nil)))
	return s, logged, func(tenant, run, target string, ago time.Duration) {
		expired := time.Now().Add(-ago)
		err := store.CreateRun(t.Context(), &host.RunRecord{
			Ref: host.RunRef{Tenant: tenant, Run: run}, Target: target, Status: host.RunInterrupted,
			Asks: []host.AskedQuestion{{ID: "q", Expires: &expired}}, Steps: []json.RawMessage{json.RawMessage(`{}`)},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestSettlingContinuesFewRunsOfATenantAtATime has many questions of a tenant expire at once,
// whose runs take long, and one of another tenant.
func TestSettlingContinuesFewRunsOfATenantAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := &askedRuns{}
		s, logged, ask := settlementOf(t, asked)
		const many = 5*settlingRuns + 1
		for i := range many {
			ask("acme", fmt.Sprintf("a%02d", i), "clerk", time.Second)
		}
		ask("globex", "g", "clerk", time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { s.run(ctx) })
		time.Sleep(3 * settleSoon)
		asked.mu.Lock()
		if len(asked.answered) != settlingRuns+1 || !asked.answered["g"] {
			t.Errorf("while the runs take long %v are continued, want %d of acme and the one of globex", asked.answered, settlingRuns)
		}
		asked.mu.Unlock()
		close(asked.end)
		time.Sleep(2 * settleSoon)
		cancel()
		running.Wait()
		if len(asked.answered) != many+1 || asked.most != settlingRuns || len(s.after) > 0 {
			t.Errorf("%d runs were continued, at most %d of a tenant at a time; left are %v", len(asked.answered), asked.most, s.after)
		}
		if logged.Len() > 0 {
			t.Errorf("the log has %s", logged)
		}
	})
}

func TestSettlingLeavesRunsThatWaitForOtherAnswers(t *testing.T) {
	expired := time.Now().Add(-time.Second)
	asked := &askedRuns{questions: []*host.Question{{ID: "q", Expires: &expired, Default: &host.Answer{Question: "q", Decision: host.Approve}}, {ID: "other"}}}
	s, logged, ask := settlementOf(t, asked)
	ask("acme", "r", "clerk", time.Second)
	s.settle(t.Context())
	if len(asked.answered) > 0 || logged.Len() > 0 {
		t.Errorf("%v are continued; the log has %s", asked.answered, logged)
	}
}

// TestSettlingEndsRunsWhoseAgentIsGone has the agent of two runs removed: that of a question
// which has expired long ago ends, for no host has the agent any more.
func TestSettlingEndsRunsWhoseAgentIsGone(t *testing.T) {
	asked := &askedRuns{}
	s, logged, ask := settlementOf(t, asked)
	ask("acme", "old", "removed", orphanTime+time.Minute)
	ask("acme", "young", "removed", time.Minute)
	s.settle(t.Context())
	left, err := s.threads.WaitingRuns(t.Context(), "acme", host.WaitingFilter{})
	if err != nil || len(left) != 1 || left[0].Run != "young" || len(asked.answered) > 0 {
		t.Errorf("left are %v, %v; continued are %v", left, err, asked.answered)
	}
	for _, want := range []string{"run=old target=removed", "run=young"} {
		if !strings.Contains(logged.String(), want) {
			t.Errorf("the log lacks %q: %s", want, logged)
		}
	}
}
