package modeltest

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// Recorded returns the answer that a test's directory has at testdata/NAME.sse.
func Recorded(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name+".sse"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Replay answers with the recorded stream of a name.
func Replay(t testing.TB, name string) http.HandlerFunc {
	t.Helper()
	return Answer(http.StatusOK, "text/event-stream", string(Recorded(t, name)))
}

// Answer answers with one text.
func Answer(status int, contentType, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text) // a client that has left is part of some tests
	}
}

// Service answers its requests one after the other, the last answer again and again, and
// keeps what it was sent. It is for clients that ask one question at a time; the test
// reads its fields between two questions.
type Service struct {
	Answers []http.HandlerFunc
	Sent    []map[string]any // bodies; nil for one that is no JSON object
	Header  http.Header      // of the last request
	Path    string           // of the last request
}

// ServeHTTP implements http.Handler.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body map[string]any
	_ = json.NewDecoder(r.Body).Decode(&body)
	s.Sent, s.Header, s.Path = append(s.Sent, body), r.Header, r.URL.Path
	s.Answers[min(len(s.Sent), len(s.Answers))-1](w, r)
}

// RoundTrip is a client's transport as a function.
type RoundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f RoundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
