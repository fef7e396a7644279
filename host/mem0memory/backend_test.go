package mem0memory_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/mem0memory"
	"github.com/agenthost/agenthost/host/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "m0-secret"

// server is Mem0 as its API reference describes it, as far as it is used: memories
// by user, found by a common word.
type server struct {
	mu       sync.Mutex
	memories []map[string]any
	asked    []string
	answer   func(w http.ResponseWriter, r *http.Request) bool // instead; false goes on
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, r.Method+" "+r.URL.Path)
	if s.answer != nil && s.answer(w, r) {
		return
	}
	if r.Header.Get("Authorization") != "Token "+key {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(w, `{"detail":"Invalid token %s"}`, r.Header.Get("Authorization"))
		return
	}
	var in struct {
		Messages []struct{ Content string }
		UserID   string `json:"user_id"`
		Metadata map[string]any
		Expires  string `json:"expiration_date"`
		Infer    *bool
		Text     string
		Query    string
		TopK     int `json:"top_k"`
		Filters  struct{ AND []map[string]any }
	}
	if body, _ := io.ReadAll(r.Body); len(body) > 0 {
		if err := json.Unmarshal(body, &in); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
	}
	id, one := strings.CutPrefix(r.URL.Path, "/v1/memories/")
	id = strings.TrimSuffix(id, "/")
	switch {
	case r.URL.Path == "/v1/memories/" && r.Method == "POST":
		if in.Infer == nil || *in.Infer {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		m := map[string]any{"id": fmt.Sprintf("m%d", len(s.asked)), "memory": in.Messages[0].Content, "user_id": in.UserID, "metadata": in.Metadata,
			"created_at": "2026-01-02T03:04:05Z", "updated_at": "2026-01-02T03:04:05Z"}
		if in.Expires != "" {
			m["expiration_date"] = in.Expires
		}
		s.memories = append(s.memories, m)
		write(w, map[string]any{"results": []any{map[string]any{"id": m["id"], "event": "ADD", "memory": m["memory"]}}})
	case strings.HasPrefix(r.URL.Path, "/v2/memories/"):
		var found []map[string]any
		for _, m := range s.memories {
			if s.fits(m, in.Filters.AND) && (in.Query == "" || common(in.Query, m["memory"].(string))) {
				found = append(found, m)
			}
		}
		if in.TopK > 0 && len(found) > in.TopK {
			found = found[:in.TopK]
		}
		write(w, found)
	case one:
		for i, m := range s.memories {
			if m["id"] != id {
				continue
			}
			switch r.Method {
			case "PUT":
				if in.Text != "" {
					m["memory"] = in.Text
				}
				if in.Metadata != nil {
					m["metadata"] = in.Metadata
				}
			case "DELETE":
				s.memories = append(s.memories[:i:i], s.memories[i+1:]...)
			}
			write(w, m)
			return
		}
		w.WriteHeader(http.StatusNotFound)
	default:
		w.WriteHeader(http.StatusTeapot)
	}
}

func (s *server) fits(m map[string]any, filters []map[string]any) bool {
	for _, f := range filters {
		if u, ok := f["user_id"]; ok && u != m["user_id"] {
			return false
		}
		if want, ok := f["metadata"].(map[string]any); ok {
			have, _ := m["metadata"].(map[string]any)
			for name, value := range want {
				if have[name] != value {
					return false
				}
			}
		}
	}
	return len(filters) > 0
}

func common(a, b string) bool {
	for _, word := range strings.Fields(a) {
		if strings.Contains(strings.ToLower(b), strings.ToLower(word)) {
			return true
		}
	}
	return false
}

func write(w http.ResponseWriter, v any) { _ = json.NewEncoder(w).Encode(v) }

func open(t *testing.T, s *server, opts mem0memory.Options) *mem0memory.Backend {
	t.Helper()
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	opts.BaseURL = web.URL + "/"
	if opts.APIKey == "" {
		opts.APIKey = key
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	opts.Client = &http.Client{Transport: transport}
	b, err := mem0memory.New(&opts)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var ada = memory.Scope{Tenant: "acme", User: "ada"}

func apply(t *testing.T, b *mem0memory.Backend, scope memory.Scope, c memory.Change) *memory.Memory {
	t.Helper()
	list, err := b.Apply(t.Context(), scope, c)
	if err != nil {
		t.Fatal(err)
	}
	return list[0]
}

func found(t *testing.T, b *mem0memory.Backend, scope memory.Scope, query string) (texts []string) {
	t.Helper()
	hits, err := b.Search(t.Context(), scope, query, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range hits {
		texts = append(texts, h.Text)
	}
	return texts
}

func wantCode(t *testing.T, what string, err error, code host.Code) {
	t.Helper()
	if err == nil || host.CodeOf(err) != code {
		t.Errorf("%s: %v, want %s", what, err, code)
	}
	if err != nil && strings.Contains(err.Error(), key) {
		t.Errorf("%s: the error holds the key: %v", what, err)
	}
}

func TestAMemorysLife(t *testing.T) {
	s := &server{}
	b := open(t, s, mem0memory.Options{})
	day := time.Date(2027, 1, 2, 0, 0, 0, 0, time.UTC)
	add := memory.Change{Kind: memory.Add, ID: "mine", Text: "Ada drinks tea.", Metadata: map[string]json.RawMessage{"from": json.RawMessage(`"chat"`)}, Expires: day}
	m := apply(t, b, ada, add)
	if again := apply(t, b, ada, add); again.ID != m.ID || len(s.memories) != 1 || len(again.Metadata) != 1 || !again.Expires.Equal(day) {
		t.Errorf("added twice: %+v and %+v, %d are kept", m, again, len(s.memories))
	}
	if got := found(t, b, ada, "tea?"); len(got) != 0 {
		t.Errorf("found %q", got) // the stand-in looks for whole words
	}
	if got := found(t, b, ada, "who drinks"); fmt.Sprint(got) != "[Ada drinks tea.]" {
		t.Errorf("found %q", got)
	}
	if got := found(t, b, ada, "  "); len(got) != 0 {
		t.Errorf("found %q for nothing", got)
	}
	if up := apply(t, b, ada, memory.Change{Kind: memory.Update, ID: "mine", Text: "Ada drinks coffee."}); up.ID != m.ID || up.Text != "Ada drinks coffee." {
		t.Errorf("updated by the caller's id: %+v", up)
	}
	apply(t, b, ada, memory.Change{Kind: memory.Update, ID: m.ID, Metadata: map[string]json.RawMessage{"from": json.RawMessage(`1`)}})
	if again := apply(t, b, ada, add); again.Text != "Ada drinks coffee." || string(again.Metadata["from"]) != "1" {
		t.Errorf("after the update: %+v", again)
	}
	apply(t, b, ada, memory.Change{Kind: memory.Delete, ID: m.ID})
	_, err := b.Apply(t.Context(), ada, memory.Change{Kind: memory.Delete, ID: m.ID})
	wantCode(t, "deleted twice", err, host.NotFound)
	if len(s.memories) != 0 {
		t.Errorf("%v are left", s.memories)
	}
}

func TestScopesAreApart(t *testing.T) {
	s := &server{}
	b := open(t, s, mem0memory.Options{})
	m := apply(t, b, ada, memory.Change{Kind: memory.Add, Text: "Ada drinks tea."})
	for _, other := range []memory.Scope{
		{Tenant: "globex", User: "ada"}, {User: "ada"}, {Tenant: "acme"}, {Tenant: "acme", Agent: "ada"}, {Tenant: "acme", User: "ada", Run: "r"},
		{Tenant: "acme/", User: "ada"}, {Tenant: "acme", Application: "/ada"},
	} {
		if got := found(t, b, other, "tea drinks"); len(got) != 0 {
			t.Errorf("%+v finds %q", other, got)
		}
		for _, kind := range []memory.ChangeKind{memory.Update, memory.Delete} {
			_, err := b.Apply(t.Context(), other, memory.Change{Kind: kind, ID: m.ID, Text: "x"})
			wantCode(t, fmt.Sprintf("%s by %+v", kind, other), err, host.NotFound)
		}
	}
	_, err := b.Search(t.Context(), memory.Scope{}, "tea", nil)
	wantCode(t, "no scope", err, host.InvalidArgument)
	_, err = b.Apply(t.Context(), ada, memory.Change{Kind: memory.Add})
	wantCode(t, "no text", err, host.InvalidArgument)
	if len(s.memories) != 1 || s.memories[0]["memory"] != "Ada drinks tea." {
		t.Errorf("kept: %v", s.memories)
	}
}

func TestAServerThatFails(t *testing.T) {
	status := func(code int, header, body string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			if header != "" {
				w.Header().Set("Retry-After", header)
			}
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
			return true
		}
	}
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter, *http.Request) bool
		code   host.Code
		says   string
		asked  int
	}{
		"a wrong key":          {status(401, "", `{"detail":"no such token `+key+`"}`), host.Unauthenticated, "refuses the key", 1},
		"a key without rights": {status(403, "", ``), host.PermissionDenied, "refuses the key", 1},
		"a refusal":            {status(400, "", `{"detail":"top_k for `+key+` is wrong"}`), host.InvalidArgument, "top_k for ... is wrong", 1},
		"a teapot":             {status(418, "", `<html>`), host.Unavailable, "status 418", 1},
		"a wait too long":      {status(429, "3600", `{"error":"slow down"}`), host.ResourceExhausted, "slow down", 1},
		"what is not JSON":     {status(200, "", `<html>`), host.Unavailable, "not its protocol", 1},
		"another shape":        {status(200, "", `{"results":7}`), host.Unavailable, "not its protocol", 1},
		"no end":               {status(200, "", `["`+strings.Repeat("x", 5<<20)+`"]`), host.Unavailable, "more than", 1},
		"a redirect":           {status(302, "", ``), host.Unavailable, "status 302", 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := &server{answer: c.answer}
			b := open(t, s, mem0memory.Options{})
			_, err := b.Search(t.Context(), ada, "tea", nil)
			wantCode(t, name, err, c.code)
			if err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("it says %v, want %q", err, c.says)
			}
			if len(s.asked) != c.asked {
				t.Errorf("asked %q, want %d times", s.asked, c.asked)
			}
		})
	}
}

func TestTriesAgainWhatMayBe(t *testing.T) {
	fails := func(n, code int) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			if n--; n < 0 {
				return false
			}
			w.WriteHeader(code)
			return true
		}
	}
	s := &server{answer: fails(1, 500)}
	if _, err := open(t, s, mem0memory.Options{}).Search(t.Context(), ada, "tea", nil); err != nil || len(s.asked) != 2 {
		t.Errorf("a search after 500: %v, asked %q", err, s.asked)
	}
	s = &server{answer: fails(1, 429)}
	if _, err := open(t, s, mem0memory.Options{}).Apply(t.Context(), ada, memory.Change{Kind: memory.Add, Text: "x"}); err != nil || len(s.memories) != 1 {
		t.Errorf("an addition after 429: %v, kept %v", err, s.memories)
	}
	s = &server{answer: fails(1, 500)}
	_, err := open(t, s, mem0memory.Options{}).Apply(t.Context(), ada, memory.Change{Kind: memory.Add, Text: "x"})
	wantCode(t, "an addition whose outcome is unknown", err, host.Unavailable)
	if len(s.asked) != 1 || !fault.AsError(err).Retryable {
		t.Errorf("it is sent %d times: %v", len(s.asked), err)
	}
}

func TestTimeAndCancel(t *testing.T) {
	release := make(chan struct{})
	s := &server{answer: func(http.ResponseWriter, *http.Request) bool { <-release; return true }}
	b := open(t, s, mem0memory.Options{Timeout: 20 * time.Millisecond})
	_, err := b.Apply(t.Context(), ada, memory.Change{Kind: memory.Add, Text: "x"})
	wantCode(t, "silence", err, host.DeadlineExceeded)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = b.Search(ctx, ada, "tea", nil)
	wantCode(t, "canceled", err, host.Canceled)
	close(release)
}

func TestNewRefuses(t *testing.T) {
	for name, opts := range map[string]*mem0memory.Options{
		"nothing": nil, "no key": {}, "no address": {APIKey: key, BaseURL: "mem0"}, "another protocol": {APIKey: key, BaseURL: "ftp://mem0"},
		"a user in the address": {APIKey: key, BaseURL: "https://me@mem0"},
	} {
		_, err := mem0memory.New(opts)
		wantCode(t, name, err, host.InvalidArgument)
	}
}

func Example() {
	web := httptest.NewServer(&server{}) // Mem0's own is the default
	defer web.Close()
	backend, err := mem0memory.New(&mem0memory.Options{APIKey: key, BaseURL: web.URL})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	scope := memory.Scope{Tenant: "acme", User: "ada"}
	_, err = backend.Apply(ctx, scope, memory.Change{Kind: memory.Add, Text: "Ada is allergic to nuts."})
	fmt.Println(err)
	hits, err := backend.Search(ctx, scope, "allergic", nil)
	fmt.Println(hits[0].Text, err)
	// Output:
	// <nil>
	// Ada is allergic to nuts. <nil>
}
