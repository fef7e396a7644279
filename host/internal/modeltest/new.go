package modeltest

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/modelhttp"
)

// New returns a model of one kind that asks a server, until the end of the test.
type New func(t testing.TB, server modelhttp.Options) llm.Model

// Key is the key of the models that [New.Serve] returns. No error may show it.
const Key = "sk-test-1234567890"

// Serve starts a server, and returns a model that asks it without retries.
func (n New) Serve(t testing.TB, handler http.HandlerFunc) llm.Model {
	t.Helper()
	srv := httptest.NewServer(handler)
	t.Cleanup(srv.Close)
	return n(t, modelhttp.Options{BaseURL: srv.URL + "/v1", APIKey: Key, MaxRetries: -1})
}

// Close closes the idle connections of a model that a test has made, at the test's end.
func Close[M interface{ CloseIdleConnections() }](t testing.TB, m M, err error) M {
	t.Helper()
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	t.Cleanup(m.CloseIdleConnections)
	return m
}
