package plugin_test

// Scenario: the shipped summarizer shortens conversations of several tenants.

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/plugin/plugintest"
	"github.com/agenthost/agenthost/internal/longtest"
	"github.com/agenthost/agenthost/internal/testcode"
	"github.com/agenthost/agenthost/plugins/summarizer"
)

// The shipped summarizer in the sandbox, in runs: the conversation stays short, each
// message is summarized once, and a tenant has summaries of its own.
func TestSummarizerInRuns(t *testing.T) {
	asked, shown := 0, map[string]int{}
	summarizes := hosttest.ModelFunc(func(_ context.Context, req *llm.Request) hosttest.Reply {
		asked++
		for _, m := range req.Messages {
			shown[req.Scope.Tenant+" "+m.Text()]++
		}
		return hosttest.Say(fmt.Sprintf("summary %d", asked))
	})
	rt := newRuntime(t, &plugin.Options{Models: oneModel{summarizes}})
	p := load(t, rt, "summarizer", summarizer.Wasm, &plugin.LoadOptions{Granted: plugin.Permissions{Model: true, KV: plugin.Write}})
	processor, err := p.Processor("", &plugin.PartOptions{Config: []byte(`{"target":2,"threshold":4}`)})
	if err != nil {
		t.Fatal(err)
	}
	longest, first := 0, ""
	model := hosttest.ModelFunc(func(_ context.Context, req *llm.Request) hosttest.Reply {
		longest, first = max(longest, len(req.Messages)), req.Messages[0].Text()
		return hosttest.Say("yes")
	})
	history, err := host.NewHistory(hosttest.NewHistory(), nil)
	if err != nil {
		t.Fatal(err)
	}
	agent, err := host.NewAgent("clerk", &host.AgentOptions{Model: model, History: history, Processors: []host.Processor{processor}})
	if err != nil {
		t.Fatal(err)
	}
	h, err := host.New(&host.Options{SingleTenant: true})
	if err != nil {
		t.Fatal(err)
	}
	const turns = 20
	for i := range turns {
		for _, tenant := range []string{"acme", "globex"} {
			if _, err := h.Run(t.Context(), agent, &host.Request{Tenant: tenant, Thread: "t1", Text: fmt.Sprintf("%s asks %d", tenant, i)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if longest > 9 || !strings.HasPrefix(first, "summary ") {
		t.Errorf("the longest request has %d messages, the last begins with %q", longest, first)
	}
	if asked < 4 || asked > turns {
		t.Errorf("the summarizing model was asked %d times in %d turns of two tenants", asked, turns)
	}
	for text, n := range shown {
		tenant, said, _ := strings.Cut(text, " ")
		if strings.Contains(said, "asks") && n != 1 {
			t.Errorf("%q was summarized %d times", text, n)
		}
		if strings.Contains(said, "asks") && !strings.HasPrefix(said, tenant) {
			t.Errorf("%s's model is shown %q", tenant, said)
		}
	}
}

func TestSummarizerKeepsTheContract(t *testing.T) {
	repeats := longtest.Alone(5, longtest.Rounds(50, 1000))
	for r := range plugintest.Check(t.Context(), summarizer.Wasm, &plugintest.Options{
		Runtime: &plugin.Options{CacheDir: testcode.Dir()}, Repeats: repeats, Calls: []plugintest.Call{{Export: "process", Input: `{"processor":"summarizer","config":5,"scope":{},"outline":{"count":1,"roles":"u","bytes":[1],"chars":[1],"parts":[1],"keep":[],"tools":[]}}`}},
	}) {
		if !r.OK() {
			t.Errorf("%s: %v", r.Rule, r.Problems)
		}
	}
}
