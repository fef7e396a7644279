package scriptedmodel_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/scriptedmodel"
	"github.com/agenthost/agenthost/internal/completiontest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type (
	chat = completiontest.Request
	turn = completiontest.Message
	said = completiontest.Said
)

var (
	user       = completiontest.User
	assistant  = completiontest.Assistant
	system     = completiontest.System
	calledWith = completiontest.CalledWith
	resultOf   = completiontest.ResultOf
	toolOf     = completiontest.ToolOf
	post       = completiontest.Post
	complete   = completiontest.Complete
)

func newHandler(t *testing.T, rules ...scriptedmodel.Rule) *scriptedmodel.Handler {
	t.Helper()
	h, err := scriptedmodel.New(&scriptedmodel.Options{Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// events returns the data of a stream's events.
func events(t *testing.T, raw []byte) []string {
	t.Helper()
	var out []string
	for _, l := range strings.Split(string(raw), "\n\n") {
		if l == "" {
			continue
		}
		data, ok := strings.CutPrefix(l, "data: ")
		if !ok {
			t.Fatalf("event %q", l)
		}
		out = append(out, data)
	}
	return out
}

type delta struct {
	Choices []struct {
		Delta struct {
			Role, Content string
			ToolCalls     []struct {
				Index    int
				ID, Type string
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
		FinishReason *string `json:"finish_reason"`
	}
	Usage *struct {
		Total int `json:"total_tokens"`
	}
}

// lookup is a tool, and two are its calls for each of two orders.
var (
	lookup = toolOf("lookup_order", "Finds an order.", `{"type":"object","properties":{"order_id":{"type":"integer"}},"required":["order_id"]}`)
	two    = scriptedmodel.Rule{Match: scriptedmodel.Match{User: `orders (\d+) and (\d+)`}, Reply: scriptedmodel.Reply{Calls: []scriptedmodel.ReplyCall{
		{Name: "lookup_order", Arguments: []byte(`{"order_id":"${1}"}`)}, {Name: "lookup_order", Arguments: []byte(`{"order_id":"${2}"}`)},
	}}}
)

func TestStreams(t *testing.T) {
	req := chat{"model": "m", "stream": true, "stream_options": turn{"include_usage": true}, "messages": []any{user("where are orders 1042 and 1043?")}, "tools": []any{lookup}}
	_, raw := post(t, newHandler(t, two), req)
	all := events(t, raw)
	if all[len(all)-1] != "[DONE]" {
		t.Fatalf("stream ends with %q", all[len(all)-1])
	}
	var names, finishes []string
	arguments := map[int]string{}
	total := 0
	for i, e := range all[:len(all)-1] {
		var d delta
		if err := json.Unmarshal([]byte(e), &d); err != nil {
			t.Fatalf("event %s: %v", e, err)
		}
		if d.Usage != nil {
			total = d.Usage.Total
			if len(d.Choices) != 0 || i != len(all)-2 {
				t.Errorf("usage comes in event %d, %s", i, e)
			}
			continue
		}
		if i == 0 && d.Choices[0].Delta.Role != "assistant" {
			t.Errorf("first event is %s", e)
		}
		for _, c := range d.Choices[0].Delta.ToolCalls {
			if c.ID != "" {
				names = append(names, c.Function.Name+" "+c.Type)
			}
			arguments[c.Index] += c.Function.Arguments
		}
		if f := d.Choices[0].FinishReason; f != nil {
			finishes = append(finishes, *f)
		}
	}
	if diff := cmp.Diff([]string{"lookup_order function", "lookup_order function"}, names); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[int]string{0: `{"order_id":1042}`, 1: `{"order_id":1043}`}, arguments); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"tool_calls"}, finishes); diff != "" || total == 0 {
		t.Errorf("total usage %d, finish reasons (-want +got):\n%s", total, diff)
	}
}

func TestUsageOnlyWhenAskedFor(t *testing.T) {
	_, raw := post(t, newHandler(t, scriptedmodel.Rule{Reply: scriptedmodel.Reply{Text: "Hello there."}}), chat{"model": "m", "stream": true, "messages": []any{user("hi")}})
	if strings.Contains(string(raw), `"usage"`) {
		t.Errorf("stream tells usage that nobody asked for:\n%s", raw)
	}
}

func TestCutsAtTheTokenLimit(t *testing.T) {
	h := newHandler(t, scriptedmodel.Rule{Reply: scriptedmodel.Reply{Text: strings.Repeat("é", 100)}})
	got := complete(t, h, chat{"messages": []any{user("hi")}, "max_tokens": 3})
	if got.Text != strings.Repeat("é", 6) || got.Finish != "length" {
		t.Errorf("said %q (%s)", got.Text, got.Finish)
	}
}

func TestCallIDsDiffer(t *testing.T) {
	h := newHandler(t, two, scriptedmodel.Rule{Reply: scriptedmodel.Reply{Calls: []scriptedmodel.ReplyCall{{Name: "lookup_order"}}}})
	first := complete(t, h, chat{"messages": []any{user("where are orders 1042 and 1043?")}, "tools": []any{lookup}})
	second := complete(t, h, chat{"messages": []any{user("where is order 1042?")}, "tools": []any{lookup}})
	seen := map[string]bool{}
	all := append(first.IDs, second.IDs...)
	if len(all) != 3 {
		t.Errorf("calls have %d ids, want 3", len(all))
	}
	for _, id := range all {
		if id == "" || seen[id] {
			t.Errorf("id %q is empty or used twice", id)
		}
		seen[id] = true
	}
}

func TestRefusals(t *testing.T) {
	h := newHandler(t)
	huge := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("x", 17<<20) + `"}]}`
	for _, tt := range []struct {
		name, method, path, body string
		status                   int
		says                     string
	}{
		{"not JSON", "POST", "/v1/chat/completions", `{`, 400, "not a chat completion"},
		{"a wrong type", "POST", "/v1/chat/completions", `{"model":"m","messages":"hi"}`, 400, "messages"},
		{"no model", "POST", "/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}]}`, 400, "no model"},
		{"nothing that a rule matches", "POST", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"x"}]}`, 400, "no rule of the script matches"},
		{"no messages", "POST", "/v1/chat/completions", `{"model":"m"}`, 400, "no messages"},
		{"too large", "POST", "/v1/chat/completions", huge, 413, "more than 16777216 bytes"},
		{"too many tools", "POST", "/v1/chat/completions", `{"model":"m","messages":[{}],"tools":[` + strings.Repeat(`{},`, 1000) + `{}]}`, 400, "1000 tools"},
		{"too many messages", "POST", "/v1/chat/completions", `{"model":"m","messages":[` + strings.Repeat(`{},`, 20000) + `{}]}`, 400, "20000 messages"},
		{"another path", "POST", "/v1/images", `{}`, 404, "/v1/chat/completions"},
		{"another method", "GET", "/v1/chat/completions", ``, 404, "POST /v1/chat/completions"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(tt.method, tt.path, strings.NewReader(tt.body)))
			var got struct {
				Error struct{ Message, Type string }
			}
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != tt.status || !strings.Contains(got.Error.Message, tt.says) {
				t.Errorf("status %d, %s (%v); want %d and %q", w.Code, w.Body, err, tt.status, tt.says)
			}
		})
	}
}

// otherwise serves the rules, and "none" where none matches.
func otherwise(t *testing.T, rules ...scriptedmodel.Rule) *scriptedmodel.Handler {
	t.Helper()
	h, err := scriptedmodel.New(&scriptedmodel.Options{Rules: rules, Otherwise: func(*scriptedmodel.Conversation) *scriptedmodel.Reply {
		return &scriptedmodel.Reply{Text: "none"}
	}})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestOtherwise(t *testing.T) {
	hello := scriptedmodel.Rule{Match: scriptedmodel.Match{User: "hello"}, Reply: scriptedmodel.Reply{Text: "Hello."}}
	h := otherwise(t, hello)
	for text, want := range map[string]string{"hello": "Hello.", "good morning": "none"} {
		if got := complete(t, h, chat{"messages": []any{user(text)}}); got.Text != want {
			t.Errorf("%q: said %q, want %q", text, got.Text, want)
		}
	}
	silent, err := scriptedmodel.New(&scriptedmodel.Options{Otherwise: func(*scriptedmodel.Conversation) *scriptedmodel.Reply { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	for name, h := range map[string]*scriptedmodel.Handler{"no Otherwise": newHandler(t, hello), "an Otherwise without an answer": silent} {
		status, raw := post(t, h, chat{"model": "m", "messages": []any{user("good morning")}})
		if status != http.StatusBadRequest || !bytes.Contains(raw, []byte(`"code":"no_rule"`)) {
			t.Errorf("%s: status %d, %s", name, status, raw)
		}
	}
}

func TestNotice(t *testing.T) {
	for _, s := range []string{"not an LLM", "OPENAI_API_KEY", "OPENAI_BASE_URL", "--model"} {
		if !strings.Contains(scriptedmodel.Notice, s) {
			t.Errorf("Notice does not say %q", s)
		}
	}
}

func TestModels(t *testing.T) {
	w := httptest.NewRecorder()
	newHandler(t).ServeHTTP(w, httptest.NewRequest("GET", "/v1/models", nil))
	var got struct{ Data []struct{ ID string } }
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || len(got.Data) != 1 || got.Data[0].ID != scriptedmodel.DefaultName {
		t.Errorf("models are %s (%v)", w.Body, err)
	}
}

func start(t *testing.T, rules ...scriptedmodel.Rule) *scriptedmodel.Server {
	t.Helper()
	srv, err := scriptedmodel.Start(t.Context(), &scriptedmodel.Options{Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { srv.Close() })
	return srv
}

// client does not keep connections: their goroutines would count as leaks.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func TestServerCloseCutsRequestsAndWaits(t *testing.T) {
	srv := start(t, scriptedmodel.Rule{Reply: scriptedmodel.Reply{Text: "half of it", Malformed: scriptedmodel.MalformedHang}})
	resp, err := client.Post(srv.BaseURL()+"/chat/completions", "application/json", strings.NewReader(`{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	resp.Body.Read(make([]byte, 1)) // it has begun
	for range 2 {
		if err := srv.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	if _, err := io.ReadAll(resp.Body); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Logf("the client is told: %v", err)
	}
	if _, err := client.Get(srv.BaseURL() + "/models"); err == nil {
		t.Error("a closed server answers")
	}
}

func TestServerEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	srv, err := scriptedmodel.Start(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := srv.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func TestStartRefuses(t *testing.T) {
	_, err := scriptedmodel.Start(t.Context(), &scriptedmodel.Options{Rules: []scriptedmodel.Rule{{}}})
	if host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("Start: %v", err)
	}
}
