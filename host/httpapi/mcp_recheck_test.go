package httpapi_test

import (
	"bufio"
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/httpapi"
	"github.com/agenthost/agenthost/host/keys"
)

// verifier answers what a credential is worth now: each time it is asked it takes the next
// answer, and stays with the last one.
type verifier struct {
	server  *server
	answers chan func(p *keys.Principal) error // unbuffered: one that was sent was taken
}

// newVerifier returns a server that verifies the credentials of streams again every few
// milliseconds.
func newVerifier(t *testing.T, outage time.Duration) *verifier {
	t.Helper()
	v := &verifier{answers: make(chan func(*keys.Principal) error)}
	s := newMCPServer(t, func(m *httpapi.MCP) { m.Recheck, m.RecheckOutage = 2*time.Millisecond, outage })
	v.server = reachedBy(t, s, func(r *http.Request) (*keys.Principal, error) {
		p, err := credential(r)
		if err != nil || r.Method != http.MethodGet || r.Header.Get("X-Request-Id") != "watched" {
			return p, err
		}
		return p, (<-v.answers)(p)
	})
	return v
}

// listen opens a stream of notifications.
func (v *verifier) listen(t *testing.T) *bufio.Reader {
	t.Helper()
	resp, _ := v.server.mcp("acme", initialize)
	r, err := http.NewRequestWithContext(t.Context(), "GET", v.server.URL+"/mcp", nil)
	must(t, err)
	for name, value := range map[string]string{"Authorization": "Bearer acme", "Accept": "text/event-stream", "Mcp-Session-Id": resp.Header.Get("Mcp-Session-Id"), "X-Request-Id": "watched"} {
		r.Header.Set(name, value)
	}
	go func() { v.answers <- valid }() // of the request itself
	got, err := http.DefaultClient.Do(r)
	must(t, err)
	t.Cleanup(func() { _ = got.Body.Close() })
	stream := bufio.NewReader(got.Body)
	if line, err := stream.ReadString('\n'); err != nil || got.StatusCode != http.StatusOK {
		t.Fatalf("the stream is %d, %q, %v", got.StatusCode, line, err)
	}
	return stream
}

func valid(*keys.Principal) error { return nil }

func away(*keys.Principal) error { return host.Errorf(host.Unavailable, "the store is away") }

func without(scope string) func(*keys.Principal) error {
	return func(p *keys.Principal) error {
		p.Scopes = slices.DeleteFunc(slices.Clone(p.Scopes), func(s string) bool { return s == scope })
		return nil
	}
}

// TestAStreamEndsWithItsCredential gives a stream's credential the answers of a row, one
// after the other: all but the last leave the stream open, so that it is verified again.
func TestAStreamEndsWithItsCredential(t *testing.T) {
	revoked := func(*keys.Principal) error { return host.Errorf(host.Unauthenticated, "the key is revoked") }
	suspended := func(*keys.Principal) error { return host.Errorf(host.PermissionDenied, "the tenant is suspended") }
	v := newVerifier(t, time.Hour)
	for name, answers := range map[string][]func(*keys.Principal) error{
		"that is revoked":                       {valid, revoked},
		"whose tenant is suspended":             {suspended},
		"that is revoked during an outage":      {away, away, valid, away, revoked},
		"that may not call tools any more":      {without(httpapi.WriteThreads), without(httpapi.WriteRuns)},
		"that may not read resources any more":  {valid, without(httpapi.ReadThreads)},
		"that is of another tenant":             {func(p *keys.Principal) error { p.Tenant = "globex"; return nil }},
		"that is narrowed to a thread":          {func(p *keys.Principal) error { p.Thread = "t1"; return nil }},
		"that expires during an outage at once": {away, func(p *keys.Principal) error { return host.Errorf(host.Unauthenticated, "it has expired") }},
	} {
		stream := v.listen(t)
		for i, answer := range answers {
			select {
			case v.answers <- answer:
			case <-time.After(time.Minute):
				t.Fatalf("a credential %s is not verified again before answer %d", name, i)
			}
		}
		if _, err := io.Copy(io.Discard, stream); err != nil {
			t.Errorf("the stream of a credential %s ends with %v", name, err)
		}
	}
}

func TestAnOutageOfTheStoreEndsAStreamAfterItsLimit(t *testing.T) {
	v := newVerifier(t, 20*time.Millisecond)
	stream := v.listen(t)
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, stream)
		ended <- err
	}()
	for n := 0; ; n++ {
		select {
		case v.answers <- away:
		case err := <-ended:
			if n < 1 || err != nil {
				t.Errorf("the stream ends with %v after the store was away %d times", err, n)
			}
			return
		}
	}
}
