package project

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runs"
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
	(&settlement{threads: p.threads, runs: p.Runs(), partitions: p.data.Tenants, logger: p.logger}).settle(t.Context())
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
