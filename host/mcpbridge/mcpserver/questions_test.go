package mcpserver_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/mcpbridge/mcpserver"
	"github.com/agenthost/agenthost/internal/testhost"
)

// refundTool is a tool whose calls a person must agree to, twice: the second question is the
// tool's own, with a form.
func refundTool(t *testing.T) *host.Tool {
	t.Helper()
	return host.NewTool("refund", "Refunds an order.", func(_ context.Context, call *host.Call, in struct {
		Order string `json:"order"`
	}) (*host.ToolOutput, error) {
		if len(call.Resumed) == 0 {
			return &host.ToolOutput{Interrupt: &host.Interrupt{Reason: "Which account?", Data: json.RawMessage(`{"schema":{"type":"object","properties":{"account":{"type":"string"}},"required":["account"]}}`)}}, nil
		}
		var answer struct{ Account string }
		must(t, json.Unmarshal(call.Resumed[0].Answer, &answer))
		raw, err := json.Marshal("refunded " + in.Order + " to " + answer.Account)
		return &host.ToolOutput{Content: raw}, err
	}, &host.ToolOptions{Approve: host.ApproveAlways("money leaves")})
}

// answers is a person in front of a client.
func answers(seen *[]string, action string) *mcp.ClientOptions {
	return &mcp.ClientOptions{ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		*seen = append(*seen, r.Params.Message)
		content := map[string]any{"approve": true}
		if strings.HasPrefix(r.Params.Message, "Which account?") {
			content = map[string]any{"account": "a-1"}
		}
		if action != "accept" {
			content = nil
		}
		return &mcp.ElicitResult{Action: action, Content: content}, nil
	}}
}

func TestQuestionsOfAToolAreElicited(t *testing.T) {
	b := newBench(t, nil)
	tool := refundTool(t)
	agent := testhost.NewAgent(t, "desk", &host.AgentOptions{Description: "Refunds.", Tools: []*host.Tool{tool},
		Model: hosttest.NewModel(hosttest.Call("refund", `{"order":"7"}`), hosttest.Say("It is done."), hosttest.Call("refund", `{"order":"7"}`), hosttest.Say("It is done."))})
	b.catalog.set("acme", &mcpserver.Offers{Tools: []mcpserver.Tool{{Tool: tool}}, Targets: []mcpserver.Target{{Target: agent}}})
	for _, version := range versions {
		var seen []string
		s := b.connect("acme", version, answers(&seen, "accept"))
		r := call(t, s, "refund", map[string]any{"order": "7"})
		if text(r) != "refunded 7 to a-1" || len(seen) != 2 || !strings.HasPrefix(seen[0], "Allow the call of refund? money leaves") {
			t.Errorf("%s: refund = %q after %q", version, text(r), seen)
		}
		seen = nil
		if r := call(t, s, "desk", map[string]any{"message": "refund 7"}); text(r) != "It is done." || len(seen) != 2 {
			t.Errorf("%s: desk = %q after %q", version, text(r), seen)
		}
	}
}

// TestAnswersAreGivenToTheCallersLogFirst has each answer of a client recorded before it is
// taken, and refuses those that are not.
func TestAnswersAreGivenToTheCallersLogFirst(t *testing.T) {
	b := newBench(t, nil)
	b.catalog.set("acme", &mcpserver.Offers{Tools: []mcpserver.Tool{{Tool: refundTool(t)}}})
	for _, version := range versions {
		var seen, recorded []string
		record := func(_ context.Context, run string) error { recorded = append(recorded, run); return nil }
		b.answering.Store(&record)
		r := call(t, b.connect("acme", version, answers(&seen, "accept")), "refund", map[string]any{"order": "7"})
		if text(r) != "refunded 7 to a-1" || len(recorded) != 2 || recorded[0] == "" || recorded[0] == recorded[1] {
			t.Errorf("%s: refund = %q, and the log has the runs %q", version, text(r), recorded)
		}
		record = func(context.Context, string) error { return host.Errorf(host.Unavailable, "the log is full") }
		if r := call(t, b.connect("acme", version, answers(&seen, "accept")), "refund", map[string]any{"order": "7"}); !r.IsError || r.Meta["agenthost/code"] != "unavailable" {
			t.Errorf("%s: an answer that cannot be recorded gives %q", version, text(r))
		}
	}
}

func TestARefusedApprovalIsAFailedCall(t *testing.T) {
	b := newBench(t, nil)
	b.catalog.set("acme", &mcpserver.Offers{Tools: []mcpserver.Tool{{Tool: refundTool(t)}}})
	for _, version := range versions {
		for action, want := range map[string]string{"decline": "A person did not allow this call.", "cancel": "The call waits for a person"} {
			var seen []string
			s := b.connect("acme", version, answers(&seen, action))
			r := call(t, s, "refund", map[string]any{"order": "7"})
			if !r.IsError || !strings.HasPrefix(text(r), want) || len(seen) != 1 {
				t.Errorf("%s: %s gives %v %q", version, action, r.IsError, text(r))
			}
		}
	}
}

func TestAClientWithoutElicitationReadsWhereToAnswer(t *testing.T) {
	b := newBench(t, nil)
	b.catalog.set("acme", &mcpserver.Offers{Tools: []mcpserver.Tool{{Tool: refundTool(t)}}})
	for _, version := range versions {
		r := call(t, b.connect("acme", version, nil), "refund", map[string]any{"order": "7"})
		run, _ := r.Meta["agenthost/run"].(string)
		if !r.IsError || run == "" || !strings.Contains(text(r), "/v1/runs/"+run+"/answers") {
			t.Errorf("%s: %q, %v", version, text(r), r.Meta)
		}
	}
}

// TestOnlyRunsOfTheCalledToolAreContinued has clients name runs that are not theirs to
// continue: of another tool, of another tenant, and none at all. A credential of one thread
// is offered no tools: it reaches them by agents, in that thread.
func TestOnlyRunsOfTheCalledToolAreContinued(t *testing.T) {
	b := newBench(t, nil)
	tool := mcpserver.Tool{Tool: refundTool(t)}
	for _, tenant := range []string{"acme", "globex"} {
		b.catalog.set(tenant, &mcpserver.Offers{Tools: []mcpserver.Tool{tool, addTool(nil)}})
	}
	asks := &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{}},
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true}}
	s := b.connect("acme", versions[1], asks)
	asked := call(t, s, "refund", map[string]any{"order": "7"})
	if asked.RequestState == "" || len(asked.InputRequests) != 1 {
		t.Fatalf("refund = %+v", asked)
	}
	approve := mcp.InputResponseMap{}
	for id := range asked.InputRequests {
		approve[id] = &mcp.ElicitResult{Action: "accept", Content: map[string]any{"approve": true}}
	}
	for name, c := range map[string]struct{ credential, tool, state string }{
		"another tool":   {"acme", "add", asked.RequestState},
		"another tenant": {"globex", "refund", asked.RequestState},
		"no run":         {"acme", "refund", "made up"},
	} {
		r, err := b.connect(c.credential, versions[1], asks).CallTool(t.Context(), &mcp.CallToolParams{
			Name: c.tool, Arguments: map[string]any{"order": "7"}, RequestState: c.state, InputResponses: approve})
		must(t, err)
		if !r.IsError || r.RequestState != "" || !strings.Contains(text(r), "continues no run") {
			t.Errorf("%s: %q", name, text(r))
		}
	}
	if r, err := b.connect("acme/thread=x", versions[1], asks).CallTool(t.Context(), &mcp.CallToolParams{Name: "refund", Arguments: map[string]any{"order": "7"}}); err == nil {
		t.Errorf("a credential of one thread calls a tool: %q", text(r))
	}
	again, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "refund", Arguments: map[string]any{"order": "7"}, RequestState: asked.RequestState})
	must(t, err)
	if again.RequestState != asked.RequestState || len(again.InputRequests) != 1 {
		t.Errorf("without an answer the client is asked %+v", again)
	}
	done, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "refund", Arguments: map[string]any{"order": "7"}, RequestState: asked.RequestState, InputResponses: approve})
	must(t, err)
	if len(done.InputRequests) != 1 || done.RequestState == asked.RequestState {
		t.Errorf("after the approval %+v", done)
	}
	replayed, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "refund", Arguments: map[string]any{"order": "7"}, RequestState: asked.RequestState, InputResponses: approve})
	must(t, err)
	if !replayed.IsError || !strings.Contains(text(replayed), "answered already") {
		t.Errorf("the same answer again: %q", text(replayed))
	}
}
