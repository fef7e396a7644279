package anthropicmodel_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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
			m, err := anthropicmodel.New("claude-sonnet-4-5", &anthropicmodel.Options{Server: modelhttp.Options{BaseURL: srv.URL}, ThinkingTokens: 2048})
			if err != nil {
				t.Fatal(err)
			}
			defer m.CloseIdleConnections()
			messages := []*host.Message{host.UserText("hi")}
			o := modeltest.Ask(t.Context(), m, &llm.Request{Messages: messages})
			if o.Err != nil || o.Reasoning != tt.reasoning || o.Response.FinishReason != tt.finish {
				t.Fatalf("%q, %+v, %v", o.Reasoning, o.Response, o.Err)
			}
			if want := (host.Usage{InputTokens: 46, OutputTokens: 87, CachedTokens: 12}); o.Response.Usage != want {
				t.Errorf("usage %+v, want %+v", o.Response.Usage, want)
			}
			raw, err := json.Marshal(host.NewMessage(host.Assistant, o.Response.Parts...))
			if err != nil {
				t.Fatal(err)
			}
			stored := &host.Message{}
			if err := json.Unmarshal(raw, stored); err != nil {
				t.Fatal(err)
			}
			messages = append(messages, stored, host.NewMessage(host.ToolRole,
				&host.ToolResult{ID: "toolu_1", Content: json.RawMessage(`"shipped"`)},
				&host.ToolResult{ID: "toolu_2", Content: json.RawMessage(`"There is no order 1043."`), IsError: true}))
			for range 2 { // the second time from what the messages keep
				modeltest.Ask(t.Context(), m, &llm.Request{Messages: messages})
			}
			want := modeltest.Parse(t, `[{"role":"user","content":[{"type":"text","text":"hi"}]},{"role":"assistant","content":`+tt.want+`},`+results+`]`)
			for _, got := range p.Sent[1:] {
				if diff := cmp.Diff(want, got["messages"]); diff != "" {
					t.Errorf("messages (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// A signature that the provider does not take must not end a conversation.
func TestForeignThinkingIsLeftOut(t *testing.T) {
	var got []map[string]any
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body map[string]any
		_ = json.NewDecoder(r.Body).Decode(&body)
		if got = append(got, body); len(got) == 1 {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"messages.1.content.0: Invalid `signature` in `thinking` block\"}}")
			return
		}
		_, _ = w.Write(modeltest.Recorded(t, "search"))
	}))
	defer srv.Close()
	m, err := anthropicmodel.New("m1", &anthropicmodel.Options{Server: modelhttp.Options{BaseURL: srv.URL}, ThinkingTokens: 2000})
	if err != nil {
		t.Fatal(err)
	}
	defer m.CloseIdleConnections()
	o := modeltest.Ask(t.Context(), m, &llm.Request{Messages: []*host.Message{host.UserText("hi"), host.NewMessage(host.Assistant, &host.Reasoning{Text: "Hm.", Signature: "another's"},
		&chat.Unknown{Kind: "anthropic", JSON: json.RawMessage(`{"type":"anthropic","block":{"type":"redacted_thinking","data":"x"}}`)}, &host.Text{Text: "Yes."}), host.UserText("and?")}})
	if o.Err != nil || o.Text != "Rain." || len(got) != 2 {
		t.Fatalf("%q, %v after %d requests", o.Text, o.Err, len(got))
	}
	want := modeltest.Parse(t, `[{"role":"user","content":[{"type":"text","text":"hi"}]},{"role":"assistant","content":[{"type":"text","text":"Yes."}]},{"role":"user","content":[{"type":"text","text":"and?"}]}]`)
	if diff := cmp.Diff(want, got[1]["messages"]); diff != "" || got[0]["thinking"] == nil || got[1]["thinking"] != nil {
		t.Errorf("thinking %v, then %v; messages (-want +got):\n%s", got[0]["thinking"], got[1]["thinking"], diff)
	}
}

// What ends a request is not kept with its message: in the next one it ends
// nothing.
func TestMarksMoveOn(t *testing.T) {
	p := &modeltest.Service{Answers: []http.HandlerFunc{modeltest.Replay(t, "search")}}
	srv := httptest.NewServer(p)
	defer srv.Close()
	m, err := anthropicmodel.New("m1", &anthropicmodel.Options{Server: modelhttp.Options{BaseURL: srv.URL}, Cache: true})
	if err != nil {
		t.Fatal(err)
	}
	defer m.CloseIdleConnections()
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
		if diff := cmp.Diff(modeltest.Parse(t, want), p.Sent[i]["messages"]); diff != "" {
			t.Errorf("messages of request %d (-want +got):\n%s", i, diff)
		}
	}
}

// FuzzStream reads any bytes as the provider's answer. Whatever comes, there is
// one response or one error with a code; and a response can be sent back.
func FuzzStream(f *testing.F) {
	for _, name := range []string{"tools", "search"} {
		f.Add(modeltest.Recorded(f, name))
	}
	for _, seed := range []string{
		"", "<html>", `{"type":"error"}`, "data: " + started + "\n\n", `{"type":"message","content":[{"type":"text","text":"x"}],"stop_reason":"end_turn"}`,
		"event: x\ndata: " + strings.Join([]string{started, begin(0, `{"type":"tool_use","id":"a","name":"b","input":[]}`), grow(0, `{"type":"input_json_delta","partial_json":"["}`), because("tool_use"), stopped}, "\n\ndata: "),
		"data: " + strings.Join([]string{started, begin(0, `{"type":"what"}`), grow(0, `{"type":"input_json_delta","partial_json":"1"}`), because("x")}, "\ndata: "),
		`{"type":"message","content":[null,1,{}],"stop_reason":"end_turn"}`,
		"data: " + strings.Join([]string{started, begin(0, `{"type":"what"}`), grow(0, `{"type":"text_delta","text":"x"}`), because("x")}, "\ndata: "),
		"data: " + strings.Join([]string{started, begin(0, `{"type":"text"}`), grow(0, `{"type":"input_json_delta","partial_json":"x"}`), because("x")}, "\ndata: "),
		`{"type":"message","content":[{"type":"tool_use","input":7}],"stop_reason":"x"}`,
		`data: {"type":"content_block_start","index":7}`, `data: {"type":"content_block_delta","index":-1}`, `data: {"type":"message_delta"}`, `data: {}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var sent []byte
		client := &http.Client{Transport: modeltest.RoundTrip(func(r *http.Request) (*http.Response, error) {
			sent, _ = io.ReadAll(r.Body)
			return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(data)), Request: r}, nil
		})}
		m, err := anthropicmodel.New("m1", &anthropicmodel.Options{Server: modelhttp.Options{HTTPClient: client, MaxRetries: -1, KeepRaw: true}, Cache: true})
		if err != nil {
			t.Fatal(err)
		}
		o := modeltest.Ask(t.Context(), m, modeltest.Question("hi"))
		var e *host.Error
		switch {
		case o.Err != nil:
			if !errors.As(o.Err, &e) || !e.Code.Valid() || e.Code == host.Internal || len(e.Error()) > 2000 {
				t.Fatalf("error %#v", o.Err)
			}
			return
		case o.Response == nil:
			t.Fatal("neither a response nor an error")
		case !json.Valid(o.Response.Raw):
			t.Fatalf("Raw is %q", o.Response.Raw)
		}
		if got := (&host.Message{Parts: o.Response.Parts}).Text(); got != o.Text {
			t.Fatalf("deltas say %q, the response %q", o.Text, got)
		}
		modeltest.Ask(t.Context(), m, &llm.Request{Messages: []*host.Message{host.UserText("hi"), host.NewMessage(host.Assistant, o.Response.Parts...)}})
		if !json.Valid(sent) {
			t.Fatalf("it goes back as %s", sent)
		}
	})
}
