package openaimodel_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	openai "github.com/sashabaranov/go-openai"
	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/internal/modeltest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/modelhttp"
	"github.com/agenthost/agenthost/host/openaimodel"
)

// TestRequestsAreGoOpenAIs has go-openai read what is sent and write it again:
// what it does not know, or writes otherwise, would be missing.
func TestRequestsAreGoOpenAIs(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		req := &llm.Request{Messages: append(rapid.SliceOfN(rapid.Custom(anyMessage), 0, 6).Draw(rt, "messages"), host.UserText("hi"))}
		if rapid.Bool().Draw(rt, "tools") {
			req.Tools = []llm.ToolSpec{{Name: "look", Description: anyText(rt, "description"), Parameters: json.RawMessage(`{"type":"object"}`)}}
			req.ToolChoice, req.SerialTools = "look", true
		}
		raw := sentRaw(t, req)
		var wire openai.ChatCompletionRequest
		if err := json.Unmarshal(raw, &wire); err != nil {
			rt.Fatalf("go-openai reads %s: %v", raw, err)
		}
		again, err := json.Marshal(wire)
		if err != nil {
			rt.Fatalf("go-openai writes %s: %v", raw, err)
		}
		if diff := cmp.Diff(modeltest.Parse(t, string(again)), modeltest.Parse(t, string(raw))); diff != "" {
			rt.Fatalf("go-openai writes otherwise (-it +we):\n%s", diff)
		}
	})
}

// sentRaw returns the body of the request that a model sends.
func sentRaw(t testing.TB, req *llm.Request) []byte {
	t.Helper()
	var raw []byte
	client := &http.Client{Transport: modeltest.RoundTrip(func(r *http.Request) (*http.Response, error) {
		raw, _ = io.ReadAll(r.Body)
		if int64(len(raw)) != r.ContentLength {
			t.Fatalf("Content-Length is %d, the body %d bytes", r.ContentLength, len(raw))
		}
		again, err := r.GetBody()
		if err != nil {
			t.Fatal(err)
		}
		if second, _ := io.ReadAll(again); !bytes.Equal(raw, second) {
			t.Fatalf("GetBody gives %s after %s", second, raw)
		}
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(answers().body), Request: r}, nil
	})}
	m, err := openaimodel.New("m1", &openaimodel.Options{Server: modelhttp.Options{HTTPClient: client}})
	if err != nil {
		t.Fatal(err)
	}
	if o := modeltest.Ask(t.Context(), m, req); o.Err != nil {
		t.Fatal(o.Err)
	}
	return raw
}

func anyText(t *rapid.T, label string) string {
	return rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "<b>&\u2028\"\\\x00\x1f", "größer 😀"})).Draw(t, label)
}

func anyMessage(t *rapid.T) *host.Message {
	role := rapid.SampledFrom([]host.Role{host.System, host.User, host.Assistant, host.ToolRole}).Draw(t, "role")
	id := rapid.StringMatching(`[a-z]{1,3}`)
	part := rapid.Custom(func(t *rapid.T) host.Part {
		text := anyText(t, "text")
		quoted := json.RawMessage(chat.AppendJSONString(nil, text))
		switch rapid.IntRange(0, 4).Draw(t, "part") {
		case 0:
			return &host.Data{Value: quoted}
		case 1:
			return &host.Reasoning{Text: text}
		case 2:
			if role == host.Assistant {
				return &host.ToolCall{ID: id.Draw(t, "id"), Name: "look", Arguments: quoted}
			}
			return &host.Media{MediaType: "image/png", Data: []byte("PNG" + text)}
		case 3:
			if role == host.ToolRole {
				return &host.ToolResult{ID: id.Draw(t, "id"), Content: quoted, IsError: rapid.Bool().Draw(t, "error")}
			}
		}
		return &host.Text{Text: text}
	})
	m := host.NewMessage(role, rapid.SliceOfN(part, 0, 3).Draw(t, "parts")...)
	if role == host.User && strings.TrimSpace(m.Text()) == "" {
		m.Parts = append(m.Parts, &host.Text{Text: "x"})
	}
	return m
}

// TestEnvelopesAreKept asks with one set of tools after another. What is kept of
// the one must never be sent with the other.
func TestEnvelopesAreKept(t *testing.T) {
	var sent []map[string]any
	m := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var body map[string]any
		_ = json.NewDecoder(r.Body).Decode(&body)
		sent = append(sent, body)
		stream(delta(`{"content":"x"}`), finish("stop"), done)(w, r)
	}, nil)
	tools := func(n int) []llm.ToolSpec { return []llm.ToolSpec{{Name: "t" + string(rune('a'+n))}} }
	for round := range 2 {
		for n := range 40 { // more than are kept
			temperature := float64(n)
			req := &llm.Request{Messages: []*host.Message{host.UserText("hi")}, Tools: tools(n % 20), Temperature: &temperature, MaxOutputTokens: n + 1}
			if n >= 20 {
				req.ProviderTools = []host.ProviderTool{{Provider: "openai", Declaration: json.RawMessage(`{"type":"search"}`)}}
			}
			if o := modeltest.Ask(t.Context(), m, req); o.Err != nil {
				t.Fatal(o.Err)
			}
			got := sent[len(sent)-1]
			if n := len(got["tools"].([]any)); n != 1+len(req.ProviderTools) {
				t.Fatalf("round %d: the question went with %d tools", round, n)
			}
			name := got["tools"].([]any)[0].(map[string]any)["function"].(map[string]any)["name"]
			if name != "t"+string(rune('a'+n%20)) || got["max_tokens"] != float64(n+1) {
				t.Fatalf("round %d: question %d went with tool %v and max_tokens %v", round, n, name, got["max_tokens"])
			}
		}
	}
}

func TestPathsAreJoinedToTheBaseURL(t *testing.T) {
	for base, want := range map[string]string{
		"http://h/v1": "http://h/v1/chat/completions", "http://h": "http://h/chat/completions",
		"http://h/a%2Fb/v1/": "http://h/a%2Fb/v1/chat/completions", "http://h/v1?api-version=1": "http://h/v1/chat/completions?api-version=1",
	} {
		var got string
		client := &http.Client{Transport: modeltest.RoundTrip(func(r *http.Request) (*http.Response, error) {
			got = r.URL.String()
			return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(answers().body), Request: r}, nil
		})}
		m, err := openaimodel.New("m1", &openaimodel.Options{Server: modelhttp.Options{BaseURL: base, HTTPClient: client}})
		if err != nil {
			t.Fatal(err)
		}
		if o := modeltest.Ask(t.Context(), m, modeltest.Question("hi")); o.Err != nil || got != want {
			t.Errorf("base %s asks %s, want %s; %v", base, got, want, o.Err)
		}
	}
}
