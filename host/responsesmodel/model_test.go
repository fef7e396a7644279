package responsesmodel_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/modelhttp"
	"github.com/agenthost/agenthost/host/responsesmodel"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testKey = "sk-test-1234567890"

// service answers its requests one after the other, the last answer again and
// again, and keeps what it was sent.
type service struct {
	answers []http.HandlerFunc
	got     []map[string]any
	header  http.Header
	path    string
}

func (s *service) handle(w http.ResponseWriter, r *http.Request) {
	var body map[string]any
	_ = json.NewDecoder(r.Body).Decode(&body)
	s.got, s.header, s.path = append(s.got, body), r.Header, r.URL.Path
	s.answers[min(len(s.got), len(s.answers))-1](w, r)
}

// start serves the answers.
func start(t *testing.T, opts *responsesmodel.Options, answers ...http.HandlerFunc) (*service, *responsesmodel.Model) {
	t.Helper()
	s := &service{answers: answers}
	srv := httptest.NewServer(http.HandlerFunc(s.handle))
	t.Cleanup(srv.Close)
	o := responsesmodel.Options{Server: modelhttp.Options{MaxRetries: -1}}
	if opts != nil {
		o = *opts
	}
	o.Server.BaseURL, o.Server.APIKey = srv.URL+"/v1", testKey
	m, err := responsesmodel.New("gpt-5-mini", &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.CloseIdleConnections)
	return s, m
}

// recorded answers with a stream of testdata.
func recorded(t *testing.T, name string) http.HandlerFunc {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name + ".sse")
	if err != nil {
		t.Fatal(err)
	}
	return says(200, "text/event-stream", string(b))
}

func says(status int, contentType, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
}

// outcome is what came of one Generate.
type outcome struct {
	text, reasoning string
	calls           []llm.ToolCallDelta // put together, by their index
	response        *llm.Response
	err             error
}

func ask(ctx context.Context, m host.Model, req *llm.Request) outcome {
	var o outcome
	for chunk, err := range m.Generate(ctx, req) {
		if err != nil {
			o.err = err
			continue
		}
		o.text += chunk.Text
		o.reasoning += chunk.Reasoning
		if d := chunk.ToolCall; d != nil {
			for len(o.calls) <= d.Index {
				o.calls = append(o.calls, llm.ToolCallDelta{Index: len(o.calls)})
			}
			c := &o.calls[d.Index]
			c.ID, c.Name, c.Arguments = c.ID+d.ID, c.Name+d.Name, c.Arguments+d.Arguments
		}
		if chunk.Response != nil {
			o.response = chunk.Response
		}
	}
	return o
}

func question(text string) *llm.Request {
	return &llm.Request{Messages: []*host.Message{host.UserText(text)}}
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
		{"streams text", false, recorded(t, "text"), want(chat.FinishStop, hello)},
		{"streams reasoning and parallel calls", false, recorded(t, "tools"),
			want(chat.FinishToolCalls, thought(), call("call_1", `{"order_id":1042}`), call("call_2", `{"order_id":1043}`))},
		{"streams calls that are written at one time", false, recorded(t, "interleaved"),
			want(chat.FinishToolCalls, thought(), call("call_1", `{"order_id":1042}`), call("call_2", `{"order_id":1043}`))},
		{"keeps items of the service's own tools, and citations", true, recorded(t, "search"),
			kept(want(chat.FinishStop, &chat.Unknown{Kind: "openai_item", JSON: json.RawMessage(`{"type":"openai_item","item":{"id":"ws_1","type":"web_search_call","status":"completed","action":{"type":"search","query":"weather"}}}`)},
				&host.Text{Text: "Rain.", Extra: chat.Extra{{Name: "annotations", Value: json.RawMessage(`[{"type":"url_citation","start_index":0,"end_index":5,"url":"https://example.com","title":"Weather"}]`)}}}), "resp_1")},
		{"maps incomplete", false, recorded(t, "incomplete"), want(chat.FinishLength, &host.Text{Text: "Hello"})},
		{"names the response that the service keeps", true, recorded(t, "stored"), kept(want(chat.FinishStop, hello), "resp_1")},
		{"names the conversation that the service keeps", true, recorded(t, "conversation"), kept(want(chat.FinishStop, hello), "conv_1")},
		{"names nothing that the service does not keep", true, recorded(t, "text"), want(chat.FinishStop, hello)},
		{"names nothing that it was not told to keep", false, recorded(t, "stored"), want(chat.FinishStop, hello)},
		{"reads a document from a server that does not stream", false, says(200, "application/json", document),
			unused(want(chat.FinishToolCalls, thought(), &host.Text{Text: "No."}, call("call_1", `{}`)))},
		{"takes finished items where the end has none", false, says(200, "text/event-stream", strings.Join([]string{
			`data: {"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","call_id":"call_1","name":"lookup_order","arguments":"{}"}}`,
			`data: {"type":"response.output_item.done","output_index":0,"item":{"type":"message","content":[{"type":"output_text","text":"Looking."}]}}`,
			`data: {"type":"response.completed","response":{"id":"resp_1","model":"gpt-5-mini-2025-08-07","status":"completed"}}`, ""}, "\n\n")),
			unused(want(chat.FinishToolCalls, &host.Text{Text: "Looking."}, call("call_1", `{}`)))},
		{"takes deltas where there is nothing else", false, says(200, "text/event-stream", strings.Join([]string{
			`data: {"type":"response.output_text.delta","delta":"Hello, "}`, `data: {"type":"response.refusal.delta","delta":"you."}`,
			`data: {"type":"response.completed","response":{"id":"resp_1","model":"gpt-5-mini-2025-08-07"}}`, ""}, "\n\n")),
			unused(want(chat.FinishStop, hello))},
		{"maps a content filter", false, says(200, "text/event-stream",
			`data: {"type":"response.incomplete","response":{"id":"resp_1","model":"gpt-5-mini-2025-08-07","status":"incomplete","incomplete_details":{"reason":"content_filter"}}}`+"\n\n"),
			unused(want(chat.FinishContentFilter))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, m := start(t, &responsesmodel.Options{Store: tt.store}, tt.handler)
			o := ask(t.Context(), m, question("hi"))
			if o.err != nil {
				t.Fatal(o.err)
			}
			if diff := cmp.Diff(tt.want, o.response); diff != "" {
				t.Errorf("response (-want +got):\n%s", diff)
			}
			checkDeltas(t, o)
		})
	}
}

// checkDeltas holds what was streamed to the response, but for text that nobody
// has streamed.
func checkDeltas(t *testing.T, o outcome) {
	t.Helper()
	n := 0
	for _, p := range o.response.Parts {
		switch p := p.(type) {
		case *host.Reasoning:
			if o.reasoning != p.Text {
				t.Errorf("reasoning deltas make %q, the response %q", o.reasoning, p.Text)
			}
		case *host.ToolCall:
			var streamed *llm.ToolCallDelta
			for i := range o.calls {
				if o.calls[i].ID == p.ID {
					streamed = &o.calls[i]
				}
			}
			if streamed == nil || streamed.Name != p.Name || streamed.Arguments != string(p.Arguments) {
				t.Errorf("call %+v was streamed as %+v", p, streamed)
			}
			n++
		}
	}
	if len(o.calls) != n {
		t.Errorf("%d calls were streamed, the response has %d", len(o.calls), n)
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
			s, m := start(t, &responsesmodel.Options{Store: tt.store}, recorded(t, tt.first), recorded(t, "text"))
			messages := []*host.Message{host.UserText("hi")}
			o := ask(t.Context(), m, &llm.Request{Messages: messages})
			if o.err != nil {
				t.Fatal(o.err)
			}
			raw, err := json.Marshal(host.NewMessage(host.Assistant, o.response.Parts...))
			if err != nil {
				t.Fatal(err)
			}
			stored := &host.Message{}
			if err := json.Unmarshal(raw, stored); err != nil {
				t.Fatal(err)
			}
			messages = append(messages, stored, host.NewMessage(host.ToolRole,
				&host.ToolResult{ID: "call_1", Name: "lookup_order", Content: json.RawMessage(`"shipped"`)},
				&host.ToolResult{ID: "call_2", Name: "lookup_order", Content: json.RawMessage(`"There is no order 1043."`), IsError: true}))
			if o := ask(t.Context(), m, &llm.Request{Messages: messages}); o.err != nil {
				t.Fatal(o.err)
			}
			if diff := cmp.Diff(parse(t, tt.want), s.got[1]["input"].([]any)[1:]); diff != "" {
				t.Errorf("input (-want +got):\n%s", diff)
			}
		})
	}
}

func parse(t *testing.T, text string) []any {
	t.Helper()
	var v []any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// A conversation that the service keeps: each request has what is new.
func TestServiceKeepsTheConversation(t *testing.T) {
	s, m := start(t, &responsesmodel.Options{Store: true}, recorded(t, "stored"), recorded(t, "conversation"), recorded(t, "text"))
	id := ""
	for _, text := range []string{"hi", "and?", "why?"} {
		req := question(text)
		req.Messages = append([]*host.Message{host.NewMessage(host.System, &host.Text{Text: "Be brief."})}, req.Messages...)
		req.Conversation = id
		o := ask(t.Context(), m, req)
		if o.err != nil {
			t.Fatal(o.err)
		}
		id = o.response.Conversation
	}
	for i, want := range []map[string]any{
		{"previous_response_id": nil, "conversation": nil, "store": true, "instructions": "Be brief."},
		{"previous_response_id": "resp_1", "conversation": nil, "store": true, "instructions": "Be brief."},
		{"previous_response_id": nil, "conversation": "conv_1", "store": true, "instructions": "Be brief."},
	} {
		for name, v := range want {
			if s.got[i][name] != v {
				t.Errorf("request %d: %s is %v, want %v", i, name, s.got[i][name], v)
			}
		}
		if n := len(s.got[i]["input"].([]any)); n != 1 {
			t.Errorf("request %d has %d items of input, want the new one", i, n)
		}
	}
}

func TestRefusedFieldsAreLeftOut(t *testing.T) {
	refuse := func(message string) http.HandlerFunc {
		return says(400, "application/json", `{"error":{"message":"`+message+`","type":"invalid_request_error","param":"include","code":null}}`)
	}
	s, m := start(t, nil, refuse("Encrypted content is not supported with this model."), refuse("Invalid schema for text.format"), recorded(t, "text"))
	req := question("hi")
	req.Output = &llm.OutputSpec{Name: "x", Schema: json.RawMessage(`{"type":"object"}`)}
	if o := ask(t.Context(), m, req); o.err != nil || o.text != "Hello, you." {
		t.Fatalf("%q, %v", o.text, o.err)
	}
	for i, want := range []struct{ include, format bool }{{true, true}, {false, true}, {false, false}} {
		if got := s.got[i]; (got["include"] != nil) != want.include || (got["text"] != nil) != want.format {
			t.Errorf("request %d: include %v, text %v, want %v", i, got["include"], got["text"], want)
		}
	}
	ask(t.Context(), m, req)
	if s.got[3]["include"] != nil || s.got[3]["text"] == nil {
		t.Errorf("the next question: include %v, text %v", s.got[3]["include"], s.got[3]["text"])
	}
}

// What was encrypted for another account cannot be read: the conversation goes on
// without it.
func TestForeignReasoningIsLeftOut(t *testing.T) {
	s, m := start(t, nil, recorded(t, "tools"),
		says(400, "application/json", `{"error":{"message":"The encrypted content gAAA could not be verified.","type":"invalid_request_error","code":"invalid_encrypted_content"}}`), recorded(t, "text"))
	messages := []*host.Message{host.UserText("hi")}
	o := ask(t.Context(), m, &llm.Request{Messages: messages})
	messages = append(messages, host.NewMessage(host.Assistant, o.response.Parts...),
		host.NewMessage(host.ToolRole, &host.ToolResult{ID: "call_1", Content: json.RawMessage(`1`)}, &host.ToolResult{ID: "call_2", Content: json.RawMessage(`2`)}))
	if o := ask(t.Context(), m, &llm.Request{Messages: messages}); o.err != nil || o.text != "Hello, you." {
		t.Fatalf("%q, %v", o.text, o.err)
	}
	for i, want := range []int{0, 6, 5} { // items of input
		if n := len(s.got[i]["input"].([]any)); i > 0 && n != want {
			t.Errorf("request %d has %d items, want %d", i, n, want)
		}
	}
	if s.got[2]["include"] == nil {
		t.Error("what it thinks from now on is not asked for")
	}
}

func TestForgottenConversation(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"a response":     says(400, "application/json", `{"error":{"message":"Previous response with id 'resp_7' not found.","type":"invalid_request_error","param":"previous_response_id","code":"previous_response_not_found"}}`),
		"a conversation": says(404, "application/json", `{"error":{"message":"Conversation with id 'conv_7' not found.","type":"invalid_request_error","code":null}}`),
	} {
		_, m := start(t, nil, answer)
		req := question("hi")
		req.Conversation = "resp_7"
		o := ask(t.Context(), m, req)
		if host.CodeOf(o.err) != host.NotFound || !strings.Contains(fault.AsError(o.err).Hint, "send it whole") {
			t.Errorf("%s: %v (%s)", name, o.err, host.CodeOf(o.err))
		}
	}
	_, m := start(t, nil, says(404, "application/json", `{"error":{"message":"The model does not exist","code":"model_not_found"}}`))
	req := question("hi")
	req.Conversation = "resp_7"
	if o := ask(t.Context(), m, req); host.CodeOf(o.err) != host.NotFound || !strings.Contains(fault.AsError(o.err).Hint, "/v1/models") {
		t.Errorf("an unknown model: %v", o.err)
	}
}

func TestHeadersAndRaw(t *testing.T) {
	s, m := start(t, &responsesmodel.Options{Server: modelhttp.Options{KeepRaw: true, Headers: http.Header{"Openai-Organization": {"org-1"}}}}, recorded(t, "text"))
	o := ask(t.Context(), m, question("hi"))
	var events []map[string]any
	if err := json.Unmarshal(o.response.Raw, &events); err != nil || len(events) != 12 {
		t.Errorf("Raw has %d events (%v), want 12", len(events), err)
	}
	if s.path != "/v1/responses" || s.header.Get("Authorization") != "Bearer "+testKey || s.header.Get("Openai-Organization") != "org-1" {
		t.Errorf("path %s, headers %v", s.path, s.header)
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
