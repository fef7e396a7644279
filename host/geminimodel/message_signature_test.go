package geminimodel_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/geminimodel"
	"github.com/agenthost/agenthost/host/internal/modeltest"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/modelhttp"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/internal/testhost"
)

// modelOf returns a new model that asks a service.
func modelOf(t *testing.T, s *modeltest.Service) *geminimodel.Model {
	t.Helper()
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	return modelWith(t, "gemini-3-pro-preview", geminimodel.Options{Server: modelhttp.Options{BaseURL: srv.URL, MaxRetries: -1}})
}

// The signatures of an answer are in the requests of its turn, and in those of the
// next turn, after the thread was closed and loaded by another process.
func TestSignaturesSurviveAReload(t *testing.T) {
	dir := t.TempDir()
	s := &modeltest.Service{Answers: []http.HandlerFunc{modeltest.Replay(t, "tools"), modeltest.Replay(t, "answer")}}
	turn := func(thread string) string {
		driver, err := badgerkv.Open(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer driver.Close()
		history := testhost.NewHistory(t, threads.New(driver, nil))
		type order struct {
			ID int `json:"order_id"`
		}
		look := host.NewTool("lookup_order", "Looks.", func(_ context.Context, _ *host.Call, in order) (string, error) {
			if in.ID == 1043 {
				return "", host.Errorf(host.NotFound, "There is no order 1043.")
			}
			return "shipped", nil
		}, nil)
		agent := testhost.NewAgent(t, "clerk", &host.AgentOptions{Model: modelOf(t, s), Tools: []*host.Tool{look}})
		h := testhost.NewSingle(t, &host.Options{History: history})
		result, err := h.Run(t.Context(), agent, &host.Request{Tenant: "acme", Thread: thread, Text: "hi"})
		if err != nil || result.Text() != "It is shipped." {
			t.Fatalf("%v, %v", result, err)
		}
		return result.Thread
	}
	turn(turn(""))
	if len(s.Sent) != 3 {
		t.Fatalf("%d requests, want 3", len(s.Sent))
	}
	const first = hi + `,{"role":"model","parts":[{"text":"Let me look."},
		{"functionCall":{"id":"c1","name":"lookup_order","args":{"order_id":1042}},"thoughtSignature":"CiQB0e2Kb+/x/Q=="},{"functionCall":{"id":"c2","name":"lookup_order","args":{"order_id":1043}}}]},
		{"role":"user","parts":[{"functionResponse":{"id":"c1","name":"lookup_order","response":{"output":"shipped"}}},{"functionResponse":{"id":"c2","name":"lookup_order","response":{"error":"There is no order 1043."}}}]}`
	for i, want := range []string{`[` + hi + `]`, `[` + first + `]`,
		`[` + first + `,{"role":"model","parts":[{"text":"It is shipped."},{"text":"","thoughtSignature":"EnD+sig/nature=="}]},` + hi + `]`} {
		modeltest.CheckMember(t, s.Sent[i], "contents", want)
	}
}

func TestAnswerWithToolsIsRead(t *testing.T) {
	s := &modeltest.Service{Answers: []http.HandlerFunc{modeltest.Replay(t, "tools")}}
	o := modeltest.Ask(t.Context(), modelOf(t, s), modeltest.Question("hi"))
	want := &llm.Response{ID: "r-1", Model: "gemini-3-pro-preview", FinishReason: chat.FinishToolCalls,
		Usage: host.Usage{InputTokens: 46, OutputTokens: 87, CachedTokens: 12, ReasoningTokens: 30},
		Parts: []host.Part{&host.Reasoning{Text: "An order is asked for."}, &host.Text{Text: "Let me look."},
			&host.ToolCall{ID: "c1", Name: "lookup_order", Arguments: json.RawMessage(`{"order_id":1042}`), Extra: signed("CiQB0e2Kb+/x/Q==")},
			&host.ToolCall{ID: "c2", Name: "lookup_order", Arguments: json.RawMessage(`{"order_id":1043}`)}}}
	if diff := cmp.Diff(want, o.Response); diff != "" || o.Err != nil || o.Reasoning != "An order is asked for." {
		t.Errorf("%v, reasoning %q, response (-want +got):\n%s", o.Err, o.Reasoning, diff)
	}
}

// parts returns the parts of a content of the request.
func parts(t *testing.T, request map[string]any, i int) string {
	t.Helper()
	raw, err := json.Marshal(request["contents"].([]any)[i].(map[string]any)["parts"])
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// Calls of another model have no signature. The service is asked again at once with
// the mark for them, and gets it in the first request from then on; signatures of
// its own stay.
func TestCallsOfOtherModelsAreMarked(t *testing.T) {
	s := &modeltest.Service{Answers: []http.HandlerFunc{
		modeltest.Answer(http.StatusBadRequest, "application/json", `{"error":{"code":400,"message":"Function call is missing a thought_signature in functionCall parts.","status":"INVALID_ARGUMENT"}}`), modeltest.Replay(t, "answer"),
	}}
	m := modelOf(t, s)
	req := &llm.Request{Messages: []*host.Message{host.UserText("hi"),
		host.NewMessage(host.Assistant, &host.ToolCall{ID: "a", Name: "look", Extra: signed("own")}), host.NewMessage(host.ToolRole, &host.ToolResult{ID: "a", Name: "look", Content: json.RawMessage(`1`)}),
		host.NewMessage(host.Assistant, call("b", "look", `{}`), call("c", "look", `{}`)),
		host.NewMessage(host.ToolRole, &host.ToolResult{ID: "b", Name: "look", Content: json.RawMessage(`1`)}, &host.ToolResult{ID: "c", Name: "look", Content: json.RawMessage(`1`)})}}
	for range 2 {
		if o := modeltest.Ask(t.Context(), m, req); o.Err != nil || o.Text != "It is shipped." || len(o.Retries) != 0 {
			t.Fatalf("%+v", o)
		}
	}
	if len(s.Sent) != 3 {
		t.Fatalf("%d requests, want 3: the second question is right at first", len(s.Sent))
	}
	const unsigned = `[{"functionCall":{"args":{},"id":"b","name":"look"}},{"functionCall":{"args":{},"id":"c","name":"look"}}]`
	const marked = `[{"functionCall":{"args":{},"id":"b","name":"look"},"thoughtSignature":"skip_thought_signature_validator"},{"functionCall":{"args":{},"id":"c","name":"look"}}]`
	for i, want := range []string{unsigned, marked, marked} {
		if own := parts(t, s.Sent[i], 1); !strings.Contains(own, `"thoughtSignature":"own"`) {
			t.Errorf("request %d has the signed call as %s", i, own)
		}
		if got := parts(t, s.Sent[i], 3); got != want {
			t.Errorf("request %d has the calls as %s, want %s", i, got, want)
		}
	}
}

// Signatures that the service does not take must not end a conversation.
func TestForeignSignaturesAreLeftOut(t *testing.T) {
	s := &modeltest.Service{Answers: []http.HandlerFunc{
		modeltest.Answer(http.StatusBadRequest, "application/json", `{"error":{"code":400,"message":"Thought signature is not valid.","status":"INVALID_ARGUMENT"}}`), modeltest.Replay(t, "answer"),
	}}
	o := modeltest.Ask(t.Context(), modelOf(t, s), &llm.Request{Messages: []*host.Message{host.UserText("hi"), host.NewMessage(host.Assistant,
		&host.Reasoning{Text: "Hm.", Extra: signed("s")}, &host.Text{Text: "Yes.", Extra: signed("s")}, &host.ToolCall{ID: "a", Name: "look", Extra: signed("s")}, foreign(`{"text":"","thoughtSignature":"s"}`)),
		host.NewMessage(host.ToolRole, &host.ToolResult{ID: "a", Name: "look", Content: json.RawMessage(`1`)})}})
	if o.Err != nil || len(s.Sent) != 2 {
		t.Fatalf("%v after %d requests", o.Err, len(s.Sent))
	}
	const want = `[{"text":"Yes."},{"functionCall":{"args":{},"id":"a","name":"look"},"thoughtSignature":"skip_thought_signature_validator"}]`
	if got := parts(t, s.Sent[1], 1); got != want {
		t.Errorf("the second request has %s, want %s", got, want)
	}
}

// A service that refuses one signature after the other is not asked for ever.
func TestRefusedSignaturesEnd(t *testing.T) {
	s := &modeltest.Service{Answers: []http.HandlerFunc{
		modeltest.Answer(http.StatusBadRequest, "application/json", `{"error":{"code":400,"message":"Function call is missing a thought_signature.","status":"INVALID_ARGUMENT"}}`),
	}}
	o := modeltest.Ask(t.Context(), modelOf(t, s), modeltest.Question("hi"))
	if host.CodeOf(o.Err) != host.InvalidArgument || len(s.Sent) != 3 {
		t.Errorf("%v after %d requests, want invalid_argument after 3", o.Err, len(s.Sent))
	}
}

// A model that takes no schema beside tools is told it in words.
func TestOutputInWordsWhereTheFormatIsRefused(t *testing.T) {
	s := &modeltest.Service{Answers: []http.HandlerFunc{
		modeltest.Answer(http.StatusBadRequest, "application/json", `{"error":{"code":400,"message":"Function calling with a response mime type: 'application/json' is unsupported","status":"INVALID_ARGUMENT"}}`), modeltest.Replay(t, "answer"),
	}}
	req := modeltest.Question("hi")
	req.Output = &llm.OutputSpec{Name: "o", Schema: json.RawMessage(`{"type":"object"}`)}
	if o := modeltest.Ask(t.Context(), modelOf(t, s), req); o.Err != nil || len(s.Sent) != 2 {
		t.Fatalf("%v after %d requests", o.Err, len(s.Sent))
	}
	modeltest.CheckMember(t, s.Sent[1], "systemInstruction", `{"parts":[{"text":"Answer with nothing but JSON of this schema: {\"type\":\"object\"}"}]}`)
	modeltest.CheckMember(t, s.Sent[1], "generationConfig", "")
}

// FuzzStream reads any bytes as the service's answer.
func FuzzStream(f *testing.F) {
	newModel.Fuzz(f, modeltest.CheckText, "", "<html>", `{"error":{}}`, `{"error":null,"candidates":[]}`,
		"data: "+said("STOP", `{"text":"a","functionCall":{"name":"b"}}`, `{"text":"a","inlineData":{"data":"eA=="}}`, `{"inlineData":{"data":"?"}}`, `{"text":"a","executableCode":{}}`),
		"data: "+said("STOP", `null`, `{}`, `{"functionCall":null}`, `{"functionCall":{"args":[1]}}`, `{"thought":true,"thoughtSignature":"x"}`),
		`{"candidates":[null,{}],"promptFeedback":{"blockReason":"X"}}`, `{"candidates":[{"content":null,"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":-1}}`)
}
