package plugin_test

import (
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/queue"
	"github.com/agenthost/agenthost/host/runevent"
)

// What a plugin leaves goes through the host's queue, survives its end, and is
// done by the plugin in the next process.
func TestJobsOfPluginsAreDurable(t *testing.T) {
	driver := kv.NewMemory()
	store := newStore()
	wasm := buildGuest(t, "host/plugin/testdata/guests/operations")
	granted := plugin.Permissions{KV: plugin.Write, Queue: true}

	first := queue.New(driver, nil) // never started: its process ends before
	rt := newRuntime(t, &plugin.Options{Queue: first, Store: store})
	p := load(t, rt, "operations", wasm, &plugin.LoadOptions{Granted: granted})
	done := event[*runevent.ToolFinished](t, runTool(t, p, "later", `{}`))
	if done.IsError {
		t.Fatalf("later: %s", done.Content)
	}
	done = event[*runevent.ToolFinished](t, runTool(t, p, "later", `{}`))
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
	if done := event[*runevent.ToolFinished](t, runTool(t, p, "count", `{}`)); string(done.Content) != `"n2"` {
		t.Errorf("after the job the count is %s, want n2", done.Content)
	}
	if dead, err := second.Dead(t.Context(), "acme", 0); err != nil || len(dead) != 0 {
		t.Errorf("dead: %v, %v", dead, err)
	}
}
