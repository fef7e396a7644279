package httpapi_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/httpapi"
	"github.com/agenthost/agenthost/host/threads"
)

func TestCreationsThatAreSentAgain(t *testing.T) {
	s := newServer(t, nil)
	s.fill("acme")
	for name, c := range map[string]struct {
		credential, path, body, other string
		status                        int // of the same request sent again
	}{
		"a thread":               {"acme", "/v1/threads", `{"title":"x"}`, `{"title":"y"}`, 200},
		"a thread with an id":    {"acme", "/v1/threads", `{"id":"own"}`, `{"id":"other"}`, 200},
		"a fork":                 {"acme", "/v1/threads/thread-of-acme/forks", `{"title":"x"}`, `{"title":"y"}`, 201},
		"a fork with an id":      {"acme", "/v1/threads/thread-of-acme/forks", `{"id":"f1"}`, `{"id":"f2"}`, 201},
		"a memory":               {"acme", "/v1/memories?user=ann", `{"text":"likes tea"}`, `{"text":"likes coffee"}`, 201},
		"a run":                  {"acme", "/v1/runs", `{"text":"go"}`, `{"text":"go","thread":"other"}`, 200},
		"a tenant":               {"@root", "/v1/admin/tenants", `{"id":"new"}`, `{"id":"newer"}`, 201},
		"a key":                  {"@root", "/v1/admin/tenants/acme/keys", `{"scopes":["runs:read"]}`, `{"scopes":["runs:write"]}`, 409},
		"an administrator's key": {"@root", "/v1/admin/keys", `{"scopes":["audit:read"]}`, `{"scopes":[]}`, 409},
	} {
		t.Run(name, func(t *testing.T) {
			s.t = t
			key := []string{"Idempotency-Key", name}
			resp, first := s.request(c.credential, "POST", c.path, c.body, key...)
			if resp.StatusCode >= 300 {
				t.Fatalf("the first is answered %d %s", resp.StatusCode, first)
			}
			resp, again := s.request(c.credential, "POST", c.path, c.body, key...)
			if resp.StatusCode != c.status || c.status < 300 && !bytes.Equal(first, again) {
				t.Errorf("sent again, it is answered %d %s, want %d and %s", resp.StatusCode, again, c.status, first)
			}
			s.do(c.credential, "POST", c.path, c.other, 409, nil, key...)
			path, query, _ := strings.Cut(c.path, "?")
			if query != "" {
				s.do(c.credential, "POST", path+"?"+query+"&agent=clerk", c.body, 409, nil, key...)
			}
		})
	}
}

// A client may send the key of one request with another by mistake.
func TestAKeyIsOfOneRouteAndPath(t *testing.T) {
	s := newServer(t, nil)
	for _, id := range []string{"a", "b"} {
		s.do("acme", "POST", "/v1/threads", fmt.Sprintf(`{"id":%q}`, id), 201, nil)
	}
	key := []string{"Idempotency-Key", "k1"}
	s.do("acme", "POST", "/v1/threads/a/forks", `{}`, 201, nil, key...)
	s.do("acme", "POST", "/v1/threads/b/forks", `{}`, 409, nil, key...)
	s.do("acme", "POST", "/v1/threads", `{}`, 409, nil, key...)
	s.do("acme", "POST", "/v1/runs", `{"text":"go","thread":"a"}`, 409, nil, key...)
	s.do("umbrella", "POST", "/v1/threads", `{}`, 201, nil, key...) // the key of another tenant
	s.do("acme//a", "POST", "/v1/runs", `{"text":"go","thread":"a"}`, 200, nil, key...)
}

func TestWithoutKeysThatAreRememberedNothingIsMadeTwice(t *testing.T) {
	s := newServer(t, func(o *httpapi.Options) { o.Idempotency = nil })
	var first, again threads.Thread
	s.do("acme", "POST", "/v1/threads", `{}`, 201, &first, "Idempotency-Key", "k1")
	s.do("acme", "POST", "/v1/threads", `{}`, 200, &again, "Idempotency-Key", "k1")
	s.do("acme", "POST", "/v1/threads/"+first.ID+"/forks", `{}`, 201, &first, "Idempotency-Key", "k2")
	s.do("acme", "POST", "/v1/threads/"+again.ID+"/forks", `{}`, 201, &again, "Idempotency-Key", "k2")
	if first.ID != again.ID {
		t.Errorf("two forks were made: %s and %s", first.ID, again.ID)
	}
}

// Each POST that answers 201 makes something, and so do those that start runs.
func TestEachCreationHasTheHeader(t *testing.T) {
	s := newServer(t, nil)
	for _, op := range operations(t, s) {
		makes := op.method == "POST" && strings.Contains(string(op.raw), `"201"`) || slices.Contains([]string{"startRun", "createChatCompletion", "createResponse"}, op.id)
		has := strings.Contains(string(op.raw), "Idempotency-Key")
		if slices.Contains([]string{"uploadPlugin", "uploadSharedPlugin", "mintToken"}, op.id) {
			continue // a module is known by its digest, and a token is stored nowhere
		}
		if makes != has {
			t.Errorf("%s makes something: %v, and has the header: %v", op.id, makes, has)
		}
	}
}
