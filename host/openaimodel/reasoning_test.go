package openaimodel_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/internal/modeltest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/modelhttp"
	"github.com/agenthost/agenthost/host/openaimodel"
)

// recorder answers its requests one after the other, the last answer again and
// again, and keeps the messages that it was sent.
type recorder struct {
	answers []http.HandlerFunc
	got     []string // the messages of each request
}

func (r *recorder) handle(w http.ResponseWriter, req *http.Request) {
	raw, _ := io.ReadAll(req.Body)
	var body struct{ Messages json.RawMessage }
	_ = json.Unmarshal(raw, &body)
	r.got = append(r.got, string(body.Messages))
	r.answers[min(len(r.got), len(r.answers))-1](w, req)
}

// stored is a message as it comes back from a history.
func stored(t *testing.T, parts []host.Part) *host.Message {
	t.Helper()
	return modeltest.Stored(t, host.NewMessage(host.Assistant, parts...))
}

func result(id string) *host.Message {
	return host.NewMessage(host.ToolRole, &host.ToolResult{ID: id, Name: "look", Content: json.RawMessage(`"found"`)})
}

var thinkingCall = []http.HandlerFunc{
	stream(delta(`{"reasoning_content":"Hm. "}`), delta(`{"reasoning_content":"Look."}`),
		delta(`{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"look","arguments":"{}"}}]}`), finish("tool_calls"), done),
	stream(delta(`{"content":"Found."}`), finish("stop"), done),
}

func TestReasoningGoesBack(t *testing.T) {
	for _, tt := range []struct {
		name     string
		use      openaimodel.ReasoningUse
		inTurn   bool // it is sent back before the user has said more
		nextTurn bool
	}{
		{"within the turn", openaimodel.ReasoningAuto, true, false},
		{"always", openaimodel.ReasoningAlways, true, true},
		{"never", openaimodel.ReasoningNever, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &recorder{answers: thinkingCall}
			m := serve(t, r.handle, &openaimodel.Options{Server: modelhttp.Options{MaxRetries: -1}, Reasoning: tt.use})
			messages := []*host.Message{host.UserText("hi")}
			o := modeltest.Ask(t.Context(), m, &llm.Request{Messages: messages})
			if o.Err != nil || o.Reasoning != "Hm. Look." {
				t.Fatalf("%q, %v", o.Reasoning, o.Err)
			}
			messages = append(messages, stored(t, o.Response.Parts), result("a"))
			modeltest.Ask(t.Context(), m, &llm.Request{Messages: messages})
			modeltest.Ask(t.Context(), m, &llm.Request{Messages: append(messages, host.AssistantText("Found."), host.UserText("and?"))})
			for i, want := range []bool{false, tt.inTurn, tt.nextTurn} {
				if got := strings.Contains(r.got[i], `"reasoning_content":"Hm. Look."`); got != want {
					t.Errorf("request %d has the reasoning: %t, want %t\n%s", i, got, want, r.got[i])
				}
			}
		})
	}
}

// Another model does not get it: fields that a server does not know are errors
// to some.
func TestReasoningIsNotForOthers(t *testing.T) {
	r := &recorder{answers: thinkingCall[1:]}
	m := serve(t, r.handle, &openaimodel.Options{Reasoning: openaimodel.ReasoningAlways})
	for _, extra := range []string{`{"model":"m2","field":"reasoning_content"}`, `{"model":"m1","field":"role"}`, `{"model":"m1"}`, `7`} {
		part := &host.Reasoning{Text: "Hm.", Extra: chat.Extra{{Name: "openai", Value: json.RawMessage(extra)}}}
		o := modeltest.Ask(t.Context(), m, &llm.Request{Messages: []*host.Message{host.UserText("hi"), host.NewMessage(host.Assistant, part, &host.Text{Text: "Yes."})}})
		if want := `[{"role":"user","content":"hi"},{"role":"assistant","content":"Yes."}]`; o.Err != nil || r.got[len(r.got)-1] != want {
			t.Errorf("%s: %v, messages %s, want %s", extra, o.Err, r.got[len(r.got)-1], want)
		}
	}
}

func TestReasoningIsLeftOutForAServerThatRefusesIt(t *testing.T) {
	refuse := modeltest.Answer(400, "application/json", `{"error":{"message":"messages[1]: property 'reasoning_content' is unsupported","code":"invalid_request_error"}}`)
	r := &recorder{answers: []http.HandlerFunc{thinkingCall[0], refuse, thinkingCall[1]}}
	m := serve(t, r.handle, nil)
	messages := []*host.Message{host.UserText("hi")}
	o := modeltest.Ask(t.Context(), m, &llm.Request{Messages: messages})
	messages = append(messages, stored(t, o.Response.Parts), result("a"))
	for range 2 {
		if o := modeltest.Ask(t.Context(), m, &llm.Request{Messages: messages}); o.Err != nil || o.Text != "Found." || len(o.Retries) > 0 {
			t.Errorf("%q, %v, retries %v", o.Text, o.Err, o.Retries)
		}
	}
	if len(r.got) != 4 || !strings.Contains(r.got[1], "reasoning_content") || strings.Contains(r.got[2]+r.got[3], "reasoning_content") {
		t.Errorf("it was sent %q", r.got)
	}
}

// OpenRouter's reasoning_details go back as they came, put together.
func TestReasoningDetailsGoBack(t *testing.T) {
	r := &recorder{answers: []http.HandlerFunc{
		stream(delta(`{"reasoning":"Hm. ","reasoning_details":[{"type":"reasoning.text","text":"Hm. ","index":0,"format":"x"}]}`),
			delta(`{"reasoning":"Look.","reasoning_details":[{"type":"reasoning.text","text":"Look.","index":0,"signature":"s1"}]}`),
			delta(`{"reasoning_details":[{"type":"reasoning.encrypted","data":"abc","index":1}, null]}`),
			delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"look","arguments":"{}"}}]}`), finish("tool_calls"), done),
		thinkingCall[1],
	}}
	m := serve(t, r.handle, nil)
	messages := []*host.Message{host.UserText("hi")}
	o := modeltest.Ask(t.Context(), m, &llm.Request{Messages: messages})
	if o.Err != nil || o.Reasoning != "Hm. Look." {
		t.Fatalf("%q, %v", o.Reasoning, o.Err)
	}
	modeltest.Ask(t.Context(), m, &llm.Request{Messages: append(messages, stored(t, o.Response.Parts), result("a"))})
	var sent []map[string]any
	if err := json.Unmarshal([]byte(r.got[1]), &sent); err != nil {
		t.Fatal(err)
	}
	want := modeltest.Parse(t, `[{"type":"reasoning.text","text":"Hm. Look.","index":0,"format":"x","signature":"s1"},{"type":"reasoning.encrypted","data":"abc","index":1}]`)
	if diff := cmp.Diff(want, sent[1]["reasoning_details"]); diff != "" || sent[1]["reasoning"] != nil {
		t.Errorf("details (-want +got):\n%s\nreasoning %v", diff, sent[1]["reasoning"])
	}
}

// Servers send details word by word. Putting each word to all before it would
// take longer than a test may.
func TestReasoningDetailsInManyPieces(t *testing.T) {
	const pieces = 50_000
	lines := make([]string, 0, pieces+2)
	for range pieces {
		lines = append(lines, delta(`{"reasoning_details":[{"type":"reasoning.text","text":"a thought of some words ","index":0}]}`))
	}
	o := modeltest.Ask(t.Context(), serve(t, stream(append(lines, finish("stop"), done)...), nil), &llm.Request{Messages: []*host.Message{host.UserText("hi")}})
	if o.Err != nil {
		t.Fatal(o.Err)
	}
	want := `{"model":"m1","details":[{"index":0,"text":"` + strings.Repeat("a thought of some words ", pieces) + `","type":"reasoning.text"}]}`
	if r, ok := o.Response.Parts[0].(*host.Reasoning); !ok || string(r.Extra[0].Value) != want {
		t.Errorf("the pieces are not one detail: %.200s", r.Extra[0].Value)
	}
}

func TestReasoningDetailsAreBounded(t *testing.T) {
	many := delta(`{"reasoning_details":[` + strings.Repeat(`{"a":1},`, 20_000) + `{}]}`)
	o := modeltest.Ask(t.Context(), serve(t, stream(many, finish("stop"), done), nil), &llm.Request{Messages: []*host.Message{host.UserText("hi")}})
	if host.CodeOf(o.Err) != host.Unavailable || !strings.Contains(o.Err.Error(), "16384 reasoning details") {
		t.Errorf("20,000 details: %v", o.Err)
	}
}

// What a server sends with a call and nobody here knows goes back with it.
func TestUnknownMembersOfACallGoBack(t *testing.T) {
	r := &recorder{answers: []http.HandlerFunc{
		stream(delta(`{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"look","arguments":"{"},"extra_content":{"google":{"thought_signature":"s1"}}}]}`),
			delta(`{"tool_calls":[{"index":0,"function":{"arguments":"}"},"cost":7}]}`), finish("tool_calls"), done),
		thinkingCall[1],
	}}
	m := serve(t, r.handle, nil)
	messages := []*host.Message{host.UserText("hi")}
	o := modeltest.Ask(t.Context(), m, &llm.Request{Messages: messages})
	if o.Err != nil {
		t.Fatal(o.Err)
	}
	modeltest.Ask(t.Context(), m, &llm.Request{Messages: append(messages, stored(t, o.Response.Parts), result("a"))})
	want := `{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"look","arguments":"{}"},"cost":7,"extra_content":{"google":{"thought_signature":"s1"}}}]}`
	if !strings.Contains(r.got[1], want) {
		t.Errorf("it was sent %s\nwant %s", r.got[1], want)
	}
}

// What another model's server sent with a call is not for this one.
func TestCallsOfOthers(t *testing.T) {
	extra := func(model string) chat.Extra {
		return chat.Extra{{Name: "openai", Value: json.RawMessage(`{"cost":7}`)}, {Name: "openai_model", Value: chat.AppendJSONString(nil, model)}}
	}
	for name, c := range map[string]struct {
		call *host.ToolCall
		want string
	}{
		"its own":              {&host.ToolCall{ID: "a", Name: "look", Extra: extra("m1")}, `{"id":"a","type":"function","function":{"name":"look","arguments":"{}"},"cost":7}`},
		"another's":            {&host.ToolCall{ID: "a", Name: "look", Extra: extra("m2")}, `{"id":"a","type":"function","function":{"name":"look","arguments":"{}"}}`},
		"another protocol's":   {&host.ToolCall{ID: "a", Name: "look", Extra: chat.Extra{{Name: "x", Value: json.RawMessage(`1`)}}}, `{"id":"a","type":"function","function":{"name":"look","arguments":"{}"}}`},
		"a name made up":       {&host.ToolCall{ID: "a", Name: "multi_tool_use.parallel"}, `{"id":"a","type":"function","function":{"name":"multi_tool_use_parallel","arguments":"{}"}}`},
		"a name that is long":  {&host.ToolCall{ID: "a", Name: strings.Repeat("x", 63) + "éé"}, `{"id":"a","type":"function","function":{"name":"` + strings.Repeat("x", 63) + `","arguments":"{}"}}`},
		"a name without words": {&host.ToolCall{ID: "a"}, `{"id":"a","type":"function","function":{"name":"_","arguments":"{}"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			r := &recorder{answers: []http.HandlerFunc{thinkingCall[1], thinkingCall[1]}}
			m := serve(t, r.handle, nil)
			said := host.NewMessage(host.Assistant, c.call, &chat.Unknown{Kind: "anthropic", JSON: json.RawMessage(`{"type":"anthropic","block":{"type":"text","text":"x"}}`)})
			for i := range 2 { // the second time from what the messages keep
				if o := modeltest.Ask(t.Context(), m, &llm.Request{Messages: []*host.Message{host.UserText("hi"), said, result("a")}}); o.Err != nil {
					t.Fatal(o.Err)
				}
				if want := `{"role":"assistant","tool_calls":[` + c.want + `]}`; !strings.Contains(r.got[i], want) {
					t.Errorf("it was sent %s\nwant %s", r.got[i], want)
				}
			}
		})
	}
}

func TestOptionsOfReasoning(t *testing.T) {
	if _, err := openaimodel.New("m1", &openaimodel.Options{Reasoning: "sometimes"}); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("an unknown use: %v", err)
	}
	var effort string
	m := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Effort string `json:"reasoning_effort"`
		}
		_ = json.NewDecoder(r.Body).Decode(&body)
		effort = body.Effort
		thinkingCall[1](w, r)
	}, &openaimodel.Options{Effort: "low"})
	if o := modeltest.Ask(t.Context(), m, modeltest.Question("hi")); o.Err != nil || effort != "low" {
		t.Errorf("effort %q, %v", effort, o.Err)
	}
}
