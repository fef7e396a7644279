package anthropicmodel_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/anthropicmodel"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/internal/modeltest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/modelhttp"
)

// sent returns what a model sends for a request.
func sent(t *testing.T, opts anthropicmodel.Options, req *llm.Request) (map[string]any, *http.Request, error) {
	t.Helper()
	return modeltest.Sent(t, req, func(client *http.Client) llm.Model {
		opts.Server.HTTPClient, opts.Server.MaxRetries = client, -1
		return modelWith(t, opts)
	})
}

func call(id, name, arguments string) host.Part {
	return &host.ToolCall{ID: id, Name: name, Arguments: json.RawMessage(arguments)}
}

func TestMessages(t *testing.T) {
	result := func(id, content string, isError bool) *host.Message {
		return host.NewMessage(host.ToolRole, &host.ToolResult{ID: id, Name: "look", Content: json.RawMessage(content), IsError: isError})
	}
	block := func(raw string) host.Part {
		return &chat.Unknown{Kind: "anthropic", JSON: json.RawMessage(`{"type":"anthropic","block":` + raw + `}`)}
	}
	system := func(text string) *host.Message { return host.NewMessage(host.System, &host.Text{Text: text}) }
	for _, tt := range []struct {
		name     string
		messages []*host.Message
		want     string
		system   string
	}{
		{"system messages go to the top", []*host.Message{system("Be brief."), host.UserText("hi"), host.AssistantText("Hello."), system("Be kind."), host.UserText("and?")},
			`[{"role":"user","content":[{"type":"text","text":"hi"}]},{"role":"assistant","content":[{"type":"text","text":"Hello."}]},
			  {"role":"user","content":[{"type":"text","text":"and?"}]}]`, `[{"type":"text","text":"Be brief.\n\nBe kind."}]`},
		{"results of parallel calls are one message, before what is said", []*host.Message{host.UserText("hi"),
			host.NewMessage(host.Assistant, &host.Text{Text: "Looking."}, call("a.1", "look", `{"id":1}`), call("b", "look", ``)),
			result("a.1", `"found"`, false), result("b", `{"n":1}`, true), host.UserText("quick")},
			`[{"role":"user","content":[{"type":"text","text":"hi"}]},
			  {"role":"assistant","content":[{"type":"text","text":"Looking."},{"type":"tool_use","id":"a_1","name":"look","input":{"id":1}},{"type":"tool_use","id":"b","name":"look","input":{}}]},
			  {"role":"user","content":[{"type":"tool_result","tool_use_id":"a_1","content":"found"},{"type":"tool_result","tool_use_id":"b","content":"{\"n\":1}","is_error":true},{"type":"text","text":"quick"}]}]`, ``},
		{"arguments that are no object", []*host.Message{host.UserText("hi"), host.NewMessage(host.Assistant, call("a", "look", `"{broken"`)), result("a", `"no"`, true)},
			`[{"role":"user","content":[{"type":"text","text":"hi"}]},{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"look","input":{"value":"{broken"}}]},
			  {"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"no","is_error":true}]}]`, ``},
		{"thinking goes back with its signature, or not at all", []*host.Message{host.UserText("hi"),
			host.NewMessage(host.Assistant, &host.Reasoning{Text: "Hm.", Signature: "s"}, &host.Reasoning{Text: "Another's."}, &host.Text{Text: "Yes."})},
			`[{"role":"user","content":[{"type":"text","text":"hi"}]},{"role":"assistant","content":[{"type":"thinking","thinking":"Hm.","signature":"s"},{"type":"text","text":"Yes."}]}]`, ``},
		{"what came as it was goes back so, and what did not stays", []*host.Message{host.UserText("hi"),
			host.NewMessage(host.Assistant, &chat.Unknown{Kind: "anthropic", JSON: json.RawMessage(`{"type":"anthropic","block":{"type":"redacted_thinking","data":"x"}}`)},
				&chat.Unknown{Kind: "anthropic", JSON: json.RawMessage(`{"type":"anthropic","block":1}`)}, &chat.Unknown{Kind: "odd", JSON: json.RawMessage(`{"type":"odd"}`)}, &host.Text{Text: "Yes."})},
			`[{"role":"user","content":[{"type":"text","text":"hi"}]},{"role":"assistant","content":[{"type":"redacted_thinking","data":"x"},{"type":"text","text":"Yes."}]}]`, ``},
		{"what no answer has stays, whoever put it there", []*host.Message{host.UserText("hi"),
			host.NewMessage(host.Assistant, block(`{"type":"document","source":{"type":"file","file_id":"file_of_another"}}`), block(`{"type":"image","source":{"type":"file","file_id":"x"}}`),
				block(`{"type":"container_upload","file_id":"file_of_another"}`), block(`{"type":"search_result","content":[]}`), block(`{"type":"tool_result","tool_use_id":"a"}`),
				block(`{"type":"tool_use","id":"a","name":"look","input":{}}`), block(`{"type":"thinking","thinking":"x","signature":"s"}`), block(`{"type":"text","text":"x"}`),
				block(`{"type":["text"]}`), block(`{}`), block(`null`), block(`[]`),
				block(`{"type":"text","type":"server_tool_use","id":"s","name":"web_search","input":{"n":9007199254740993},"cache_control":{"type":"ephemeral"}}`), &host.Text{Text: "Yes."}),
			host.NewMessage(host.User, block(`{"type":"server_tool_use","id":"s"}`), &host.Text{Text: "and?"})},
			`[{"role":"user","content":[{"type":"text","text":"hi"}]},{"role":"assistant","content":[{"type":"server_tool_use","id":"s","name":"web_search","input":{"n":9007199254740993}},{"type":"text","text":"Yes."}]},
			  {"role":"user","content":[{"type":"text","text":"and?"}]}]`, ``},
		{"names and ids that were made up are ones that are taken", []*host.Message{host.UserText("hi"), host.NewMessage(host.Assistant, call("", "multi_tool_use.parallel", `{}`)), result("", `"no"`, true)},
			`[{"role":"user","content":[{"type":"text","text":"hi"}]},{"role":"assistant","content":[{"type":"tool_use","id":"_","name":"multi_tool_use_parallel","input":{}}]},
			  {"role":"user","content":[{"type":"tool_result","tool_use_id":"_","content":"no","is_error":true}]}]`, ``},
		{"a conversation that begins with an answer", []*host.Message{host.AssistantText("Hello."), host.UserText("hi")},
			`[{"role":"user","content":[{"type":"text","text":"(The conversation goes on.)"}]},{"role":"assistant","content":[{"type":"text","text":"Hello."}]},{"role":"user","content":[{"type":"text","text":"hi"}]}]`, ``},
		{"a prefill stays an answer, without the white space that is refused", []*host.Message{host.UserText("hi"), host.AssistantText("The answer: \n")},
			`[{"role":"user","content":[{"type":"text","text":"hi"}]},{"role":"assistant","content":[{"type":"text","text":"The answer:"}]}]`, ``},
		{"messages in a row are one", []*host.Message{host.UserText("a"), host.UserText("b"), host.AssistantText("c"), host.AssistantText("d")},
			`[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},{"role":"assistant","content":[{"type":"text","text":"c"},{"type":"text","text":"d"}]}]`, ``},
		{"media", []*host.Message{host.NewMessage(host.User, &host.Text{Text: "See:"}, &host.Media{MediaType: "image/png", Data: []byte("x")},
			&host.Media{MediaType: "application/pdf", URL: "https://a.example/b.pdf"}, &host.Data{Value: json.RawMessage(`{"a":1}`)})},
			`[{"role":"user","content":[{"type":"text","text":"See:"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"eA=="}},
			  {"type":"document","source":{"type":"url","url":"https://a.example/b.pdf"}},{"type":"text","text":"{\"a\":1}"}]}]`, ``},
		{"what is empty is left out", []*host.Message{host.UserText("hi"), host.NewMessage(host.Assistant), host.NewMessage(host.User), host.AssistantText("")},
			`[{"role":"user","content":[{"type":"text","text":"hi"}]}]`, ``},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, _, err := sent(t, anthropicmodel.Options{}, &llm.Request{Messages: tt.messages})
			if err != nil {
				t.Fatal(err)
			}
			modeltest.CheckMember(t, got, "messages", tt.want)
			modeltest.CheckMember(t, got, "system", tt.system)
		})
	}
}

func TestRequestFields(t *testing.T) {
	look := llm.ToolSpec{Name: "look", Description: "Looks.", Parameters: json.RawMessage(`{"type":"object"}`)}
	warm := 0.7
	for _, tt := range []struct {
		name    string
		opts    anthropicmodel.Options
		req     llm.Request
		want    string
		without []string
	}{
		{"the least", anthropicmodel.Options{}, llm.Request{}, `{"model":"m1","stream":true,"max_tokens":8192}`,
			[]string{"system", "tools", "tool_choice", "temperature", "thinking"}},
		{"tools", anthropicmodel.Options{}, llm.Request{Tools: []llm.ToolSpec{look, {Name: "ping"}}},
			`{"tools":[{"name":"look","description":"Looks.","input_schema":{"type":"object"}},{"name":"ping","input_schema":{"type":"object","properties":{}}}]}`, []string{"tool_choice"}},
		{"tools of the provider, as declared, and not those of others", anthropicmodel.Options{}, llm.Request{Tools: []llm.ToolSpec{look}, ToolChoice: "web_search", ProviderTools: []host.ProviderTool{
			{Provider: "openai", Declaration: json.RawMessage(`{"type":"x"}`)}, {Provider: "anthropic", Declaration: json.RawMessage(`{"type":"web_search_20250305","name":"web_search","later":[1]}`)}}},
			`{"tools":[{"name":"look","description":"Looks.","input_schema":{"type":"object"}},{"type":"web_search_20250305","name":"web_search","later":[1]}],"tool_choice":{"type":"tool","name":"web_search"}}`, nil},
		{"another provider's tool alone", anthropicmodel.Options{}, llm.Request{ToolChoice: host.ToolChoiceAny, ProviderTools: []host.ProviderTool{{Provider: "openai", Declaration: json.RawMessage(`{"type":"x"}`)}}},
			`{}`, []string{"tools", "tool_choice"}},
		{"choice auto", anthropicmodel.Options{}, llm.Request{Tools: []llm.ToolSpec{look}, ToolChoice: host.ToolChoiceAuto}, `{"tool_choice":{"type":"auto"}}`, nil},
		{"choice any", anthropicmodel.Options{}, llm.Request{Tools: []llm.ToolSpec{look}, ToolChoice: host.ToolChoiceAny}, `{"tool_choice":{"type":"any"}}`, nil},
		{"choice none", anthropicmodel.Options{}, llm.Request{Tools: []llm.ToolSpec{look}, ToolChoice: host.ToolChoiceNone, SerialTools: true}, `{"tool_choice":{"type":"none"}}`, nil},
		{"choice of one tool, serially", anthropicmodel.Options{}, llm.Request{Tools: []llm.ToolSpec{look}, ToolChoice: "look", SerialTools: true},
			`{"tool_choice":{"type":"tool","name":"look","disable_parallel_tool_use":true}}`, nil},
		{"serially", anthropicmodel.Options{}, llm.Request{Tools: []llm.ToolSpec{look}, SerialTools: true}, `{"tool_choice":{"type":"auto","disable_parallel_tool_use":true}}`, nil},
		{"a choice without tools", anthropicmodel.Options{}, llm.Request{ToolChoice: host.ToolChoiceAny}, `{}`, []string{"tool_choice"}},
		{"temperature and tokens", anthropicmodel.Options{MaxOutputTokens: 5}, llm.Request{Temperature: &warm, MaxOutputTokens: 100}, `{"temperature":0.7,"max_tokens":100}`, nil},
		{"tokens of the options", anthropicmodel.Options{MaxOutputTokens: 5}, llm.Request{}, `{"max_tokens":5}`, nil},
		{"no thinking where a tool must be called", anthropicmodel.Options{ThinkingTokens: 2000}, llm.Request{Tools: []llm.ToolSpec{look}, ToolChoice: host.ToolChoiceAny, Temperature: &warm},
			`{"max_tokens":8192,"tool_choice":{"type":"any"},"temperature":0.7}`, []string{"thinking"}},
		{"thinking", anthropicmodel.Options{ThinkingTokens: 2000}, llm.Request{Temperature: &warm, MaxOutputTokens: 100},
			`{"thinking":{"type":"enabled","budget_tokens":2000},"max_tokens":2100}`, []string{"temperature"}},
		{"an output is asked for in words", anthropicmodel.Options{}, llm.Request{Output: &llm.OutputSpec{Name: "x", Schema: json.RawMessage(`{"type":"object"}`)}},
			`{"system":[{"type":"text","text":"Answer with nothing but JSON of this schema: {\"type\":\"object\"}"}]}`, nil},
		{"parameters", anthropicmodel.Options{}, llm.Request{Temperature: &warm, Parameters: host.Parameters{"top_p": json.RawMessage(`0.5`), "top_k": json.RawMessage(`7`), "stop_sequences": json.RawMessage(`["END"]`), "temperature": json.RawMessage(`0.1`), "metadata": json.RawMessage(`{"user_id":"x"}`)}},
			`{"top_p":0.5,"top_k":7,"stop_sequences":["END"],"temperature":0.1,"metadata":{"user_id":"x"},"model":"m1","stream":true,"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}`, nil},
		{"cache", anthropicmodel.Options{Cache: true}, llm.Request{Tools: []llm.ToolSpec{look, look}},
			`{"messages":[{"role":"user","content":[{"type":"text","text":"hi","cache_control":{"type":"ephemeral"}}]}],
			  "tools":[{"name":"look","description":"Looks.","input_schema":{"type":"object"}},{"name":"look","description":"Looks.","input_schema":{"type":"object"},"cache_control":{"type":"ephemeral"}}]}`, nil},
		{"cache of one request", anthropicmodel.Options{}, llm.Request{Parameters: host.Parameters{"prompt_cache": json.RawMessage(`{"key":"a","long":true}`), "top_k": json.RawMessage(`7`)}},
			`{"top_k":7,"messages":[{"role":"user","content":[{"type":"text","text":"hi","cache_control":{"type":"ephemeral","ttl":"1h"}}]}]}`, []string{"prompt_cache"}},
		{"no cache for one request", anthropicmodel.Options{Cache: true}, llm.Request{Parameters: host.Parameters{"prompt_cache": json.RawMessage(`{"off":true}`)}},
			`{"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}`, []string{"prompt_cache"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.req.Messages = []*host.Message{host.UserText("hi")}
			got, _, err := sent(t, tt.opts, &tt.req)
			if err != nil {
				t.Fatal(err)
			}
			modeltest.CheckFields(t, got, tt.want, tt.without)
		})
	}
}

func TestHeaders(t *testing.T) {
	_, r, err := sent(t, anthropicmodel.Options{Server: modelhttp.Options{APIKey: modeltest.Key, Headers: http.Header{"anthropic-beta": {"tomorrow"}}}}, modeltest.Question("hi"))
	if err != nil {
		t.Fatal(err)
	}
	if r.URL.String() != "https://api.anthropic.com/v1/messages" || r.Method != http.MethodPost {
		t.Errorf("%s %s", r.Method, r.URL)
	}
	for name, want := range map[string]string{
		"X-Api-Key": modeltest.Key, "Anthropic-Version": "2023-06-01", "Anthropic-Beta": "tomorrow", "Content-Type": "application/json", "Authorization": "",
	} {
		if got := r.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

func TestRefusedBeforeItIsSent(t *testing.T) {
	for name, messages := range map[string][]*host.Message{
		"nothing":         nil,
		"only a system":   {host.NewMessage(host.System, &host.Text{Text: "x"})},
		"sound":           {host.NewMessage(host.User, &host.Media{MediaType: "audio/mpeg", Data: []byte("x")})},
		"an unknown role": {host.NewMessage("judge", &host.Text{Text: "x"})},
	} {
		if _, _, err := sent(t, anthropicmodel.Options{}, &llm.Request{Messages: messages}); host.CodeOf(err) != host.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The provider does not let a model think that goes on with an answer.
func TestNoThinkingInAPrefill(t *testing.T) {
	got, _, err := sent(t, anthropicmodel.Options{ThinkingTokens: 2000}, &llm.Request{Messages: []*host.Message{host.UserText("hi"), host.AssistantText("The answer:")}})
	if err != nil || got["thinking"] != nil || got["max_tokens"] != 8192.0 {
		t.Errorf("thinking %v, max_tokens %v, %v", got["thinking"], got["max_tokens"], err)
	}
}
