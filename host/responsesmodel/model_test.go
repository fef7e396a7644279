package responsesmodel_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/modeltest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/modelhttp"
	"github.com/agenthost/agenthost/host/responsesmodel"
)

// start serves the answers.
func start(t *testing.T, opts *responsesmodel.Options, answers ...http.HandlerFunc) (*modeltest.Service, *responsesmodel.Model) {
	t.Helper()
	s := &modeltest.Service{Answers: answers}
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	o := responsesmodel.Options{Server: modelhttp.Options{MaxRetries: -1}}
	if opts != nil {
		o = *opts
	}
	o.Server.BaseURL, o.Server.APIKey = srv.URL+"/v1", modeltest.Key
	return s, modelWith(t, o)
}

var reasoningItem = `{"id":"rs_1","type":"reasoning","encrypted_content":"gAAAA-secret","summary":[{"type":"summary_text","text":"An order is asked for."},{"type":"summary_text","text":"Two, in fact."}]}`

func thought() host.Part {
	return &host.Reasoning{Text: "An order is asked for.\n\nTwo, in fact.", Extra: chat.Extra{{Name: "openai_item", Value: json.RawMessage(reasoningItem)}}}
}

func call(id, arguments string) host.Part {
	return &host.ToolCall{ID: id, Name: "lookup_order", Arguments: json.RawMessage(arguments)}
}

func TestAnswers(t *testing.T) {
	used := host.Usage{InputTokens: 36, OutputTokens: 87, CachedTokens: 12, ReasoningTokens: 64}
	want := func(reason host.FinishReason, parts ...host.Part) *llm.Response {
		return &llm.Response{ID: "resp_1", Model: "gpt-5-mini-2025-08-07", Parts: parts, FinishReason: reason, Usage: used}
	}
	kept := func(r *llm.Response, id string) *llm.Response { r.Conversation = id; return r }
	unused := func(r *llm.Response) *llm.Response { r.Usage = host.Usage{}; return r }
	hello := &host.Text{Text: "Hello, you."}
	document := `{"id":"resp_1","object":"response","model":"gpt-5-mini-2025-08-07","status":"completed","output":[` + reasoningItem + `,
		{"type":"message","content":[{"type":"refusal","refusal":"No."}]},
		{"type":"function_call","call_id":"call_1","name":"lookup_order","arguments":"{}"}]}`
	for _, tt := range []struct {
		name    string
		store   bool
		handler http.HandlerFunc
		want    *llm.Response
	}{
		{"streams text", false, modeltest.Replay(t, "text"), want(chat.FinishStop, hello)},
		{"streams reasoning and parallel calls", false, modeltest.Replay(t, "tools"),
			want(chat.FinishToolCalls, thought(), call("call_1", `{"order_id":1042}`), call("call_2", `{"order_id":1043}`))},
		{"streams calls that are written at one time", false, modeltest.Replay(t, "interleaved"),
			want(chat.FinishToolCalls, thought(), call("call_1", `{"order_id":1042}`), call("call_2", `{"order_id":1043}`))},
		{"keeps items of the service's own tools, and citations", true, modeltest.Replay(t, "search"),
			kept(want(chat.FinishStop, &chat.Unknown{Kind: "openai_item", JSON: json.RawMessage(`{"type":"openai_item","item":{"id":"ws_1","type":"web_search_call","status":"completed","action":{"type":"search","query":"weather"}}}`)},
				&host.Text{Text: "Rain.", Extra: chat.Extra{{Name: "annotations", Value: json.RawMessage(`[{"type":"url_citation","start_index":0,"end_index":5,"url":"https://example.com","title":"Weather"}]`)}}}), "resp_1")},
		{"maps incomplete", false, modeltest.Replay(t, "incomplete"), want(chat.FinishLength, &host.Text{Text: "Hello"})},
		{"names the response that the service keeps", true, modeltest.Replay(t, "stored"), kept(want(chat.FinishStop, hello), "resp_1")},
		{"names the conversation that the service keeps", true, modeltest.Replay(t, "conversation"), kept(want(chat.FinishStop, hello), "conv_1")},
		{"names nothing that the service does not keep", true, modeltest.Replay(t, "text"), want(chat.FinishStop, hello)},
		{"names nothing that it was not told to keep", false, modeltest.Replay(t, "stored"), want(chat.FinishStop, hello)},
		{"reads a document from a server that does not stream", false, modeltest.Answer(200, "application/json", document),
			unused(want(chat.FinishToolCalls, thought(), &host.Text{Text: "No."}, call("call_1", `{}`)))},
		{"takes finished items where the end has none", false, modeltest.Answer(200, "text/event-stream", strings.Join([]string{
			`data: {"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","call_id":"call_1","name":"lookup_order","arguments":"{}"}}`,
			`data: {"type":"response.output_item.done","output_index":0,"item":{"type":"message","content":[{"type":"output_text","text":"Looking."}]}}`,
			`data: {"type":"response.completed","response":{"id":"resp_1","model":"gpt-5-mini-2025-08-07","status":"completed"}}`, ""}, "\n\n")),
			unused(want(chat.FinishToolCalls, &host.Text{Text: "Looking."}, call("call_1", `{}`)))},
		{"takes deltas where there is nothing else", false, modeltest.Answer(200, "text/event-stream", strings.Join([]string{
			`data: {"type":"response.output_text.delta","delta":"Hello, "}`, `data: {"type":"response.refusal.delta","delta":"you."}`,
			`data: {"type":"response.completed","response":{"id":"resp_1","model":"gpt-5-mini-2025-08-07"}}`, ""}, "\n\n")),
			unused(want(chat.FinishStop, hello))},
		{"maps a content filter", false, modeltest.Answer(200, "text/event-stream",
			`data: {"type":"response.incomplete","response":{"id":"resp_1","model":"gpt-5-mini-2025-08-07","status":"incomplete","incomplete_details":{"reason":"content_filter"}}}`+"\n\n"),
			unused(want(chat.FinishContentFilter))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, m := start(t, &responsesmodel.Options{Store: tt.store}, tt.handler)
			o := modeltest.Ask(t.Context(), m, modeltest.Question("hi"))
			if o.Err != nil {
				t.Fatal(o.Err)
			}
			if diff := cmp.Diff(tt.want, o.Response); diff != "" {
				t.Errorf("response (-want +got):\n%s", diff)
			}
			checkDeltas(t, o)
		})
	}
}

// checkDeltas holds what was streamed to the response, but for text that nobody
// has streamed.
func checkDeltas(t *testing.T, o modeltest.Outcome) {
	t.Helper()
	n := 0
	for _, p := range o.Response.Parts {
		switch p := p.(type) {
		case *host.Reasoning:
			if o.Reasoning != p.Text {
				t.Errorf("reasoning deltas make %q, the response %q", o.Reasoning, p.Text)
			}
		case *host.ToolCall:
			var streamed *llm.ToolCallDelta
			for i := range o.Calls() {
				if o.Calls()[i].ID == p.ID {
					streamed = &o.Calls()[i]
				}
			}
			if streamed == nil || streamed.Name != p.Name || streamed.Arguments != string(p.Arguments) {
				t.Errorf("call %+v was streamed as %+v", p, streamed)
			}
			n++
		}
	}
	if len(o.Calls()) != n {
		t.Errorf("%d calls were streamed, the response has %d", len(o.Calls()), n)
	}
}

// The second round of a turn, in which everything that came goes back.
func TestWhatTheServiceSaidGoesBack(t *testing.T) {
	for _, tt := range []struct {
		name  string
		store bool
		first string
		want  string // the second request's input after the question
	}{
		{"encrypted reasoning and calls", false, "tools", `[` + reasoningItem + `,
			{"type":"function_call","call_id":"call_1","name":"lookup_order","arguments":"{\"order_id\":1042}"},
			{"type":"function_call","call_id":"call_2","name":"lookup_order","arguments":"{\"order_id\":1043}"},
			{"type":"function_call_output","call_id":"call_1","output":"shipped"},
			{"type":"function_call_output","call_id":"call_2","output":"Error: There is no order 1043."}]`},
		{"items of the service's own tools", true, "search", `[{"id":"ws_1","type":"web_search_call","status":"completed","action":{"type":"search","query":"weather"}},
			{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Rain."}]},
			{"type":"function_call_output","call_id":"call_1","output":"shipped"},
			{"type":"function_call_output","call_id":"call_2","output":"Error: There is no order 1043."}]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, m := start(t, &responsesmodel.Options{Store: tt.store}, modeltest.Replay(t, tt.first), modeltest.Replay(t, "text"))
			messages := []*host.Message{host.UserText("hi")}
			o := modeltest.Ask(t.Context(), m, &llm.Request{Messages: messages})
			if o.Err != nil {
				t.Fatal(o.Err)
			}
			messages = append(messages, modeltest.Stored(t, host.NewMessage(host.Assistant, o.Response.Parts...)), host.NewMessage(host.ToolRole,
				&host.ToolResult{ID: "call_1", Name: "lookup_order", Content: json.RawMessage(`"shipped"`)},
				&host.ToolResult{ID: "call_2", Name: "lookup_order", Content: json.RawMessage(`"There is no order 1043."`), IsError: true}))
			if o := modeltest.Ask(t.Context(), m, &llm.Request{Messages: messages}); o.Err != nil {
				t.Fatal(o.Err)
			}
			if diff := cmp.Diff(modeltest.Parse(t, tt.want), any(s.Sent[1]["input"].([]any)[1:])); diff != "" {
				t.Errorf("input (-want +got):\n%s", diff)
			}
		})
	}
}

// A conversation that the service keeps: each request has what is new.
func TestServiceKeepsTheConversation(t *testing.T) {
	s, m := start(t, &responsesmodel.Options{Store: true}, modeltest.Replay(t, "stored"), modeltest.Replay(t, "conversation"), modeltest.Replay(t, "text"))
	id := ""
	for _, text := range []string{"hi", "and?", "why?"} {
		req := modeltest.Question(text)
		req.Messages = append([]*host.Message{host.NewMessage(host.System, &host.Text{Text: "Be brief."})}, req.Messages...)
		req.Conversation = id
		o := modeltest.Ask(t.Context(), m, req)
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		id = o.Response.Conversation
	}
	for i, want := range []map[string]any{
		{"previous_response_id": nil, "conversation": nil, "store": true, "instructions": "Be brief."},
		{"previous_response_id": "resp_1", "conversation": nil, "store": true, "instructions": "Be brief."},
		{"previous_response_id": nil, "conversation": "conv_1", "store": true, "instructions": "Be brief."},
	} {
		for name, v := range want {
			if s.Sent[i][name] != v {
				t.Errorf("request %d: %s is %v, want %v", i, name, s.Sent[i][name], v)
			}
		}
		if n := len(s.Sent[i]["input"].([]any)); n != 1 {
			t.Errorf("request %d has %d items of input, want the new one", i, n)
		}
	}
}

func TestRefusedFieldsAreLeftOut(t *testing.T) {
	refuse := func(message string) http.HandlerFunc {
		return modeltest.Answer(400, "application/json", `{"error":{"message":"`+message+`","type":"invalid_request_error","param":"include","code":null}}`)
	}
	s, m := start(t, nil, refuse("Encrypted content is not supported with this model."), refuse("Invalid schema for text.format"), modeltest.Replay(t, "text"))
	req := modeltest.Question("hi")
	req.Output = &llm.OutputSpec{Name: "x", Schema: json.RawMessage(`{"type":"object"}`)}
	if o := modeltest.Ask(t.Context(), m, req); o.Err != nil || o.Text != "Hello, you." {
		t.Fatalf("%q, %v", o.Text, o.Err)
	}
	for i, want := range []struct{ include, format bool }{{true, true}, {false, true}, {false, false}} {
		if got := s.Sent[i]; (got["include"] != nil) != want.include || (got["text"] != nil) != want.format {
			t.Errorf("request %d: include %v, text %v, want %v", i, got["include"], got["text"], want)
		}
	}
	modeltest.Ask(t.Context(), m, req)
	if s.Sent[3]["include"] != nil || s.Sent[3]["text"] == nil {
		t.Errorf("the next question: include %v, text %v", s.Sent[3]["include"], s.Sent[3]["text"])
	}
}

// What was encrypted for another account cannot be read: the conversation goes on
// without it.
func TestForeignReasoningIsLeftOut(t *testing.T) {
	s, m := start(t, nil, modeltest.Replay(t, "tools"),
		modeltest.Answer(400, "application/json", `{"error":{"message":"The encrypted content gAAA could not be verified.","type":"invalid_request_error","code":"invalid_encrypted_content"}}`), modeltest.Replay(t, "text"))
	messages := []*host.Message{host.UserText("hi")}
	o := modeltest.Ask(t.Context(), m, &llm.Request{Messages: messages})
	messages = append(messages, host.NewMessage(host.Assistant, o.Response.Parts...),
		host.NewMessage(host.ToolRole, &host.ToolResult{ID: "call_1", Content: json.RawMessage(`1`)}, &host.ToolResult{ID: "call_2", Content: json.RawMessage(`2`)}))
	if o := modeltest.Ask(t.Context(), m, &llm.Request{Messages: messages}); o.Err != nil || o.Text != "Hello, you." {
		t.Fatalf("%q, %v", o.Text, o.Err)
	}
	for i, want := range []int{0, 6, 5} { // items of input
		if n := len(s.Sent[i]["input"].([]any)); i > 0 && n != want {
			t.Errorf("request %d has %d items, want %d", i, n, want)
		}
	}
	if s.Sent[2]["include"] == nil {
		t.Error("what it thinks from now on is not asked for")
	}
}

func TestForgottenConversation(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"a response":     modeltest.Answer(400, "application/json", `{"error":{"message":"Previous response with id 'resp_7' not found.","type":"invalid_request_error","param":"previous_response_id","code":"previous_response_not_found"}}`),
		"a conversation": modeltest.Answer(404, "application/json", `{"error":{"message":"Conversation with id 'conv_7' not found.","type":"invalid_request_error","code":null}}`),
	} {
		_, m := start(t, nil, answer)
		req := modeltest.Question("hi")
		req.Conversation = "resp_7"
		o := modeltest.Ask(t.Context(), m, req)
		if host.CodeOf(o.Err) != host.NotFound || !strings.Contains(fault.AsError(o.Err).Hint, "send it whole") {
			t.Errorf("%s: %v (%s)", name, o.Err, host.CodeOf(o.Err))
		}
	}
	_, m := start(t, nil, modeltest.Answer(404, "application/json", `{"error":{"message":"The model does not exist","code":"model_not_found"}}`))
	req := modeltest.Question("hi")
	req.Conversation = "resp_7"
	if o := modeltest.Ask(t.Context(), m, req); host.CodeOf(o.Err) != host.NotFound || !strings.Contains(fault.AsError(o.Err).Hint, "/v1/models") {
		t.Errorf("an unknown model: %v", o.Err)
	}
}

func TestHeadersAndRaw(t *testing.T) {
	s, m := start(t, &responsesmodel.Options{Server: modelhttp.Options{KeepRaw: true, Headers: http.Header{"Openai-Organization": {"org-1"}}}}, modeltest.Replay(t, "text"))
	o := modeltest.Ask(t.Context(), m, modeltest.Question("hi"))
	var events []map[string]any
	if err := json.Unmarshal(o.Response.Raw, &events); err != nil || len(events) != 12 {
		t.Errorf("Raw has %d events (%v), want 12", len(events), err)
	}
	if s.Path != "/v1/responses" || s.Header.Get("Authorization") != "Bearer "+modeltest.Key || s.Header.Get("Openai-Organization") != "org-1" {
		t.Errorf("path %s, headers %v", s.Path, s.Header)
	}
}

func TestNewRefuses(t *testing.T) {
	if _, err := responsesmodel.New("", nil); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("no name: %v", err)
	}
	if _, err := responsesmodel.New("m", &responsesmodel.Options{Server: modelhttp.Options{Timeout: -time.Second}}); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("negative timeout: %v", err)
	}
}
