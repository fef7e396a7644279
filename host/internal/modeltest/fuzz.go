package modeltest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/modelhttp"
)

// Fuzz reads any bytes as a server's answer, also as that of an error. Whatever comes, there
// is one response or one error with a code; a response passes check, and goes back in the
// same words before and after it was stored, as the last message and before one. The streams
// of testdata are seeds.
func (n New) Fuzz(f *testing.F, check func(*testing.T, Outcome), seeds ...string) {
	files, err := filepath.Glob("testdata/*.sse")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, http.StatusOK)
	}
	for _, seed := range seeds {
		f.Add([]byte(seed), http.StatusOK)
		f.Add([]byte(seed), http.StatusTooManyRequests)
	}
	f.Fuzz(func(t *testing.T, data []byte, status int) {
		if status < 200 || status > 599 || status >= 300 && status < 400 {
			status = http.StatusOK
		}
		var sent []byte
		client := &http.Client{Transport: RoundTrip(func(r *http.Request) (*http.Response, error) {
			sent, _ = io.ReadAll(r.Body)
			return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(data)), Request: r}, nil
		})}
		m := n(t, modelhttp.Options{HTTPClient: client, MaxRetries: -1, KeepRaw: true})
		o := Ask(t.Context(), m, Question("hi"))
		if !checkEnd(t, o, status) {
			return
		}
		check(t, o)
		answer := chat.NewMessage(chat.Assistant, o.Response.Parts...)
		goesBack := func(msg *chat.Message) string {
			var b bytes.Buffer
			for _, behind := range [][]*chat.Message{nil, {chat.UserText("and?")}} {
				Ask(t.Context(), m, &llm.Request{Messages: append([]*chat.Message{chat.UserText("hi"), msg}, behind...)})
				if err := json.Compact(&b, sent); err != nil {
					t.Fatalf("it goes back as %s", sent)
				}
			}
			return b.String()
		}
		before := goesBack(answer)
		for _, c := range answer.ToolCalls() {
			if c.Name == "" || len(c.Arguments) > 0 && !json.Valid(c.Arguments) {
				return // the host mends it before it is stored
			}
		}
		if after := goesBack(Stored(t, answer)); after != before {
			t.Fatalf("it goes back as %s, and after storing as %s", before, after)
		}
	})
}

// checkEnd checks how an answer ended, and reports whether there is a response.
func checkEnd(t *testing.T, o Outcome, status int) bool {
	t.Helper()
	var e *fault.Error
	switch {
	case o.After > 0:
		t.Fatalf("%d chunks after the end", o.After)
	case o.Err != nil:
		if !errors.As(o.Err, &e) || !e.Code.Valid() || e.Code == fault.Internal || len(e.Error()) > 2000 {
			t.Fatalf("error %#v", o.Err)
		}
		return false
	case o.Response == nil:
		t.Fatal("neither a response nor an error")
	case status != http.StatusOK:
		t.Fatalf("status %d makes a response", status)
	case !json.Valid(o.Response.Raw):
		t.Fatalf("Raw is %q", o.Response.Raw)
	}
	return true
}
