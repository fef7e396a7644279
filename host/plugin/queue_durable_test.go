package plugin_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/queue"
)

// What a plugin leaves goes through the host's queue, survives its end, and is
// done by the plugin in the next process.
func TestJobsOfPluginsAreDurable(t *testing.T) {
	driver := kv.NewMemory()
	store := plugin.NewMemoryStore()
	wasm := buildGuest(t, "host/plugin/testdata/guests/operations")
	granted := plugin.Permissions{KV: plugin.Write, Queue: true}

	first := queue.New(driver, nil) // never started: its process ends before
	rt := newRuntime(t, &plugin.Options{Queue: plugin.QueueOn(first), Store: store})
	p := load(t, rt, "operations", wasm, &plugin.LoadOptions{Granted: granted})
	done := event[*host.ToolFinished](t, runTool(t, p, "later", `{}`))
	if done.IsError {
		t.Fatalf("later: %s", done.Content)
	}
	done = event[*host.ToolFinished](t, runTool(t, p, "later", `{}`))
	if !done.IsError || !strings.Contains(sentence(t, done), `"once"`) {
		t.Errorf("the same key again: %s", done.Content)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}

	rt = newRuntime(t, &plugin.Options{Store: store})
	p = load(t, rt, "operations", wasm, &plugin.LoadOptions{Granted: granted})
	second := queue.New(driver, nil)
	second.Handle(plugin.JobName, rt.HandleJob)
	if err := second.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = second.Close() }()
	if err := second.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if done := event[*host.ToolFinished](t, runTool(t, p, "count", `{}`)); string(done.Content) != `"n2"` {
		t.Errorf("after the job the count is %s, want n2", done.Content)
	}
	if dead, err := second.Dead(t.Context(), "acme", 0); err != nil || len(dead) != 0 {
		t.Errorf("dead: %v, %v", dead, err)
	}
}

// enqueuer keeps the job that it is given.
type enqueuer struct{ job *host.Job }

func (e *enqueuer) Enqueue(_ context.Context, job *host.Job) (string, error) {
	e.job = job
	return "1", nil
}

func TestPluginsJobAsAHostsJob(t *testing.T) {
	var e enqueuer
	job := &plugin.Job{Owner: plugin.Owner{Tenant: "acme", Plugin: "p"}, Handler: "note", IdempotencyKey: "k",
		Payload: json.RawMessage(`"<` + strings.Repeat("<", 100) + `"`), Scope: host.Scope{Thread: "t1", Run: "r1"}}
	if _, err := plugin.QueueOn(&e).Send(t.Context(), job, nil); err != nil {
		t.Fatal(err)
	}
	if e.job.Name != plugin.JobName || e.job.Key != "p/k" || e.job.Scope.Tenant != "acme" || e.job.Scope.Run != "r1" {
		t.Errorf("%+v", e.job)
	}
	if n := len(e.job.Payload) - len(job.Payload); n > 100 {
		t.Errorf("the payload grows by %d bytes: %s", n, e.job.Payload)
	}
	rt := newRuntime(t, nil)
	for _, payload := range []string{`{`, `[]`, `null`, `{"plugin":1}`} {
		if err := rt.HandleJob(t.Context(), &host.Job{Payload: json.RawMessage(payload)}); err == nil {
			t.Errorf("HandleJob of %s succeeds", payload)
		}
	}
}
