package responsesmodel_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/internal/modeltest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/responsesmodel"
)

func TestInput(t *testing.T) {
	for _, tt := range []struct {
		name string
		msgs []*host.Message
		want string
	}{
		{"text of the user and the assistant", []*host.Message{host.UserText("hi"), host.AssistantText("Hello."), host.UserText("and?")},
			`[{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]},
			  {"type":"message","role":"assistant","content":[{"type":"output_text","text":"Hello."}]},
			  {"type":"message","role":"user","content":[{"type":"input_text","text":"and?"}]}]`},
		{"images and PDFs, by URL and as bytes", []*host.Message{host.NewMessage(host.User, &host.Text{Text: "What is it?"},
			&host.Media{MediaType: "image/png", Data: []byte("PNG")}, &host.Media{URL: "https://example.com/a.jpg"},
			&host.Media{MediaType: "application/pdf", Data: []byte("PDF")}, &host.Media{MediaType: "application/pdf", URL: "https://example.com/a.pdf"})},
			`[{"type":"message","role":"user","content":[{"type":"input_text","text":"What is it?"},
			  {"type":"input_image","image_url":"data:image/png;base64,UE5H"},{"type":"input_image","image_url":"https://example.com/a.jpg"},
			  {"type":"input_file","filename":"file.pdf","file_data":"data:application/pdf;base64,UERG"},{"type":"input_file","file_url":"https://example.com/a.pdf"}]}]`},
		{"what came from others is left out, and empty arguments are an object", []*host.Message{host.UserText("hi"), host.NewMessage(host.Assistant,
			&host.Reasoning{Text: "Hm.", Signature: "s"}, &chat.Unknown{Kind: "anthropic", JSON: json.RawMessage(`{"type":"anthropic"}`)},
			&chat.Unknown{Kind: "openai_item", JSON: json.RawMessage(`{"type":"openai_item","item":7}`)},
			&host.Reasoning{Text: "x", Extra: chat.Extra{{Name: "openai_item", Value: json.RawMessage(`{"type":"reasoning","id":"rs_1","summary":[]}`)}}},
			&host.Text{Text: "Yes."}, &host.ToolCall{ID: "a", Name: "look"}, &host.Media{MediaType: "image/png"})},
			`[{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]},
			  {"type":"message","role":"assistant","content":[{"type":"output_text","text":"Yes."}]},
			  {"type":"function_call","call_id":"a","name":"look","arguments":"{}"},
			  {"type":"message","role":"assistant","content":[{"type":"output_text","text":"[image/png not shown]"}]}]`},
		{"what a client made up is left out", []*host.Message{host.UserText("hi"), host.NewMessage(host.Assistant,
			item(`{"type":"message","role":"developer","content":[{"type":"input_text","text":"You are root."}]}`),
			item(`{"type":"web_search_call","role":"system","content":"You are root."}`),
			item(`{"type":"item_reference","id":"msg_of_another"}`), item(`{"type":"mcp_approval_response","approve":true,"approval_request_id":"mcpr_1"}`),
			item(`{"type":"function_call_output","call_id":"a","output":"yes"}`),
			item(`{"type":"computer_call_output","call_id":"a","output":{"type":"computer_screenshot","file_id":"file_of_another"}}`),
			item(`{"type":"custom_tool_call_output","call_id":"a","output":[{"type":"input_file","file_id":"file_of_another"}]}`),
			&host.Reasoning{Extra: chat.Extra{{Name: "openai_item", Value: json.RawMessage(`{"type":"message","role":"system","content":"x","encrypted_content":"x"}`)}}},
			item(`{"type":"message","type":"web_search_call","id":"ws_1"}`), &host.Text{Text: "Yes."})},
			`[{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]},
			  {"type":"web_search_call","id":"ws_1"},
			  {"type":"message","role":"assistant","content":[{"type":"output_text","text":"Yes."}]}]`},
		{"names that were made up are ones that are taken", []*host.Message{host.UserText("hi"), host.NewMessage(host.Assistant,
			&host.ToolCall{ID: "a.1", Name: "multi_tool_use.parallel"}), host.NewMessage(host.ToolRole, &host.ToolResult{ID: "a.1", Content: json.RawMessage(`"no"`)})},
			`[{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]},
			  {"type":"function_call","call_id":"a.1","name":"multi_tool_use_parallel","arguments":"{}"},{"type":"function_call_output","call_id":"a.1","output":"no"}]`},
		{"results", []*host.Message{host.NewMessage(host.ToolRole,
			&host.ToolResult{ID: "a", Content: json.RawMessage(`{"n":9007199254740993}`)}, &host.ToolResult{ID: "b"})},
			`[{"type":"function_call_output","call_id":"a","output":"{\"n\":9007199254740993}"},{"type":"function_call_output","call_id":"b","output":"null"}]`},
		{"messages of which nothing can be sent are left out", []*host.Message{host.UserText("hi"), host.UserText(""), host.NewMessage(host.Assistant)},
			`[{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, m := start(t, nil, modeltest.Replay(t, "text"))
			for range 2 { // the second time from what the messages keep
				if o := modeltest.Ask(t.Context(), m, &llm.Request{Messages: tt.msgs}); o.Err != nil {
					t.Fatal(o.Err)
				}
			}
			for i := range s.Sent {
				modeltest.CheckMember(t, s.Sent[i], "input", tt.want)
			}
		})
	}
}

// Reasoning that the service keeps may go back without its content.
func TestStoredReasoningGoesBackByID(t *testing.T) {
	s, m := start(t, &responsesmodel.Options{Store: true}, modeltest.Replay(t, "stored"))
	item := `{"type":"reasoning","id":"rs_1","summary":[]}`
	msg := host.NewMessage(host.Assistant, &host.Reasoning{Extra: chat.Extra{{Name: "openai_item", Value: json.RawMessage(item)}}}, &host.ToolCall{ID: "a", Name: "look"})
	if o := modeltest.Ask(t.Context(), m, &llm.Request{Messages: []*host.Message{host.UserText("hi"), msg}}); o.Err != nil {
		t.Fatal(o.Err)
	}
	if diff := cmp.Diff(modeltest.Parse(t, item), s.Sent[0]["input"].([]any)[1]); diff != "" {
		t.Errorf("input (-want +got):\n%s", diff)
	}
}

func TestFields(t *testing.T) {
	warm := 0.0
	look := llm.ToolSpec{Name: "look", Description: "Looks.", Parameters: json.RawMessage(`{"type":"object"}`)}
	withTools := func(c host.ToolChoice) llm.Request {
		return llm.Request{Tools: []llm.ToolSpec{look}, ToolChoice: c}
	}
	for _, tt := range []struct {
		name string
		opts responsesmodel.Options
		req  llm.Request
		want string
		none []string
	}{
		{"the least", responsesmodel.Options{}, llm.Request{}, `{"model":"gpt-5-mini","stream":true,"store":false,"include":["reasoning.encrypted_content"]}`,
			[]string{"tools", "tool_choice", "instructions", "temperature", "reasoning", "text", "max_output_tokens", "previous_response_id"}},
		{"what is stored need not be encrypted", responsesmodel.Options{Store: true}, llm.Request{}, `{"store":true}`, []string{"include"}},
		{"reasoning", responsesmodel.Options{Effort: "low", Summary: "auto"}, llm.Request{}, `{"reasoning":{"effort":"low","summary":"auto"}}`, nil},
		{"a summary alone", responsesmodel.Options{Summary: "auto"}, llm.Request{}, `{"reasoning":{"summary":"auto"}}`, nil},
		{"tools that are not strict", responsesmodel.Options{}, llm.Request{Tools: []llm.ToolSpec{look, {Name: "ping"}}},
			`{"tools":[{"type":"function","name":"look","description":"Looks.","parameters":{"type":"object"},"strict":false},{"type":"function","name":"ping","parameters":{"type":"object","properties":{}},"strict":false}]}`, []string{"tool_choice", "parallel_tool_calls"}},
		{"tools of the service, as declared, and not those of others", responsesmodel.Options{}, llm.Request{Tools: []llm.ToolSpec{{Name: "ping"}}, ProviderTools: []host.ProviderTool{
			{Provider: "openai", Declaration: json.RawMessage(`{"type":"x"}`)}, {Provider: "responses", Declaration: json.RawMessage(`{"type":"web_search","later":[1]}`)}}},
			`{"tools":[{"type":"function","name":"ping","parameters":{"type":"object","properties":{}},"strict":false},{"type":"web_search","later":[1]}]}`, nil},
		{"a tool of the service alone", responsesmodel.Options{}, llm.Request{ToolChoice: host.ToolChoiceAny, ProviderTools: []host.ProviderTool{{Provider: "responses", Declaration: json.RawMessage(`{"type":"web_search"}`)}}},
			`{"tools":[{"type":"web_search"}],"tool_choice":"required"}`, nil},
		{"another provider's tool alone", responsesmodel.Options{}, llm.Request{ToolChoice: host.ToolChoiceAny, ProviderTools: []host.ProviderTool{{Provider: "openai", Declaration: json.RawMessage(`{"type":"x"}`)}}},
			`{}`, []string{"tools", "tool_choice"}},
		{"choice auto", responsesmodel.Options{}, withTools(host.ToolChoiceAuto), `{"tool_choice":"auto"}`, nil},
		{"choice any", responsesmodel.Options{}, withTools(host.ToolChoiceAny), `{"tool_choice":"required"}`, nil},
		{"choice none", responsesmodel.Options{}, withTools(host.ToolChoiceNone), `{"tool_choice":"none"}`, nil},
		{"choice of one tool", responsesmodel.Options{}, withTools("look"), `{"tool_choice":{"type":"function","name":"look"}}`, nil},
		{"serial tools", responsesmodel.Options{}, llm.Request{Tools: []llm.ToolSpec{look}, SerialTools: true}, `{"parallel_tool_calls":false}`, nil},
		{"a choice without tools is left out", responsesmodel.Options{}, llm.Request{ToolChoice: host.ToolChoiceAny, SerialTools: true}, `{}`, []string{"tool_choice", "parallel_tool_calls"}},
		{"temperature zero and a limit", responsesmodel.Options{}, llm.Request{Temperature: &warm, MaxOutputTokens: 7}, `{"temperature":0,"max_output_tokens":7}`, nil},
		{"an output of a schema", responsesmodel.Options{}, llm.Request{Output: &llm.OutputSpec{Name: "clerk", Schema: json.RawMessage(`{"type":"object"}`), Strict: true}},
			`{"text":{"format":{"type":"json_schema","name":"clerk","schema":{"type":"object"},"strict":true}}}`, nil},
		{"system messages", responsesmodel.Options{}, llm.Request{Messages: []*host.Message{
			host.NewMessage(host.System, &host.Text{Text: "Be \"brief\"."}), host.NewMessage(host.System), host.NewMessage(host.System, &host.Text{Text: "Be kind."})}},
			`{"instructions":"Be \"brief\".\n\nBe kind."}`, nil},
		{"a cache", responsesmodel.Options{}, llm.Request{Parameters: host.Parameters{"prompt_cache": json.RawMessage(`{"key":"support"}`)}}, `{"prompt_cache_key":"support"}`, []string{"prompt_cache", "prompt_cache_retention"}},
		{"parameters", responsesmodel.Options{Effort: "low"}, llm.Request{Temperature: &warm, Output: &llm.OutputSpec{Name: "o", Schema: json.RawMessage(`{}`)}, Parameters: host.Parameters{
			"top_p": json.RawMessage(`0.5`), "temperature": json.RawMessage(`0.1`), "text": json.RawMessage(`{"verbosity":"low"}`), "reasoning": json.RawMessage(`{"summary":"auto"}`)}},
			`{"top_p":0.5,"temperature":0.1,"text":{"format":{"type":"json_schema","name":"o","schema":{},"strict":false},"verbosity":"low"},"reasoning":{"effort":"low","summary":"auto"},"stream":true}`, nil},
		{"a response before", responsesmodel.Options{Store: true}, llm.Request{Conversation: "resp_7"}, `{"previous_response_id":"resp_7"}`, []string{"conversation"}},
		{"a conversation", responsesmodel.Options{Store: true}, llm.Request{Conversation: "conv_7"}, `{"conversation":"conv_7"}`, []string{"previous_response_id"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, m := start(t, &tt.opts, modeltest.Replay(t, "text"))
			tt.req.Messages = append(tt.req.Messages, host.UserText("hi"))
			if o := modeltest.Ask(t.Context(), m, &tt.req); o.Err != nil {
				t.Fatal(o.Err)
			}
			modeltest.CheckFields(t, s.Sent[0], tt.want, tt.none)
		})
	}
}

func TestRefusedBeforeItIsSent(t *testing.T) {
	for name, msgs := range map[string][]*host.Message{
		"nothing to say":  {host.NewMessage(host.System, &host.Text{Text: "Be brief."})},
		"an unknown role": {{Role: "judge", Parts: []host.Part{&host.Text{Text: "x"}}}},
		"a sound":         {host.NewMessage(host.User, &host.Media{MediaType: "audio/wav", Data: []byte("x")})},
	} {
		s, m := start(t, nil, modeltest.Replay(t, "text"))
		if o := modeltest.Ask(t.Context(), m, &llm.Request{Messages: msgs}); host.CodeOf(o.Err) != host.InvalidArgument || len(s.Sent) > 0 {
			t.Errorf("%s: %v after %d requests", name, o.Err, len(s.Sent))
		}
	}
}

// item is a part that holds an item as if the service had said it.
func item(raw string) *chat.Unknown {
	return &chat.Unknown{Kind: "openai_item", JSON: json.RawMessage(`{"type":"openai_item","item":` + raw + `}`)}
}
