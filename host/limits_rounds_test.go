package host_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
)

// looping calls a tool for as long as it may, and notes what it is asked with.
func looping(choices *[]host.ToolChoice) host.Model {
	return hosttest.ModelFunc(func(_ context.Context, req *llm.Request) hosttest.Reply {
		*choices = append(*choices, req.ToolChoice)
		if req.ToolChoice == host.ToolChoiceNone {
			return hosttest.Say("That is all I found.")
		}
		return hosttest.Call("look", "{}")
	})
}

func TestRunsThatWouldNeverEnd(t *testing.T) {
	ok := func(context.Context, *host.Call, struct{}) (string, error) { return "more", nil }
	bad := func(context.Context, *host.Call, struct{}) (string, error) { return "", errors.New("it is broken") }
	for _, tt := range []struct {
		name     string
		tool     func(context.Context, *host.Call, struct{}) (string, error)
		limits   host.Limits
		own      int
		way      host.OnMaxRounds
		rounds   int
		text     string
		code     host.Code
		limit    string
		toolsOff bool
	}{
		{name: "the host's cap answers", tool: ok, limits: host.Limits{MaxRounds: 3}, rounds: 4, text: "That is all I found.", limit: "MaxRounds", toolsOff: true},
		{name: "an own cap above the host's is the host's", tool: ok, limits: host.Limits{MaxRounds: 3}, own: 9, rounds: 4, text: "That is all I found.", limit: "MaxRounds", toolsOff: true},
		{name: "an own cap stops", tool: ok, own: 3, rounds: 3},
		{name: "an own cap answers", tool: ok, own: 3, way: host.AnswerAtMaxRounds, rounds: 4, text: "That is all I found.", toolsOff: true},
		{name: "an own cap fails", tool: ok, own: 3, way: host.FailAtMaxRounds, rounds: 3, code: host.ResourceExhausted},
		{name: "the host's cap stops", tool: ok, limits: host.Limits{MaxRounds: 3}, way: host.StopAtMaxRounds, rounds: 3, limit: "MaxRounds"},
		{name: "the host's cap fails", tool: ok, limits: host.Limits{MaxRounds: 3}, way: host.FailAtMaxRounds, rounds: 3, code: host.ResourceExhausted, limit: "MaxRounds"},
		{name: "tools that fail in a row", tool: bad, rounds: host.DefaultLimits().MaxConsecutiveToolFailures + 1, text: "That is all I found.", limit: "MaxConsecutiveToolFailures", toolsOff: true},
		{name: "two failures", tool: bad, limits: host.Limits{MaxConsecutiveToolFailures: 2}, rounds: 3, text: "That is all I found.", limit: "MaxConsecutiveToolFailures", toolsOff: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var choices []host.ToolChoice
			h, err := host.New(&host.Options{SingleTenant: true, Limits: tt.limits, Model: looping(&choices)})
			if err != nil {
				t.Fatal(err)
			}
			a, err := host.NewAgent("a", &host.AgentOptions{Tools: []*host.Tool{host.NewTool("look", "", tt.tool, nil)}, MaxRounds: tt.own, OnMaxRounds: tt.way})
			if err != nil {
				t.Fatal(err)
			}
			result, err := h.Run(t.Context(), a, &host.Request{Text: "hi"})
			if host.CodeOf(err) != tt.code {
				t.Fatalf("the run ends in %v, want %q", err, tt.code)
			}
			got := result.Results[0]
			if got.Rounds != tt.rounds || got.Text() != tt.text || got.Limit != tt.limit || len(choices) != tt.rounds {
				t.Errorf("%d rounds, %d calls, %q, limit %q; want %d, %q, %q", got.Rounds, len(choices), got.Text(), got.Limit, tt.rounds, tt.text, tt.limit)
			}
			if tt.code == "" && result.FinishReason != chat.FinishMaxRounds {
				t.Errorf("the run ends with %s", result.FinishReason)
			}
			if at := slices.Index(choices, host.ToolChoiceNone); (at == tt.rounds-1) != tt.toolsOff || !tt.toolsOff && at >= 0 {
				t.Errorf("tools were off in call %d of %v", at, choices)
			}
		})
	}
}

// A success between failures begins the count again, and so does a part of an
// answer that worked.
func TestFailuresThatAreNotInARow(t *testing.T) {
	n := 0
	look := host.NewTool("look", "", func(context.Context, *host.Call, struct{}) (string, error) {
		if n++; n%2 == 1 {
			return "", errors.New("it is broken")
		}
		return "more", nil
	}, nil)
	var replies []hosttest.Reply
	for range 6 {
		replies = append(replies, hosttest.Call("look", "{}"))
	}
	replies = append(replies, hosttest.Say("done"))
	h, err := host.New(&host.Options{SingleTenant: true, Model: hosttest.NewModel(replies...), Limits: host.Limits{MaxConsecutiveToolFailures: 2}})
	if err != nil {
		t.Fatal(err)
	}
	a, err := host.NewAgent("a", &host.AgentOptions{Tools: []*host.Tool{look}})
	if err != nil {
		t.Fatal(err)
	}
	result, err := h.Run(t.Context(), a, &host.Request{Text: "hi"})
	if err != nil || result.Text() != "done" || result.FinishReason != chat.FinishStop {
		t.Errorf("%+v, %v", result, err)
	}
}

// A model that calls tools after they were turned off is told so, and asked no more.
func TestToolsThatAreOffAreNotCalled(t *testing.T) {
	calls := 0
	look := host.NewTool("look", "", func(context.Context, *host.Call, struct{}) (string, error) { calls++; return "more", nil }, nil)
	model := hosttest.ModelFunc(func(context.Context, *llm.Request) hosttest.Reply { return hosttest.Call("look", "{}") })
	h, err := host.New(&host.Options{SingleTenant: true, Model: model, Limits: host.Limits{MaxRounds: 2}})
	if err != nil {
		t.Fatal(err)
	}
	a, err := host.NewAgent("a", &host.AgentOptions{Tools: []*host.Tool{look}})
	if err != nil {
		t.Fatal(err)
	}
	result, err := h.Run(t.Context(), a, &host.Request{Text: "hi"})
	if err != nil || calls != 2 || len(model.Requests()) != 3 || result.FinishReason != chat.FinishMaxRounds {
		t.Fatalf("%d calls, %d requests, %+v, %v", calls, len(model.Requests()), result, err)
	}
	results := result.Results[0].ToolResults()
	if last := results[len(results)-1]; len(results) != 3 || !last.IsError {
		t.Errorf("the last call is answered with %+v", last)
	}
}
