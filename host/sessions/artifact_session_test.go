package sessions_test

import (
	"context"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
)

// A tool reads what a tool of an earlier turn has made, also when the session is
// the client's to keep, and when a person was asked in between.
func TestToolsReadArtifactsOfEarlierTurns(t *testing.T) {
	var seen []string
	read := tool(t, "read", func(ctx context.Context, call *host.Call) (string, error) {
		a, err := call.Artifact(ctx, "plan")
		if err != nil {
			seen = append(seen, string(host.CodeOf(err)))
			return "", nil
		}
		content, _ := a.Content()
		seen = append(seen, string(content))
		return "", nil
	})
	write := tool(t, "write", func(_ context.Context, call *host.Call) (string, error) {
		plan := "first"
		if len(seen) > 1 {
			plan = "second"
		}
		return "", call.AddArtifact(host.Artifact{Name: "plan", Parts: []host.Part{&host.Text{Text: plan}}})
	})
	ask, err := host.NewRawTool(llm.ToolSpec{Name: "ask", Description: "ask"}, func(_ context.Context, call *host.Call) (*host.ToolOutput, error) {
		if len(call.Resumed) == 0 {
			return &host.ToolOutput{Interrupt: &host.Interrupt{Reason: "sure?"}}, nil
		}
		return &host.ToolOutput{}, nil
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	target := func() host.Target {
		return newAgent(t, "clerk", model(
			hosttest.Call("read", "{}"), hosttest.Call("write", "{}"), hosttest.Say("1"),
			hosttest.Call("read", "{}"), hosttest.Say("2"),
			hosttest.Call("write", "{}"), hosttest.Call("ask", "{}"),
			hosttest.Call("read", "{}"), hosttest.Say("3"),
		), read, write, ask)
	}
	managed(t, target, func(t *testing.T, s *service, next nextFn) {
		seen = nil
		out := run(t, s, say(next(nil), "a"))
		out = run(t, s, say(next(out), "b"))
		out = run(t, s, say(next(out), "c"))
		if len(out.Questions) != 1 {
			t.Fatalf("the turn asks %+v", out.Questions)
		}
		req := next(out)
		req.Answers = []host.Answer{{Question: out.Questions[0].ID, Decision: host.Reply, Value: []byte(`"yes"`)}}
		run(t, s, req)
		if len(seen) != 3 || seen[0] != "not_found" || seen[1] != "first" || seen[2] != "second" {
			t.Errorf("the tool has read %q", seen)
		}
	})
}
