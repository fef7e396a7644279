package plugin

import (
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
)

// A run that names no tenant is one of the single tenant: its plugins keep keys for
// that one, like those of a run that names it.
func TestPluginsOfASingleTenantKeepKeys(t *testing.T) {
	rt := startRuntime(t, nil)
	p, err := rt.Load(t.Context(), "ops", fixedGuest(t, "kv.put", `{"key":"a","value":"`+b64("one")+`"}`), &LoadOptions{Granted: Permissions{KV: Write}})
	if err != nil {
		t.Fatal(err)
	}
	tools, err := p.Tools(nil)
	if err != nil {
		t.Fatal(err)
	}
	agent, err := host.NewAgent("a", &host.AgentOptions{Model: hosttest.NewModel(hosttest.Call("t", "{}"), hosttest.Say("done")), Tools: tools})
	if err != nil {
		t.Fatal(err)
	}
	h, err := host.New(&host.Options{SingleTenant: true})
	if err != nil {
		t.Fatal(err)
	}
	res, err := h.Run(t.Context(), agent, &host.Request{Text: "go"})
	if err != nil {
		t.Fatal(err)
	}
	if done := res.Results[0].ToolResults()[0]; done.IsError {
		t.Errorf("the tool answers %s", done.Content)
	}
	item, err := rt.opts.Store.Get(t.Context(), Owner{Tenant: host.DefaultTenant, Plugin: "ops"}, "a")
	if err != nil || string(item.Value) != "one" {
		t.Errorf("the store has %+v, %v; want the value", item, err)
	}
}
