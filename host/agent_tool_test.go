package host_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runevent"
)

// expert returns an agent that answers with a script, as a tool.
func expert(t testing.TB, opts *host.AgentOptions) *host.Tool {
	t.Helper()
	if opts.Description == "" {
		opts.Description = "Knows everything."
	}
	a, err := host.NewAgent("expert", opts)
	if err != nil {
		t.Fatal(err)
	}
	tool, err := host.NewAgentTool(a, nil)
	if err != nil {
		t.Fatal(err)
	}
	return tool
}

func TestAnAgentAsATool(t *testing.T) {
	note := host.NewTool("note", "Notes.", func(_ context.Context, c *host.Call, in struct {
		Text string `json:"text"`
	}) (string, error) {
		if err := c.AddArtifact(host.Artifact{Name: "note", Parts: []host.Part{&host.Text{Text: in.Text}}}); err != nil {
			return "", err
		}
		return "noted", c.State.Patch([]host.PatchOp{{Op: "add", Path: "/noted", Value: json.RawMessage(`true`)}})
	}, nil)
	inner := hosttest.NewModel(hosttest.Call("note", `{"text":"42"}`), hosttest.Say("It is 42."))
	outer := hosttest.NewModel(hosttest.Call("expert", `{"request":"What is it?"}`), hosttest.Say("The expert says 42."))
	agent := newAgent(t, &host.AgentOptions{Model: outer, Tools: []*host.Tool{
		expert(t, &host.AgentOptions{Model: inner, Instructions: "You know.", Tools: []*host.Tool{note}})}})
	var inside []string
	var patches int
	var result *host.RunResult
	for ev, err := range newHost(t, nil).Stream(t.Context(), agent, &host.Request{Text: "Ask the expert."}) {
		if err != nil {
			t.Fatal(err)
		}
		switch d := ev.Data.(type) {
		case *runevent.ToolProgress:
			var of struct{ Type, Agent string }
			if err := json.Unmarshal(d.Data, &of); err != nil || d.Kind != "agent" || of.Agent != "expert" {
				t.Errorf("progress %s %s, %v", d.Kind, d.Data, err)
			}
			if !strings.HasSuffix(of.Type, ".delta") {
				inside = append(inside, of.Type)
			}
		case *runevent.StatePatched:
			patches++
		case *runevent.RunFinished:
			result = d.Result
		}
	}
	if got, want := said(inner.Requests()[0].Messages), "s:You know. | u:What is it?"; got != want {
		t.Errorf("the expert is asked %q, want %q", got, want)
	}
	if got, want := said(result.Results[0].Messages), `a:expert{"request":"What is it?"} | t:"It is 42." | a:The expert says 42.`; got != want {
		t.Errorf("kept is %q, want %q", got, want)
	}
	want := []string{"agent.started", "model.called", "message", "tool.started", "artifact", "tool.finished", "message", "model.called", "message", "agent.finished"}
	if !slices.Equal(inside, want) {
		t.Errorf("inside happened %v, want %v", inside, want)
	}
	if string(result.State) != `{"noted":true}` || len(result.Artifacts) != 1 || patches != 2 {
		t.Errorf("state %s, %d artifacts, %d patches; want the expert's change, its artifact and two", result.State, len(result.Artifacts), patches)
	}
	if result.Usage.OutputTokens != 4 || result.Results[0].Usage.OutputTokens != 4 {
		t.Errorf("usage %+v, want that of four answers", result.Usage)
	}
}

func TestAnAgentToolAnswersWithItsOutput(t *testing.T) {
	tool := expert(t, &host.AgentOptions{Model: hosttest.NewModel(hosttest.Say(`{"fine":true}`)), Output: verdictSchema(t)})
	if got := call(t, tool, `{"request":"Is it?"}`); got.IsError || string(got.Content) != `{"fine":true}` {
		t.Errorf("result %s, error %v", got.Content, got.IsError)
	}
}

func TestAgentToolFailures(t *testing.T) {
	for _, test := range []struct {
		name      string
		opts      *host.AgentOptions
		arguments string
		want      string
	}{
		{"its model fails", &host.AgentOptions{Model: hosttest.NewModel(hosttest.Fail(host.Errorf(host.Unavailable, "the server is down")))},
			`{"request":"x"}`, "the server is down"},
		{"no request", &host.AgentOptions{Model: hosttest.NewModel()}, `{}`, "do not fit the schema"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := call(t, expert(t, test.opts), test.arguments)
			if !got.IsError || !strings.Contains(string(got.Content), test.want) {
				t.Errorf("result %s, want an error with %q", got.Content, test.want)
			}
		})
	}
	outside := expert(t, &host.AgentOptions{Model: hosttest.NewModel()})
	agent := newAgent(t, &host.AgentOptions{Model: says("hi"), Tools: []*host.Tool{expert(t, &host.AgentOptions{Tools: []*host.Tool{outside}})}})
	if _, err := newHost(t, nil).Run(t.Context(), agent, &host.Request{Text: "hi"}); host.CodeOf(err) != host.InvalidArgument || !strings.Contains(err.Error(), `"expert" has no model`) {
		t.Errorf("an agent without a model as a tool: %v", err)
	}
	if _, err := host.NewAgentTool(newAgent(t, &host.AgentOptions{}), nil); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("an agent without a description: %v", err)
	}
	if _, err := host.NewAgentTool(newAgent(t, nil), &host.AgentToolOptions{Name: "no good", Description: "x"}); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("a bad name: %v", err)
	}
	if _, err := host.NewAgentTool(nil, nil); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("no agent: %v", err)
	}
}

// What redacts for a network redacts for the agents that are tools in it, and
// what they use counts for the run.
func TestAnAgentToolIsBoundByItsRun(t *testing.T) {
	redact := host.ProcessorFunc("redact", func(_ context.Context, messages []*host.Message) ([]*host.Message, error) {
		out := slices.Clone(messages)
		for i, m := range out {
			if m.Text() == "secret" {
				m = host.UserText("[redacted]")
				m.ID = out[i].ID
				out[i] = m
			}
		}
		return out, nil
	})
	inner := hosttest.ModelFunc(func(context.Context, *llm.Request) hosttest.Reply {
		return hosttest.Reply{Text: "ok", Usage: host.Usage{InputTokens: 60, OutputTokens: 40}}
	})
	outer := hosttest.ModelFunc(func(context.Context, *llm.Request) hosttest.Reply {
		return hosttest.Call("expert", `{"request":"secret"}`)
	})
	clerk := newAgent(t, &host.AgentOptions{Description: "x", Model: outer, Tools: []*host.Tool{expert(t, &host.AgentOptions{Model: inner})}})
	once := host.RouterFunc("once", func(_ context.Context, req *host.RouteRequest) (*host.Route, error) {
		if req.CallCount > 0 {
			return nil, nil
		}
		return host.Next("clerk"), nil
	})
	n, err := host.NewNetwork("desk", []*host.Agent{clerk}, &host.NetworkOptions{Router: once, Processors: []host.Processor{redact}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = newHost(t, &host.Options{Limits: host.Limits{RunTokens: 250}}).Run(t.Context(), n, &host.Request{Text: "go"})
	if host.CodeOf(err) != host.ResourceExhausted || !strings.Contains(err.Error(), "RunTokens of 250") {
		t.Errorf("error %v, want the limit RunTokens", err)
	}
	if got := said(inner.Requests()[0].Messages); got != "u:[redacted]" {
		t.Errorf("the expert's model is shown %q", got)
	}
	if n := len(inner.Requests()); n != 3 {
		t.Errorf("the expert was asked %d times, want 3: 250 tokens are less than three times 102", n)
	}
}

func TestAgentToolDepth(t *testing.T) {
	// Each agent calls the one below it, however deep.
	caller := func(name string) *hosttest.Model {
		return hosttest.ModelFunc(func(_ context.Context, req *llm.Request) hosttest.Reply {
			last := req.Messages[len(req.Messages)-1]
			if results := last.ToolResults(); len(results) > 0 {
				return hosttest.Say(strings.Trim(string(results[0].Content), `"`))
			}
			return hosttest.Call(name, `{"request":"deeper"}`)
		})
	}
	tool := expert(t, &host.AgentOptions{Model: says("the bottom")})
	for range host.MaxAgentDepth {
		tool = expert(t, &host.AgentOptions{Model: caller("expert"), Tools: []*host.Tool{tool}})
	}
	agent := newAgent(t, &host.AgentOptions{Model: caller("expert"), Tools: []*host.Tool{tool}})
	result, err := newHost(t, nil).Run(t.Context(), agent, &host.Request{Text: "go"})
	if err != nil || !strings.Contains(result.Text(), "more than 4 deep") {
		t.Errorf("%q, %v", result.Text(), err)
	}
}
