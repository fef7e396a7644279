package geminimodel_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/geminimodel"
	"github.com/agenthost/agenthost/host/internal/modeltest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/modelhttp"
)

// sent returns what a model sends for a request.
func sent(t *testing.T, opts geminimodel.Options, req *llm.Request) (map[string]any, *http.Request, error) {
	t.Helper()
	return modeltest.Sent(t, req, func(client *http.Client) llm.Model {
		opts.Server.HTTPClient, opts.Server.MaxRetries = client, -1
		return modelWith(t, "models/gemini-x", opts)
	})
}

func call(id, name, arguments string) *host.ToolCall {
	return &host.ToolCall{ID: id, Name: name, Arguments: json.RawMessage(arguments)}
}

const hi = `{"role":"user","parts":[{"text":"hi"}]}`

func TestContents(t *testing.T) {
	result := func(id, content string, isError bool) *host.Message {
		return host.NewMessage(host.ToolRole, &host.ToolResult{ID: id, Name: "look", Content: json.RawMessage(content), IsError: isError})
	}
	system := func(text string) *host.Message { return host.NewMessage(host.System, &host.Text{Text: text}) }
	for _, tt := range []struct {
		name     string
		messages []*host.Message
		want     string
		system   string
	}{
		{"system messages are the instruction", []*host.Message{system("Be brief."), host.UserText("hi"), host.AssistantText("Hello."), system("Be kind."), host.UserText("and?")},
			`[` + hi + `,{"role":"model","parts":[{"text":"Hello."}]},{"role":"user","parts":[{"text":"and?"}]}]`, `{"parts":[{"text":"Be brief.\n\nBe kind."}]}`},
		{"results of parallel calls are one content, and what is said is another", []*host.Message{host.UserText("hi"),
			host.NewMessage(host.Assistant, &host.Text{Text: "Looking."}, call("a.1", "look", `{"id":1}`), call("b", "look", ``)),
			result("a.1", `"found"`, false), result("b", `{"n":1}`, false), host.UserText("quick")},
			`[` + hi + `,{"role":"model","parts":[{"text":"Looking."},{"functionCall":{"id":"a.1","name":"look","args":{"id":1}}},{"functionCall":{"id":"b","name":"look","args":{}}}]},
			  {"role":"user","parts":[{"functionResponse":{"id":"a.1","name":"look","response":{"output":"found"}}},{"functionResponse":{"id":"b","name":"look","response":{"output":{"n":1}}}}]},
			  {"role":"user","parts":[{"text":"quick"}]}]`, ``},
		{"a result that is an error, and one that is nothing", []*host.Message{host.UserText("hi"), host.NewMessage(host.Assistant, call("a", "look", `"{broken"`), call("b", "look", `[1]`)), result("a", `"no"`, true), result("b", ``, false)},
			`[` + hi + `,{"role":"model","parts":[{"functionCall":{"id":"a","name":"look","args":{"value":"{broken"}}},{"functionCall":{"id":"b","name":"look","args":{"value":[1]}}}]},
			  {"role":"user","parts":[{"functionResponse":{"id":"a","name":"look","response":{"error":"no"}}},{"functionResponse":{"id":"b","name":"look","response":{"output":""}}}]}]`, ``},
		{"ids that the host made are not sent", []*host.Message{host.UserText("hi"), host.NewMessage(host.Assistant, call(geminimodel.MadeID+"7", "look", `{}`)), result(geminimodel.MadeID+"7", `1`, false)},
			`[` + hi + `,{"role":"model","parts":[{"functionCall":{"name":"look","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"name":"look","response":{"output":1}}}]}]`, ``},
		{"a result that does not name its tool has the name of its call", []*host.Message{host.UserText("hi"), host.NewMessage(host.Assistant, call("a", "fetch", `{}`)), host.NewMessage(host.ToolRole, &host.ToolResult{ID: "a", Content: json.RawMessage(`1`)})},
			`[` + hi + `,{"role":"model","parts":[{"functionCall":{"id":"a","name":"fetch","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"id":"a","name":"fetch","response":{"output":1}}}]}]`, ``},
		{"names that were made up are ones that are taken", []*host.Message{host.UserText("hi"), host.NewMessage(host.Assistant, call("a", "multi_tool_use.parallel", `{}`)), result("a", `1`, false)},
			`[` + hi + `,{"role":"model","parts":[{"functionCall":{"id":"a","name":"multi_tool_use_parallel","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"id":"a","name":"look","response":{"output":1}}}]}]`, ``},
		{"a conversation that begins with an answer", []*host.Message{host.AssistantText("Hello."), host.UserText("hi")},
			`[{"role":"user","parts":[{"text":"(The conversation goes on.)"}]},{"role":"model","parts":[{"text":"Hello."}]},` + hi + `]`, ``},
		{"messages in a row are one", []*host.Message{host.UserText("a"), host.UserText("b"), host.AssistantText("c"), host.AssistantText("d")},
			`[{"role":"user","parts":[{"text":"a"},{"text":"b"}]},{"role":"model","parts":[{"text":"c"},{"text":"d"}]}]`, ``},
		{"media", []*host.Message{host.NewMessage(host.User, &host.Text{Text: "See:"}, &host.Media{MediaType: "audio/mpeg", Data: []byte("x")},
			&host.Media{MediaType: "application/pdf", URL: "https://a.example/b.pdf"}, &host.Media{URL: "https://www.youtube.com/watch?v=1"}, &host.Data{Value: json.RawMessage(`{"a":1}`)}),
			host.NewMessage(host.Assistant, &host.Media{MediaType: "image/png", Data: []byte("y"), Extra: signed("s")}, &host.Media{MediaType: "image/png", URL: "https://a.example/c.png"})},
			`[{"role":"user","parts":[{"text":"See:"},{"inlineData":{"mimeType":"audio/mpeg","data":"eA=="}},{"fileData":{"mimeType":"application/pdf","fileUri":"https://a.example/b.pdf"}},
			  {"fileData":{"fileUri":"https://www.youtube.com/watch?v=1"}},{"text":"{\"a\":1}"}]},
			  {"role":"model","parts":[{"inlineData":{"mimeType":"image/png","data":"eQ=="},"thoughtSignature":"s"},{"text":"[image/png not shown]"}]}]`, ``},
		{"signatures go back with their parts, and thoughts only with one", []*host.Message{host.UserText("hi"), host.NewMessage(host.Assistant,
			&host.Reasoning{Text: "Hm.", Extra: signed("s1")}, &host.Reasoning{Text: "Another's.", Signature: "x"}, &host.Text{Text: "Yes.", Extra: signed("s2")},
			&host.ToolCall{ID: "a", Name: "look", Extra: signed("s3")}, foreign(`{"text":"","thoughtSignature":"s4"}`)), result("a", `1`, false)},
			`[` + hi + `,{"role":"model","parts":[{"thought":true,"text":"Hm.","thoughtSignature":"s1"},{"text":"Yes.","thoughtSignature":"s2"},
			  {"functionCall":{"id":"a","name":"look","args":{}},"thoughtSignature":"s3"},{"text":"","thoughtSignature":"s4"}]},
			  {"role":"user","parts":[{"functionResponse":{"id":"a","name":"look","response":{"output":1}}}]}]`, ``},
		{"parts that are not known go back, and those that no answer has stay", []*host.Message{host.UserText("hi"), host.NewMessage(host.Assistant,
			foreign(`{"executableCode":{"language":"PYTHON","code":"print(1)"}}`), foreign(`{"fileData":{"fileUri":"files/of-another"}}`), foreign(`{"file_data":{}}`), foreign(`{"x":1,"FileData":{}}`),
			foreign(`{"functionResponse":{}}`), foreign(`{"functionCall":{}}`), foreign(`{"inlineData":{}}`), foreign(`{"text":"x"}`), foreign(`{"text":"x","text":""}`), foreign(`1`), foreign(`{}`), foreign(`null`),
			&chat.Unknown{Kind: "odd", JSON: json.RawMessage(`{"type":"odd"}`)}, &host.Text{Text: "Yes."}),
			host.NewMessage(host.User, foreign(`{"executableCode":{}}`), &host.Text{Text: "and?"})},
			`[` + hi + `,{"role":"model","parts":[{"executableCode":{"language":"PYTHON","code":"print(1)"}},{"text":""},{"text":"Yes."}]},{"role":"user","parts":[{"text":"and?"}]}]`, ``},
		{"what is empty is left out", []*host.Message{host.UserText("hi"), host.NewMessage(host.Assistant), host.NewMessage(host.User), host.AssistantText("")}, `[` + hi + `]`, ``},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, _, err := sent(t, geminimodel.Options{}, &llm.Request{Messages: tt.messages})
			if err != nil {
				t.Fatal(err)
			}
			modeltest.CheckMember(t, got, "contents", tt.want)
			modeltest.CheckMember(t, got, "systemInstruction", tt.system)
		})
	}
}

func TestRequestFields(t *testing.T) {
	look := llm.ToolSpec{Name: "look", Description: "Looks.", Parameters: json.RawMessage(`{"type":"object","properties":{"id":{"type":"integer"}}}`)}
	const lookWire = `{"name":"look","description":"Looks.","parametersJsonSchema":{"type":"object","properties":{"id":{"type":"integer"}}}}`
	warm := 0.7
	for _, tt := range []struct {
		name    string
		opts    geminimodel.Options
		req     llm.Request
		want    string
		without []string
	}{
		{"the least", geminimodel.Options{}, llm.Request{}, `{}`, []string{"systemInstruction", "tools", "toolConfig", "generationConfig"}},
		{"tools", geminimodel.Options{}, llm.Request{SerialTools: true, Tools: []llm.ToolSpec{look, {Name: "ping"}, {Name: "pong", Parameters: json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`)}, {Name: "any", Parameters: json.RawMessage(`{"type":"object","anyOf":[{}]}`)}}},
			`{"tools":[{"functionDeclarations":[` + lookWire + `,{"name":"ping"},{"name":"pong"},{"name":"any","parametersJsonSchema":{"type":"object","anyOf":[{}]}}]}]}`, []string{"toolConfig"}},
		{"tools of the provider, as declared, and not those of others", geminimodel.Options{}, llm.Request{Tools: []llm.ToolSpec{look}, ToolChoice: host.ToolChoiceAuto, ProviderTools: []host.ProviderTool{
			{Provider: "openai", Declaration: json.RawMessage(`{"type":"x"}`)}, {Provider: "gemini", Declaration: json.RawMessage(`{"googleSearch":{}}`)}}},
			`{"tools":[{"functionDeclarations":[` + lookWire + `]},{"googleSearch":{}}],"toolConfig":{"functionCallingConfig":{"mode":"AUTO"}}}`, nil},
		{"choice any", geminimodel.Options{}, llm.Request{Tools: []llm.ToolSpec{look}, ToolChoice: host.ToolChoiceAny}, `{"toolConfig":{"functionCallingConfig":{"mode":"ANY"}}}`, nil},
		{"choice none", geminimodel.Options{}, llm.Request{Tools: []llm.ToolSpec{look}, ToolChoice: host.ToolChoiceNone}, `{"toolConfig":{"functionCallingConfig":{"mode":"NONE"}}}`, nil},
		{"choice of one tool", geminimodel.Options{}, llm.Request{Tools: []llm.ToolSpec{look}, ToolChoice: "look"}, `{"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["look"]}}}`, nil},
		{"a choice without tools", geminimodel.Options{}, llm.Request{ToolChoice: host.ToolChoiceAny}, `{}`, []string{"toolConfig"}},
		{"temperature, tokens and thinking", geminimodel.Options{ThinkingTokens: 512, Thoughts: true}, llm.Request{Temperature: &warm, MaxOutputTokens: 100},
			`{"generationConfig":{"temperature":0.7,"maxOutputTokens":100,"thinkingConfig":{"thinkingBudget":512,"includeThoughts":true}}}`, nil},
		{"parameters", geminimodel.Options{}, llm.Request{Temperature: &warm, Parameters: host.Parameters{
			"generationConfig": json.RawMessage(`{"topP":0.5,"seed":7,"stopSequences":["END"],"temperature":0.1}`), "safetySettings": json.RawMessage(`[]`)}},
			`{"generationConfig":{"topP":0.5,"seed":7,"stopSequences":["END"],"temperature":0.1},"safetySettings":[],"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`, nil},
		{"a cache, which it has by itself", geminimodel.Options{}, llm.Request{Parameters: host.Parameters{"prompt_cache": json.RawMessage(`{"key":"support"}`)}}, `{}`, []string{"prompt_cache"}},
		{"parameters alone", geminimodel.Options{}, llm.Request{Parameters: host.Parameters{"labels": json.RawMessage(`{"a":"b"}`)}},
			`{"labels":{"a":"b"},"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`, []string{"generationConfig"}},
		{"no thinking", geminimodel.Options{ThinkingTokens: geminimodel.DoNotThink}, llm.Request{}, `{"generationConfig":{"thinkingConfig":{"thinkingBudget":0}}}`, nil},
		{"thinking as needed", geminimodel.Options{ThinkingTokens: geminimodel.ThinkAsNeeded}, llm.Request{}, `{"generationConfig":{"thinkingConfig":{"thinkingBudget":-1}}}`, nil},
		{"effort", geminimodel.Options{Effort: "low"}, llm.Request{}, `{"generationConfig":{"thinkingConfig":{"thinkingLevel":"low"}}}`, nil},
		{"an output", geminimodel.Options{}, llm.Request{Output: &llm.OutputSpec{Name: "o", Schema: json.RawMessage(`{"type":"object"}`)}},
			`{"generationConfig":{"responseMimeType":"application/json","responseJsonSchema":{"type":"object"}}}`, []string{"systemInstruction"}},
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

func TestAddressAndHeaders(t *testing.T) {
	for base, want := range map[string]string{
		"":                                    "https://generativelanguage.googleapis.com/v1beta/models/gemini-x:streamGenerateContent?alt=sse",
		"http://gateway.example/a%2Fb?team=7": "http://gateway.example/a%2Fb/models/gemini-x:streamGenerateContent?team=7&alt=sse",
	} {
		_, r, err := sent(t, geminimodel.Options{Server: modelhttp.Options{BaseURL: base, APIKey: modeltest.Key, Headers: http.Header{"x-team": {"blue"}}}}, modeltest.Question("hi"))
		if err != nil {
			t.Fatal(err)
		}
		if r.URL.String() != want || r.Method != http.MethodPost {
			t.Errorf("%s %s, want a POST to %s", r.Method, r.URL, want)
		}
		for name, want := range map[string]string{"X-Goog-Api-Key": modeltest.Key, "X-Team": "blue", "Content-Type": "application/json", "Authorization": ""} {
			if got := r.Header.Get(name); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
	}
}

func TestRefusedBeforeItIsSent(t *testing.T) {
	user := func(p host.Part) []*host.Message { return []*host.Message{host.NewMessage(host.User, p)} }
	for name, messages := range map[string][]*host.Message{
		"nothing":                 nil,
		"only a system":           {host.NewMessage(host.System, &host.Text{Text: "x"})},
		"data of no type":         user(&host.Media{Data: []byte("x")}),
		"a file of the account's": user(&host.Media{URL: "https://generativelanguage.googleapis.com/v1beta/files/abc", MediaType: "image/png"}),
		"the same, in disguise":   user(&host.Media{URL: "https://GenerativeLanguage.googleapis.com.:443/v1beta/files/abc"}),
		"another of Google's":     user(&host.Media{URL: "https://storage.googleapis.com/bucket/x"}),
		"a bucket":                user(&host.Media{URL: "gs://bucket/x"}),
		"a name of a file":        user(&host.Media{URL: "files/abc"}),
		"an unknown role":         {host.NewMessage("judge", &host.Text{Text: "x"})},
	} {
		if _, _, err := sent(t, geminimodel.Options{}, &llm.Request{Messages: messages}); host.CodeOf(err) != host.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := sent(t, geminimodel.Options{Server: modelhttp.Options{BaseURL: "http://gateway.example"}}, &llm.Request{Messages: user(&host.Media{URL: "http://gateway.example/files/abc"})}); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("a file of the gateway's: %v", err)
	}
	if _, _, err := sent(t, geminimodel.Options{}, &llm.Request{Messages: user(&host.Text{Text: "hi"}), Conversation: "x"}); host.CodeOf(err) != host.FailedPrecondition {
		t.Errorf("a conversation that the service keeps: %v", err)
	}
}
