package anthropicmodel_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/anthropicmodel"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/internal/modeltest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/modelhttp"
)

// TestWhatWasThoughtGoesBack is the second round of a turn: thinking with its
// signature, redacted thinking and the provider's own tools go back as they came,
// also when the message was stored in between.
func TestWhatWasThoughtGoesBack(t *testing.T) {
	const results = `{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"shipped"},{"type":"tool_result","tool_use_id":"toolu_2","content":"There is no order 1043.","is_error":true}]}`
	for _, tt := range []struct {
		stream, reasoning string
		finish            host.FinishReason
		want              string
	}{
		{"tools", "An order is asked for.", chat.FinishToolCalls, `[{"type":"thinking","thinking":"An order is asked for.","signature":"EqQBCgIYAhIM1gbcDa9GJwZA2b3h"},
			{"type":"redacted_thinking","data":"EmwKAhgBEgy3va3pzix/LafPsn4"},{"type":"text","text":"Let me look."},
			{"type":"tool_use","id":"toolu_1","name":"lookup_order","input":{"order_id":1042}},{"type":"tool_use","id":"toolu_2","name":"lookup_order","input":{"order_id":1043}}]`},
		{"search", "", chat.FinishStop, `[{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"weather"}},
			{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[{"type":"web_search_result","url":"https://example.com","title":"Weather","encrypted_content":"Eo8CCioI","page_age":null}]},
			{"type":"text","text":"Rain."}]`},
	} {
		t.Run(tt.stream, func(t *testing.T) {
			p := &modeltest.Service{Answers: []http.HandlerFunc{modeltest.Replay(t, tt.stream)}}
			srv := httptest.NewServer(p)
			defer srv.Close()
			m := modelWith(t, anthropicmodel.Options{Server: modelhttp.Options{BaseURL: srv.URL}, ThinkingTokens: 2048})
			messages := []*host.Message{host.UserText("hi")}
			o := modeltest.Ask(t.Context(), m, &llm.Request{Messages: messages})
			if o.Err != nil || o.Reasoning != tt.reasoning || o.Response.FinishReason != tt.finish {
				t.Fatalf("%q, %+v, %v", o.Reasoning, o.Response, o.Err)
			}
			if want := (host.Usage{InputTokens: 46, OutputTokens: 87, CachedTokens: 12}); o.Response.Usage != want {
				t.Errorf("usage %+v, want %+v", o.Response.Usage, want)
			}
			messages = append(messages, modeltest.Stored(t, host.NewMessage(host.Assistant, o.Response.Parts...)), host.NewMessage(host.ToolRole,
				&host.ToolResult{ID: "toolu_1", Content: json.RawMessage(`"shipped"`)},
				&host.ToolResult{ID: "toolu_2", Content: json.RawMessage(`"There is no order 1043."`), IsError: true}))
			for range 2 { // the second time from what the messages keep
				modeltest.Ask(t.Context(), m, &llm.Request{Messages: messages})
			}
			want := `[{"role":"user","content":[{"type":"text","text":"hi"}]},{"role":"assistant","content":` + tt.want + `},` + results + `]`
			for _, got := range p.Sent[1:] {
				modeltest.CheckMember(t, got, "messages", want)
			}
		})
	}
}

// A signature that the provider does not take must not end a conversation.
func TestForeignThinkingIsLeftOut(t *testing.T) {
	p := &modeltest.Service{Answers: []http.HandlerFunc{
		modeltest.Answer(http.StatusBadRequest, "application/json", "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"messages.1.content.0: Invalid `signature` in `thinking` block\"}}"),
		modeltest.Replay(t, "search"),
	}}
	srv := httptest.NewServer(p)
	defer srv.Close()
	m := modelWith(t, anthropicmodel.Options{Server: modelhttp.Options{BaseURL: srv.URL}, ThinkingTokens: 2000})
	o := modeltest.Ask(t.Context(), m, &llm.Request{Messages: []*host.Message{host.UserText("hi"), host.NewMessage(host.Assistant, &host.Reasoning{Text: "Hm.", Signature: "another's"},
		&chat.Unknown{Kind: "anthropic", JSON: json.RawMessage(`{"type":"anthropic","block":{"type":"redacted_thinking","data":"x"}}`)}, &host.Text{Text: "Yes."}), host.UserText("and?")}})
	if o.Err != nil || o.Text != "Rain." || len(p.Sent) != 2 {
		t.Fatalf("%q, %v after %d requests", o.Text, o.Err, len(p.Sent))
	}
	modeltest.CheckMember(t, p.Sent[1], "messages", `[{"role":"user","content":[{"type":"text","text":"hi"}]},{"role":"assistant","content":[{"type":"text","text":"Yes."}]},{"role":"user","content":[{"type":"text","text":"and?"}]}]`)
	if p.Sent[0]["thinking"] == nil || p.Sent[1]["thinking"] != nil {
		t.Errorf("thinking %v, then %v", p.Sent[0]["thinking"], p.Sent[1]["thinking"])
	}
}

// What ends a request is not kept with its message: in the next one it ends
// nothing.
func TestMarksMoveOn(t *testing.T) {
	p := &modeltest.Service{Answers: []http.HandlerFunc{modeltest.Replay(t, "search")}}
	srv := httptest.NewServer(p)
	defer srv.Close()
	m := modelWith(t, anthropicmodel.Options{Server: modelhttp.Options{BaseURL: srv.URL}, Cache: true})
	hi, answer := host.UserText("hi"), host.AssistantText("Hello \n")
	for _, messages := range [][]*host.Message{{hi}, {hi, answer}, {hi, answer, host.UserText("and?")}} {
		modeltest.Ask(t.Context(), m, &llm.Request{Messages: messages})
	}
	mark := `,"cache_control":{"type":"ephemeral"}`
	for i, want := range []string{
		`[{"role":"user","content":[{"type":"text","text":"hi"` + mark + `}]}]`,
		`[{"role":"user","content":[{"type":"text","text":"hi"}]},{"role":"assistant","content":[{"type":"text","text":"Hello"` + mark + `}]}]`,
		`[{"role":"user","content":[{"type":"text","text":"hi"}]},{"role":"assistant","content":[{"type":"text","text":"Hello \n"}]},{"role":"user","content":[{"type":"text","text":"and?"` + mark + `}]}]`,
	} {
		modeltest.CheckMember(t, p.Sent[i], "messages", want)
	}
}

// FuzzStream reads any bytes as the provider's answer.
func FuzzStream(f *testing.F) {
	cachingModel.Fuzz(f, modeltest.CheckText,
		"", "<html>", `{"type":"error"}`, "data: "+started+"\n\n", `{"type":"message","content":[{"type":"text","text":"x"}],"stop_reason":"end_turn"}`,
		"event: x\ndata: "+strings.Join([]string{started, begin(0, `{"type":"tool_use","id":"a","name":"b","input":[]}`), grow(0, `{"type":"input_json_delta","partial_json":"["}`), because("tool_use"), stopped}, "\n\ndata: "),
		"data: "+strings.Join([]string{started, begin(0, `{"type":"what"}`), grow(0, `{"type":"input_json_delta","partial_json":"1"}`), because("x")}, "\ndata: "),
		`{"type":"message","content":[null,1,{}],"stop_reason":"end_turn"}`,
		"data: "+strings.Join([]string{started, begin(0, `{"type":"what"}`), grow(0, `{"type":"text_delta","text":"x"}`), because("x")}, "\ndata: "),
		"data: "+strings.Join([]string{started, begin(0, `{"type":"text"}`), grow(0, `{"type":"input_json_delta","partial_json":"x"}`), because("x")}, "\ndata: "),
		`{"type":"message","content":[{"type":"tool_use","input":7}],"stop_reason":"x"}`,
		`data: {"type":"content_block_start","index":7}`, `data: {"type":"content_block_delta","index":-1}`, `data: {"type":"message_delta"}`, `data: {}`)
}
