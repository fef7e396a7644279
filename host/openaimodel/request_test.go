package openaimodel_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/internal/modeltest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/modelhttp"
	"github.com/agenthost/agenthost/host/openaimodel"
)

// sent returns what a model of that name sends for a request.
func sent(t *testing.T, model string, req *llm.Request) (map[string]any, error) {
	t.Helper()
	body, _, err := modeltest.Sent(t, req, func(client *http.Client) llm.Model {
		return modelWith(t, model, openaimodel.Options{Server: modelhttp.Options{HTTPClient: client, MaxRetries: -1}})
	})
	return body, err
}

func TestMessages(t *testing.T) {
	result := func(content string, isError bool) *host.ToolResult {
		return &host.ToolResult{ID: "a", Name: "look", Content: json.RawMessage(content), IsError: isError}
	}
	for _, tt := range []struct {
		name string
		msgs []*host.Message
		want string
	}{
		{"system, user and assistant", []*host.Message{
			host.NewMessage(host.System, &host.Text{Text: "Be brief."}), host.UserText("hi"), host.AssistantText("Hello."), host.UserText("and?")},
			`[{"role":"system","content":"Be brief."},{"role":"user","content":"hi"},{"role":"assistant","content":"Hello."},{"role":"user","content":"and?"}]`},
		{"calls with text, and their results one by one", []*host.Message{
			host.UserText("hi"),
			host.NewMessage(host.Assistant, &host.Text{Text: "Looking."}, call("a", "look", `{"id":1}`), call("b", "look", ``)),
			host.NewMessage(host.ToolRole, result(`"found"`, false), &host.ToolResult{ID: "b", Name: "look", Content: json.RawMessage(`{"n":9007199254740993}`)})},
			`[{"role":"user","content":"hi"},
			  {"role":"assistant","content":"Looking.","tool_calls":[
			    {"id":"a","type":"function","function":{"name":"look","arguments":"{\"id\":1}"}},
			    {"id":"b","type":"function","function":{"name":"look","arguments":"{}"}}]},
			  {"role":"tool","tool_call_id":"a","content":"found"},
			  {"role":"tool","tool_call_id":"b","content":"{\"n\":9007199254740993}"}]`},
		{"a result that is an error", []*host.Message{host.NewMessage(host.ToolRole, result(`"There is no order 7."`, true))},
			`[{"role":"tool","tool_call_id":"a","content":"Error: There is no order 7."}]`},
		{"results that are empty, null or absent still have content", []*host.Message{host.NewMessage(host.ToolRole, result(`""`, false), result(`null`, false), result(``, false))},
			`[{"role":"tool","tool_call_id":"a","content":"\"\""},{"role":"tool","tool_call_id":"a","content":"null"},{"role":"tool","tool_call_id":"a","content":"null"}]`},
		{"reasoning is not sent back", []*host.Message{host.UserText("hi"), host.NewMessage(host.Assistant, &host.Reasoning{Text: "Hm.", Signature: "s"}, &host.Text{Text: "Yes."})},
			`[{"role":"user","content":"hi"},{"role":"assistant","content":"Yes."}]`},
		{"messages of which nothing can be sent are left out", []*host.Message{
			host.UserText("hi"), host.UserText(""), host.NewMessage(host.System), host.NewMessage(host.Assistant, &host.Reasoning{Text: "Hm."}),
			host.NewMessage(host.Assistant, &chat.Unknown{Kind: "x", JSON: json.RawMessage(`{"type":"x"}`)})},
			`[{"role":"user","content":"hi"}]`},
		{"data is JSON text", []*host.Message{host.NewMessage(host.User, &host.Text{Text: "Order: "}, &host.Data{Value: json.RawMessage(`{"id":1}`)})},
			`[{"role":"user","content":"Order: {\"id\":1}"}]`},
		{"images by URL and as bytes", []*host.Message{host.NewMessage(host.User, &host.Text{Text: "What is it?"},
			&host.Media{MediaType: "image/png", Data: []byte("PNG")}, &host.Media{URL: "https://example.com/a.jpg"})},
			`[{"role":"user","content":[{"type":"text","text":"What is it?"},
			  {"type":"image_url","image_url":{"url":"data:image/png;base64,UE5H"}},{"type":"image_url","image_url":{"url":"https://example.com/a.jpg"}}]}]`},
		{"an assistant's image is a note", []*host.Message{host.UserText("draw"), host.NewMessage(host.Assistant, &host.Text{Text: "Here: "}, &host.Media{MediaType: "image/png", Data: []byte("PNG")})},
			`[{"role":"user","content":"draw"},{"role":"assistant","content":"Here: [image/png not shown]"}]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := sent(t, "m1", &llm.Request{Messages: tt.msgs})
			if err != nil {
				t.Fatal(err)
			}
			modeltest.CheckMember(t, got, "messages", tt.want)
		})
	}
}

func TestMessagesRefused(t *testing.T) {
	for _, tt := range []struct {
		name string
		msgs []*host.Message
		says string
	}{
		{"no message", nil, "no message"},
		{"only empty ones", []*host.Message{host.UserText("")}, "no message"},
		{"a user's sound", []*host.Message{host.NewMessage(host.User, &host.Media{MediaType: "audio/wav", Data: []byte("RIFF")})}, "audio/wav"},
		{"a user's file", []*host.Message{host.NewMessage(host.User, &host.Media{MediaType: "application/pdf", URL: "https://example.com/a.pdf"})}, "application/pdf"},
		{"a role of the future", []*host.Message{{ID: "m", Role: "critic", Parts: text("x")}}, "critic"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := sent(t, "m1", &llm.Request{Messages: tt.msgs})
			if host.CodeOf(err) != host.InvalidArgument || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("Generate: %v, want invalid_argument and %q", err, tt.says)
			}
		})
	}
}

func TestRequestFields(t *testing.T) {
	look := llm.ToolSpec{Name: "look", Description: "Looks.", Parameters: json.RawMessage(`{"type":"object","properties":{"id":{"type":"integer"}}}`)}
	zero, warm := 0.0, 0.7
	for _, tt := range []struct {
		name, model string
		req         llm.Request
		want        string
		without     []string
	}{
		{"the least", "m1", llm.Request{}, `{"model":"m1","stream":true,"stream_options":{"include_usage":true}}`,
			[]string{"tools", "tool_choice", "parallel_tool_calls", "temperature", "max_tokens", "max_completion_tokens", "response_format"}},
		{"the name goes as it is", "org/Model:7b-q4", llm.Request{}, `{"model":"org/Model:7b-q4"}`, nil},
		{"tools", "m1", llm.Request{Tools: []llm.ToolSpec{look, {Name: "ping"}}},
			`{"tools":[{"type":"function","function":{"name":"look","description":"Looks.","parameters":{"type":"object","properties":{"id":{"type":"integer"}}}}},
			  {"type":"function","function":{"name":"ping","parameters":{"type":"object","properties":{}}}}]}`, []string{"tool_choice", "parallel_tool_calls"}},
		{"tools of the provider, as declared, and not those of others", "m1", llm.Request{Tools: []llm.ToolSpec{{Name: "ping"}}, ToolChoice: host.ToolChoiceAny, ProviderTools: []host.ProviderTool{
			{Provider: "anthropic", Declaration: json.RawMessage(`{"type":"x"}`)}, {Provider: "openai", Declaration: json.RawMessage(`{"type":"browser_search","later":[1]}`)}}},
			`{"tools":[{"type":"function","function":{"name":"ping","parameters":{"type":"object","properties":{}}}},{"type":"browser_search","later":[1]}],"tool_choice":"required"}`, nil},
		{"a tool of the provider alone", "m1", llm.Request{ProviderTools: []host.ProviderTool{{Provider: "openai", Declaration: json.RawMessage(`{"type":"browser_search"}`)}}},
			`{"tools":[{"type":"browser_search"}]}`, []string{"tool_choice"}},
		{"another provider's tool alone", "m1", llm.Request{ToolChoice: host.ToolChoiceAny, ProviderTools: []host.ProviderTool{{Provider: "anthropic", Declaration: json.RawMessage(`{"type":"x"}`)}}},
			`{}`, []string{"tools", "tool_choice"}},
		{"choice auto", "m1", llm.Request{Tools: []llm.ToolSpec{look}, ToolChoice: host.ToolChoiceAuto}, `{"tool_choice":"auto"}`, nil},
		{"choice any", "m1", llm.Request{Tools: []llm.ToolSpec{look}, ToolChoice: host.ToolChoiceAny}, `{"tool_choice":"required"}`, nil},
		{"choice none", "m1", llm.Request{Tools: []llm.ToolSpec{look}, ToolChoice: host.ToolChoiceNone}, `{"tool_choice":"none"}`, nil},
		{"choice of one tool", "m1", llm.Request{Tools: []llm.ToolSpec{look}, ToolChoice: "look"}, `{"tool_choice":{"type":"function","function":{"name":"look"}}}`, nil},
		{"a choice without tools is left out", "m1", llm.Request{ToolChoice: host.ToolChoiceAny, SerialTools: true}, `{}`, []string{"tool_choice", "parallel_tool_calls"}},
		{"serial tools", "m1", llm.Request{Tools: []llm.ToolSpec{look}, SerialTools: true}, `{"parallel_tool_calls":false}`, nil},
		{"the o-series takes no such switch", "o3-mini", llm.Request{Tools: []llm.ToolSpec{look}, SerialTools: true}, `{}`, []string{"parallel_tool_calls"}},
		{"temperature", "m1", llm.Request{Temperature: &warm}, `{"temperature":0.7}`, nil},
		{"temperature zero is sent", "m1", llm.Request{Temperature: &zero}, `{"temperature":1e-45}`, nil},
		{"output of a schema", "m1", llm.Request{Output: &llm.OutputSpec{Name: "clerk", Schema: json.RawMessage(`{"type":"object"}`), Strict: true}},
			`{"response_format":{"type":"json_schema","json_schema":{"name":"clerk","schema":{"type":"object"},"strict":true}}}`, nil},
		{"parameters", "m1", llm.Request{Temperature: &warm, Parameters: host.Parameters{"top_p": json.RawMessage(`0.5`), "seed": json.RawMessage(`7`), "stop": json.RawMessage(`["END"]`), "temperature": json.RawMessage(`0.1`), "messages\":null": json.RawMessage(`{"messages":null}`)}},
			`{"top_p":0.5,"seed":7,"stop":["END"],"temperature":0.1,"model":"m1","stream":true,"messages":[{"role":"user","content":"hi"}]}`, nil},
		{"a cache", "m1", llm.Request{Parameters: host.Parameters{"prompt_cache": json.RawMessage(`{"key":"support","long":true}`)}},
			`{"prompt_cache_key":"support","prompt_cache_retention":"24h"}`, []string{"prompt_cache"}},
		{"output limit", "m1", llm.Request{MaxOutputTokens: 100}, `{"max_tokens":100}`, []string{"max_completion_tokens"}},
		{"output limit of models that reason", "gpt-5-mini", llm.Request{MaxOutputTokens: 100}, `{"max_completion_tokens":100}`, []string{"max_tokens"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.req.Messages = []*host.Message{host.UserText("hi")}
			got, err := sent(t, tt.model, &tt.req)
			if err != nil {
				t.Fatal(err)
			}
			modeltest.CheckFields(t, got, tt.want, tt.without)
		})
	}
}

func TestHeaders(t *testing.T) {
	var got http.Header
	m := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Clone()
		got.Set("Path", r.URL.Path)
		stream(delta(`{"content":"x"}`), finish("stop"), done)(w, r)
	}, &openaimodel.Options{Server: modelhttp.Options{APIKey: " " + modeltest.Key + "\n", Headers: http.Header{"x-gateway": {"g1"}}}})
	if o := modeltest.Ask(t.Context(), m, modeltest.Question("hi")); o.Err != nil {
		t.Fatal(o.Err)
	}
	for name, want := range map[string]string{
		"Authorization": "Bearer " + modeltest.Key, "X-Gateway": "g1", "Content-Type": "application/json", "Path": "/v1/chat/completions",
	} {
		if got.Get(name) != want {
			t.Errorf("%s is %q, want %q", name, got.Get(name), want)
		}
	}
}

// go-openai knows some models and refuses requests that they would refuse.
func TestRefusedBeforeItIsSent(t *testing.T) {
	warm := 0.7
	_, err := sent(t, "o3-mini", &llm.Request{Messages: []*host.Message{host.UserText("hi")}, Temperature: &warm})
	if host.CodeOf(err) != host.InvalidArgument || !strings.Contains(err.Error(), "o3-mini") {
		t.Errorf("Generate: %v, want invalid_argument that names the model", err)
	}
}

func TestRequestIsNotChanged(t *testing.T) {
	req := modeltest.Question("hi")
	req.Tools = []llm.ToolSpec{{Name: "ping"}}
	before, _ := json.Marshal(req)
	if _, err := sent(t, "m1", req); err != nil {
		t.Fatal(err)
	}
	if after, _ := json.Marshal(req); !bytes.Equal(before, after) {
		t.Errorf("request was %s, is %s", before, after)
	}
}
