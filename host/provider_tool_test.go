package host_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/hosttest"
)

func providerTool(provider, declaration string) host.ProviderTool {
	return host.ProviderTool{Provider: provider, Declaration: json.RawMessage(declaration)}
}

func TestProviderToolsReachTheModelUntouched(t *testing.T) {
	const declared = `{"type":"web_search_20250305", "name":"web_search"}`
	model := hosttest.NewModel(hosttest.Say("found"))
	agent := newAgent(t, &host.AgentOptions{Model: model, ToolChoice: "web_search",
		ProviderTools: []host.ProviderTool{providerTool("anthropic", declared), providerTool("openai", `{"type":"x"}`)}})
	if _, err := newHost(t, nil).Run(t.Context(), agent, &host.Request{Text: "x"}); err != nil {
		t.Fatal(err)
	}
	req := model.Requests()[0]
	if got := req.ProviderToolsOf("anthropic"); len(got) != 1 || string(got[0]) != declared {
		t.Errorf("a model of anthropic is sent %s, want %s", got, declared)
	}
	if got := req.ProviderToolsOf("elsewhere"); len(got) != 0 {
		t.Errorf("a model of another provider is sent %s", got)
	}
	if req.ToolChoice != "web_search" || len(req.Tools) != 0 {
		t.Errorf("the request has tool choice %q and %d tools of the host's", req.ToolChoice, len(req.Tools))
	}
}

func TestProviderToolsRefused(t *testing.T) {
	look := tool("look", func(context.Context, *host.Call) (string, error) { return "", nil })
	for says, declared := range map[string]host.ProviderTool{
		"without a provider":         providerTool("", `{}`),
		"is not a JSON object":       providerTool("openai", `[]`),
		"is not a JSON":              providerTool("openai", `{`),
		"not a JSON object":          providerTool("openai", ``),
		`two tools are named "look"`: providerTool("openai", `{"name":"look"}`),
	} {
		_, err := host.NewAgent("clerk", &host.AgentOptions{Tools: []*host.Tool{look}, ProviderTools: []host.ProviderTool{declared}})
		if host.CodeOf(err) != host.InvalidArgument || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), `"clerk"`) {
			t.Errorf("NewAgent with %s: %v, want invalid_argument and %q", declared.Declaration, err, says)
		}
	}
}

// An answer that the provider pauses, because its own tools take long, goes on
// in the next round with what there is.
func TestAPausedAnswerGoesOn(t *testing.T) {
	searching := &chat.Unknown{Kind: "anthropic", JSON: json.RawMessage(`{"type":"anthropic","block":{"type":"server_tool_use"}}`)}
	var model *hosttest.Model
	run := func(opts host.AgentOptions) *host.Result {
		t.Helper()
		model = hosttest.NewModel(hosttest.Reply{Parts: []host.Part{searching}, FinishReason: chat.FinishPaused}, hosttest.Say(`"found"`))
		opts.Model = model
		result, err := newHost(t, nil).Run(t.Context(), newAgent(t, &opts), &host.Request{Text: "x"})
		if err != nil {
			t.Fatal(err)
		}
		return result.Results[0]
	}
	schema, err := host.CompileSchema(json.RawMessage(`{"type":"string"}`))
	if err != nil {
		t.Fatal(err)
	}
	r := run(host.AgentOptions{Output: schema})
	if string(r.Output) != `"found"` || r.Rounds != 2 || r.FinishReason != chat.FinishStop {
		t.Errorf("the run says %s after %d rounds and ends with %s", r.Output, r.Rounds, r.FinishReason)
	}
	second := model.Requests()[1].Messages
	if got := second[len(second)-1]; got.Role != host.Assistant || len(got.Parts) != 1 || got.Parts[0] != host.Part(searching) {
		t.Errorf("the second request ends with %s, want the paused answer", encode(got))
	}
	if r := run(host.AgentOptions{MaxRounds: 1}); r.FinishReason != chat.FinishMaxRounds || r.Rounds != 1 {
		t.Errorf("with one round: %s after %d", r.FinishReason, r.Rounds)
	}
}

func TestWithModelKeepsTheRest(t *testing.T) {
	old, other := hosttest.NewModel(), hosttest.NewModel(hosttest.Call("look", "{}"), hosttest.Say("done"))
	history := hosttest.NewHistory()
	look := tool("look", func(context.Context, *host.Call) (string, error) { return "found", nil })
	agent := newAgent(t, &host.AgentOptions{Model: old, Tools: []*host.Tool{look}, ToolChoice: "look", Instructions: "Look.", History: newHistory(t, history)})
	result, err := newHost(t, nil).Run(t.Context(), agent.WithModel(other), &host.Request{Tenant: "acme", Thread: "T", Text: "x"})
	if err != nil || result.Text() != "done" || result.Results[0].Agent != agent.Name() {
		t.Fatalf("Run = %+v, %v", result, err)
	}
	if req := other.Requests()[0]; req.ToolChoice != "look" || req.Messages[0].Text() != "Look." || len(old.Requests()) != 0 {
		t.Errorf("the other model is asked %+v, the old one %d times", req, len(old.Requests()))
	}
	if n := len(history.Messages("acme", "T")); n != 4 {
		t.Errorf("%d messages are stored, want 4", n)
	}
}
