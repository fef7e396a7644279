package modelhttp_test

// Scenario: reasoning returns to each kind of provider in the next request.

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/modelhttp"
	"github.com/agenthost/agenthost/internal/testhost"
)

// What a model thought before it called a tool is in the next request of the run,
// as its provider wants it, and in the next turn's where the provider wants that.
func TestThoughtsSurviveARun(t *testing.T) {
	thinking := map[string]struct {
		first    string // the answer that thinks and calls
		goesBack string
		later    bool // also when the user has spoken again
	}{
		"chat completions": {`{"id":"c","model":"m1","choices":[{"index":0,"message":{"reasoning_content":"Hm.","tool_calls":[
			{"id":"a","type":"function","function":{"name":"look","arguments":"{}"},"extra_content":{"signature":"s1"}}]},"finish_reason":"tool_calls"}]}`,
			`"reasoning_content":"Hm."`, false},
		"responses": {`{"id":"r","model":"m1","status":"completed","output":[{"id":"rs_1","type":"reasoning","encrypted_content":"gAAA","summary":[{"type":"summary_text","text":"Hm."}]},
			{"type":"function_call","call_id":"a","name":"look","arguments":"{}"}]}`,
			`"encrypted_content":"gAAA"`, true},
		"messages": {`{"type":"message","id":"m","model":"m1","stop_reason":"tool_use","content":[{"type":"thinking","thinking":"Hm.","signature":"sig"},
			{"type":"tool_use","id":"a","name":"look","input":{}}]}`,
			`"thinking":"Hm.","signature":"sig"`, true},
		"generate content": {`{"candidates":[{"content":{"role":"model","parts":[{"text":"Hm.","thought":true},
			{"functionCall":{"id":"a","name":"look","args":{}},"thoughtSignature":"c2ln"}]},"finishReason":"STOP"}]}`,
			`"thoughtSignature":"c2ln"`, true},
	}
	for _, w := range wires() {
		t.Run(w.name, func(t *testing.T) {
			want := thinking[w.name]
			var got []string
			srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				raw, _ := io.ReadAll(r.Body)
				if got = append(got, string(raw)); len(got) == 1 {
					text(want.first)(rw, r)
					return
				}
				text(events(w.hello...))(rw, r)
			}))
			defer srv.Close()
			look := host.NewTool("look", "Looks.", func(context.Context, *host.Call, struct{}) (string, error) { return "found", nil }, nil)
			agent := testhost.NewAgent(t, "clerk", &host.AgentOptions{Model: w.model(t, modelhttp.Options{BaseURL: srv.URL, MaxRetries: -1}), Tools: []*host.Tool{look}})
			history := testhost.NewHistory(t, hosttest.NewHistory())
			h := testhost.NewSingle(t, &host.Options{History: history})
			thread := ""
			for range 2 {
				result, err := h.Run(t.Context(), agent, &host.Request{Tenant: "acme", Thread: thread, Text: "hi"})
				if err != nil || result.Text() != "Hello." {
					t.Fatalf("%v, %v", result, err)
				}
				thread = result.Thread
			}
			if len(got) != 3 {
				t.Fatalf("%d requests, want 3", len(got))
			}
			for i, there := range []bool{false, true, want.later} {
				if strings.Contains(got[i], want.goesBack) != there {
					t.Errorf("request %d has %s: %t, want %t\n%s", i, want.goesBack, !there, there, got[i])
				}
			}
		})
	}
}
