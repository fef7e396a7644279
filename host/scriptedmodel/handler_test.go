package scriptedmodel_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/scriptedmodel"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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

func TestStreams(t *testing.T) {
	req := chat{"model": "m", "stream": true, "stream_options": turn{"include_usage": true}, "messages": []any{user("where are orders 1042 and 1043?")}, "tools": []any{lookup}}
	_, raw := post(t, newHandler(t), req)
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
	_, raw := post(t, newHandler(t), chat{"model": "m", "stream": true, "messages": []any{user("hi")}})
	if strings.Contains(string(raw), `"usage"`) {
		t.Errorf("stream tells usage that nobody asked for:\n%s", raw)
	}
}

func TestCutsAtTheTokenLimit(t *testing.T) {
	h := newHandler(t, scriptedmodel.Rule{Reply: scriptedmodel.Reply{Text: strings.Repeat("é", 100)}})
	got := complete(t, h, chat{"messages": []any{user("hi")}, "max_tokens": 3})
	if got.text != strings.Repeat("é", 6) || got.finish != "length" {
		t.Errorf("said %q (%s)", got.text, got.finish)
	}
}

func TestSameRequestSameAnswer(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		words := rapid.SampledFrom([]string{"where", "is", "order", "1042", "and", "the", "other", "one", "?", "weather", "in", "Paris", "cancel", "ORD-7", "please", "it", "\"x\"", "2+2", "€", "."})
		texts := rapid.SliceOfN(rapid.SliceOfN(words, 0, 8), 1, 4).Draw(rt, "texts")
		var messages []any
		for _, ws := range texts {
			messages = append(messages, user(strings.Join(ws, " ")))
		}
		h := newHandler(t)
		req := chat{"model": "m", "stream": rapid.Bool().Draw(rt, "stream"), "messages": messages, "tools": []any{lookup, weather, cancel, calc, mail, stock, compare}}
		_, first := post(t, h, req)
		_, again := post(t, h, req)
		if !bytes.Equal(first, again) {
			rt.Fatalf("first\n%s\nthen\n%s", first, again)
		}
	})
}

// Whatever is asked, the heuristic ends: each round makes calls that it has not
// made, or answers.
func TestEveryTurnEnds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.StringMatching(`[a-z0-9 ,.?#"$*-]{0,60}`).Draw(rt, "text")
		messages := []any{user(text)}
		tools := []any{lookup, weather, cancel, calc, mail, stock, compare, list, echo}
		for range 40 {
			got := complete(t, newHandler(t), chat{"messages": messages, "tools": tools, "parallel_tool_calls": false})
			if len(got.calls) == 0 {
				return
			}
			name, arguments, _ := strings.Cut(got.calls[0], " ")
			messages = append(messages, calledWith(name, arguments), resultOf(0, "Error: no"))
		}
		rt.Fatalf("%q is never answered", text)
	})
}

func TestCallIDsDiffer(t *testing.T) {
	h := newHandler(t)
	first := complete(t, h, chat{"messages": []any{user("where are orders 1042 and 1043?")}, "tools": []any{lookup}})
	second := complete(t, h, chat{"messages": []any{user("where is order 1042?")}, "tools": []any{lookup}})
	seen := map[string]bool{}
	for _, id := range append(first.ids, second.ids...) {
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
		{"no messages", "POST", "/v1/chat/completions", `{"model":"m"}`, 400, "no messages"},
		{"too large", "POST", "/v1/chat/completions", huge, 413, "more than 16777216 bytes"},
		{"too many tools", "POST", "/v1/chat/completions", `{"model":"m","messages":[{}],"tools":[` + strings.Repeat(`{},`, 1000) + `{}]}`, 400, "1000 tools"},
		{"too many messages", "POST", "/v1/chat/completions", `{"model":"m","messages":[` + strings.Repeat(`{},`, 20000) + `{}]}`, 400, "20000 messages"},
		{"another path", "POST", "/v1/embeddings", `{}`, 404, "/v1/chat/completions"},
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

func TestModels(t *testing.T) {
	w := httptest.NewRecorder()
	newHandler(t).ServeHTTP(w, httptest.NewRequest("GET", "/v1/models", nil))
	var got struct{ Data []struct{ ID string } }
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || len(got.Data) != 1 || got.Data[0].ID != scriptedmodel.DefaultName {
		t.Errorf("models are %s (%v)", w.Body, err)
	}
}

func TestLargeTextIsQuick(t *testing.T) {
	for _, piece := range []string{"where is order 1042? ", "4", "*", "a-", "\"x ", "(", "1+"} {
		started := time.Now()
		complete(t, newHandler(t), chat{"messages": []any{user(strings.Repeat(piece, 1<<20/len(piece)))}, "tools": []any{lookup, calc, echo}})
		if took := time.Since(started); took > 30*time.Second {
			t.Errorf("1 MiB of %q took %s", piece, took)
		} else {
			t.Logf("1 MiB of %q took %s", piece, took)
		}
	}
}

func TestReferencesDoNotMultiply(t *testing.T) {
	var members []string
	for i := range 300 {
		members = append(members, fmt.Sprintf(`"m%d":{"$ref":"#/$defs/n"}`, i))
	}
	all := `{"type":"object","properties":{` + strings.Join(members, ",") + `}}`
	schema := all[:len(all)-1] + `,"$defs":{"n":` + all + `}}`
	started := time.Now()
	complete(t, newHandler(t), chat{"messages": []any{user("ping")}, "tools": []any{toolOf("ping", "Pings.", schema)}})
	if took := time.Since(started); took > 30*time.Second {
		t.Errorf("took %s", took)
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

func BenchmarkCompletion(b *testing.B) {
	h, err := scriptedmodel.New(nil)
	if err != nil {
		b.Fatal(err)
	}
	raw, _ := json.Marshal(chat{"model": "m", "stream": true, "messages": []any{system("You are a clerk."), user("Where is order 1042? I also ordered 1043.")}, "tools": []any{lookup, cancel, weather}})
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/v1/chat/completions", bytes.NewReader(raw)))
	}
}
