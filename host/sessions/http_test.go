package sessions_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/sessions"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/internal/testdriver"
)

func handlerOf(s *service) http.Handler {
	return s.Handler(func(r *http.Request) (string, error) {
		if r.Header.Get("X-Tenant") == "" {
			return "", host.Errorf(host.Unauthenticated, "nobody says who is asking")
		}
		return r.Header.Get("X-Tenant"), nil
	})
}

// post sends a body and returns the status and the answer.
func post(h http.Handler, path, body string, header ...string) (int, http.Header, string) {
	r := httptest.NewRequest(http.MethodPost, path, io.MultiReader(strings.NewReader(body))) // no length: it is sent in chunks
	r.ContentLength = -1
	r.Header.Set("X-Tenant", "ada")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Result().Header, w.Body.String()
}

func TestHTTP(t *testing.T) {
	big := tool(t, "big", func(_ context.Context, call *host.Call) (string, error) {
		return "", call.State.Set("/n", json.Number("9007199254740993"))
	})
	s := stored(t, newAgent(t, "clerk", model(hosttest.Call("big", "{}"), hosttest.Say("hello"), hosttest.Fail(errModel), hosttest.Call("big", "{}"), hosttest.Say("again"), hosttest.Say("more")), big))
	h := handlerOf(s)
	code, header, body := post(h, "/turn", `{"text":"hi","session":"s/1","a member of tomorrow":1}`)
	if code != 200 || header.Get("Content-Type") != "application/json" || !strings.Contains(body, `"finish_reason":"stop"`) || !strings.Contains(body, `"session":"s/1"`) {
		t.Errorf("a turn: %d %s", code, body)
	}
	if code, _, body = post(h, "/turn", `{"text":"hi","session":"s/1"}`); code != 200 || !strings.Contains(body, `"finish_reason":"failed"`) || !strings.Contains(body, `"code":"unavailable"`) {
		t.Errorf("a turn that fails: %d %s", code, body)
	}
	code, header, body = post(h, "/turn", `{"text":"hi","session":"s/1"}`, "Accept", "text/html, text/event-stream;q=0.9, */*")
	if code != 200 || header.Get("Content-Type") != "text/event-stream" || !strings.Contains(body, `9007199254740993`) || !strings.Contains(body, `"type":"turn.ended"`) {
		t.Errorf("events: %d %s %s", code, header, body)
	}
	if code, header, _ = post(h, "/turn?stream=true", `{"text":"hi","session":"s/1"}`); code != 200 || header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("events by name: %d %s", code, header)
	}
	if code, _, body = post(h, "/snapshot", `{"session":"s/1"}`); code != 200 || !strings.Contains(body, `"custom":{"n":9007199254740993}`) || !strings.Contains(body, `"status":"completed"`) {
		t.Errorf("a snapshot: %d %s", code, body)
	}
	for name, c := range map[string]struct {
		path, body string
		code       int
	}{
		"another way to keep it":       {"/turn", `{"text":"hi","state":{}}`, 412},
		"another's snapshot":           {"/turn", `{"text":"hi","session":"s/1","snapshot":"a:b"}`, 400},
		"no such snapshot":             {"/turn", `{"text":"hi","snapshot":"a:b"}`, 404},
		"no such snapshot to read":     {"/snapshot", `{"snapshot":"a:b"}`, 404},
		"no such snapshot to abort":    {"/abort", `{"snapshot":"a:b"}`, 404},
		"no such snapshot to wait":     {"/wait", `{"snapshot":"a:b"}`, 404},
		"nothing":                      {"/turn", ``, 400},
		"not JSON":                     {"/turn", `{"text":`, 400},
		"another type":                 {"/turn", `{"text":7}`, 400},
		"two values":                   {"/turn", `{"text":"a"}{"text":"b"}`, 400},
		"a message of another shape":   {"/turn", `{"input":{"role":"owner"}}`, 400},
		"nothing to answer":            {"/turn", `{}`, 400},
		"a session of another version": {"/turn", `{"state":{"version":2}}`, 412},
	} {
		for _, accept := range []string{"application/json", "text/event-stream"} {
			code, header, body := post(h, c.path, c.body, "Accept", accept)
			var answer struct {
				Error *host.Error `json:"error"`
			}
			if code != c.code || header.Get("Content-Type") != "application/json" || json.Unmarshal([]byte(body), &answer) != nil || answer.Error == nil || answer.Error.Message == "" {
				t.Errorf("%s, %s: %d %s %s; want %d and the error as JSON", name, accept, code, header.Get("Content-Type"), body, c.code)
			}
		}
	}
	if code, _, body := post(h, "/turn", `{"text":"hi"}`, "X-Tenant", ""); code != 401 || !strings.Contains(body, "unauthenticated") {
		t.Errorf("nobody asks: %d %s", code, body)
	}
	if code, _, body := post(h, "/snapshot", `{"session":"s/1"}`, "X-Tenant", "eve"); code != 404 || strings.Contains(body, "hello") {
		t.Errorf("another tenant asks: %d %s", code, body)
	}
	small := newService(t, newAgent(t, "clerk", model()), &sessions.Options{StateBytes: 2000})
	if code, _, body := post(handlerOf(small), "/turn", `{"text":"`+strings.Repeat("x", 3<<20)+`"}`); code != 429 {
		t.Errorf("a body that is too long: %d %.200s", code, body)
	}
	if code, _, body := post(handlerOf(small), "/turn", `{"text":"hi","state":{"custom":{"x":"`+strings.Repeat("x", 3000)+`"}}}`); code != 429 || strings.Contains(body, "xxx") {
		t.Errorf("a session that is too large: %d %.200s", code, body)
	}
}

func TestRemote(t *testing.T) {
	tool, begun, open := gate(t)
	make := rawTool(t, "make", func(context.Context, *host.Call) (*host.ToolOutput, error) {
		return &host.ToolOutput{Artifacts: []host.Artifact{{Name: "plan.md", Parts: []host.Part{&host.Text{Text: "the plan"}}}, {Parts: []host.Part{&host.Text{Text: "unnamed"}}}}}, nil
	})
	s := newService(t, newAgent(t, "clerk", model(hosttest.Call("make", "{}"), hosttest.Call("make", "{}"), hosttest.Say("made"), hosttest.Call("gate", "{}"), hosttest.Call("gate", "{}"), hosttest.Say("done")), tool, make),
		&sessions.Options{Store: threads.New(testdriver.New(t), nil)})
	remote, _ := serveHTTP(t, s)
	chat := newChat(t, remote, nil)
	if _, err := chat.Send(t.Context(), "make a plan"); err != nil {
		t.Fatal(err)
	}
	if err := chat.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	artifacts := chat.Artifacts()
	if len(artifacts) != 3 || artifacts[0].Name != "plan.md" {
		t.Fatalf("the artifacts are %+v, want the named one once and the others as they came", artifacts)
	}
	a, err := remote.Artifact(t.Context(), chat.Session(), artifacts[0].Digest)
	if err != nil || a.Name != "plan.md" || a.Parts[0].(*host.Text).Text != "the plan" {
		t.Errorf("Artifact = %+v, %v", a, err)
	}
	if _, err := remote.Artifact(t.Context(), chat.Session(), "nothing"); host.CodeOf(err) != host.NotFound {
		t.Errorf("Artifact of nothing = %v", err)
	}
	var ids []string
	for range 2 {
		out, err := newChat(t, remote, nil).Do(t.Context(), &sessions.Say{Text: "go", Detach: true})
		if err != nil {
			t.Fatal(err)
		}
		<-begun
		ids = append(ids, out.Snapshot)
	}
	if got, err := remote.Abort(t.Context(), ids[0]); err != nil || got != sessions.Aborting {
		t.Errorf("Abort = %s, %v", got, err)
	}
	close(open)
	for i, want := range []sessions.Status{sessions.Aborted, sessions.Completed} {
		if snap, err := remote.Wait(t.Context(), &sessions.SnapshotRequest{Snapshot: ids[i]}); err != nil || snap.Status != want {
			t.Errorf("Wait = %+v, %v; want %s", snap, err, want)
		}
	}
}
