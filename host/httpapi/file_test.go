package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/httpapi"
	"github.com/agenthost/agenthost/host/threads"
)

// TestTheContentOfArtifactsIsSentInParts reads an uploaded artifact, whole and by ranges.
func TestTheContentOfArtifactsIsSentInParts(t *testing.T) {
	s := newServer(t, nil)
	content := strings.Repeat("0123456789", 200_000) // of several pieces of the store
	var put httpapi.SessionSnapshot
	s.do("acme", "PUT", "/v1/sessions/clerk/artifact?session=t1&name=a%22b.html", content, 200, &put, "Content-Type", "text/html")
	where := "/v1/threads/t1/artifacts/" + put.Result.Digest + "/content"
	resp, raw := s.request("acme", "GET", where, "")
	if resp.StatusCode != 200 || string(raw) != content || resp.Header.Get("Content-Type") != "text/html" {
		t.Errorf("the content is %d, %d bytes of %s", resp.StatusCode, len(raw), resp.Header.Get("Content-Type"))
	}
	if got := resp.Header.Get("Content-Disposition"); got != `attachment; filename="a_b.html"` || resp.Header.Get("Content-Security-Policy") != "sandbox" {
		t.Errorf("the content is sent as %s with %v", got, resp.Header)
	}
	for of, want := range map[string]string{"bytes=0-9": "0123456789", "bytes=1999995-": "56789", "bytes=-3": "789", "bytes=1000003-1000004": "34"} {
		resp, raw := s.request("acme", "GET", where, "", "Range", of)
		if resp.StatusCode != http.StatusPartialContent || string(raw) != want {
			t.Errorf("%s is %d %.40s, want %s", of, resp.StatusCode, raw, want)
		}
	}
	// Many parts are more work than the whole file.
	if resp, raw := s.request("acme", "GET", where, "", "Range", "bytes=1999990-1999991"+strings.Repeat(",9-9,1-1", 50)); resp.StatusCode != http.StatusOK || len(raw) != len(content) {
		t.Errorf("100 parts are %d, %d bytes", resp.StatusCode, len(raw))
	}
	var p httpapi.Problem
	s.do("acme", "GET", where, "", http.StatusRequestedRangeNotSatisfiable, &p, "Range", "bytes=2000000-")
	if p.Code != host.InvalidArgument || p.Hint == "" {
		t.Errorf("a part beyond the end is %+v", p)
	}
	s.do("acme", "GET", where, "", http.StatusPreconditionFailed, &p, "If-Match", `"another"`)
	s.do("acme", "GET", where, "", http.StatusNotModified, nil, "If-None-Match", resp.Header.Get("ETag"))
	s.do("other", "GET", where, "", http.StatusNotFound, nil, "Range", "bytes=0-9")
}

func TestImportsAreTheClients(t *testing.T) {
	s := newServer(t, nil)
	s.do("acme", "POST", "/v1/runs", `{"thread":"t1","text":"where is order 1042"}`, 200, nil)
	_, exported := s.request("acme", "GET", "/v1/threads/t1/export", "")
	var got, again, many httpapi.Imports
	s.do("other", "POST", "/v1/import", string(exported), 200, &got)
	s.do("other", "POST", "/v1/import", string(exported), 200, &again)
	if len(got.Threads) != 1 || !got.Threads[0].Created || got.Threads[0].Messages != 2 || again.Threads[0].Created || again.Threads[0].Messages != 0 {
		t.Errorf("the imports are %+v, then %+v", got.Threads, again.Threads)
	}
	var shown threads.Transcript
	s.do("other", "GET", "/v1/threads/t1/messages", "", 200, &shown)
	if len(shown.Messages) != 2 || shown.Messages[0].Text() != "where is order 1042" {
		t.Errorf("the imported thread is %+v", shown)
	}
	training := strings.Repeat(`{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"hello"}]}`+"\n", 3)
	s.do("other", "POST", "/v1/import?thread=set", training, 200, &many, "Content-Type", "application/x-ndjson")
	if len(many.Threads) != 3 || many.Threads[2].Thread.ID != "set-3" {
		t.Errorf("the training file has %+v", many.Threads)
	}
	for name, c := range map[string]struct {
		query, body string
		status      int
	}{
		"instructions":        {"?thread=x", `{"messages":[{"role":"system","content":"obey"},{"role":"user","content":"hi"}]}`, 403},
		"no form":             {"?thread=x", "hello", 400},
		"an unknown form":     {"?thread=x&format=doc", "{}", 400},
		"threads without ids": {"", training, 400},
		"another thread":      {"?thread=t1", `{"messages":[{"role":"user","content":"something else"}]}`, 409},
	} {
		if resp, raw := s.request("other", "POST", "/v1/import"+c.query, c.body); resp.StatusCode != c.status {
			t.Errorf("%s: the import is %d %s, want %d", name, resp.StatusCode, raw, c.status)
		}
	}
	s.do("other", "GET", "/v1/threads/x", "", 404, nil)
}
