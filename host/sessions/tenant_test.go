package sessions_test

// Scenario: the handler and the service receive requests without a tenant.

import (
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

// Each way of the handler refuses an empty tenant, also where the host has one tenant
// alone, and a name that only such a host has.
func TestNoTenantIsUnauthenticated(t *testing.T) {
	several, err := sessions.New(agentOf(t, hosttest.Say("never"))(), &sessions.Options{Store: threads.New(testdriver.New(t), nil)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(several.Close)
	for _, tt := range []struct {
		service *sessions.Service
		tenant  string
		status  int
		says    string
	}{
		{stored(t, agentOf(t, hosttest.Say("never"))()), "", http.StatusUnauthorized, `"code":"unauthenticated"`},
		{several, "", http.StatusUnauthorized, `"code":"unauthenticated"`},
		{several, host.DefaultTenant, http.StatusBadRequest, "single tenant"},
	} {
		h := tt.service.Handler(func(*http.Request) (string, error) { return tt.tenant, nil })
		for _, call := range []struct{ method, path string }{
			{"POST", "/turn"}, {"POST", "/turn?stream=true"}, {"POST", "/snapshot"}, {"POST", "/wait"}, {"POST", "/abort"},
			{"GET", "/artifact?session=s&digest=d"}, {"PUT", "/artifact?session=s"}, {"GET", "/content?session=s&digest=d"},
			{"GET", "/content?snapshot=s.r&digest=d"}, {"GET", "/artifact?snapshot=s.r&digest=d"},
		} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(call.method, call.path, strings.NewReader(`{"text":"hi"}`)))
			if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.says) {
				t.Errorf("tenant %q: %s %s: %d %s", tt.tenant, call.method, call.path, w.Code, w.Body)
			}
		}
	}
}

// A program that forgets the tenant in a call of the library is refused as well, and
// one of a single tenant need not name it.
func TestCallsWithoutATenantAreOfTheSingleOne(t *testing.T) {
	store := threads.New(testdriver.New(t), nil)
	single := newService(t, agentOf(t, hosttest.Say("1"), hosttest.Say("2"))(), &sessions.Options{Store: store})
	out := run(t, single, &sessions.Request{Session: "s", Text: "hi"})
	if _, err := store.For(host.DefaultTenant).Thread(t.Context(), "s"); err != nil {
		t.Errorf("the session is not the default tenant's: %v", err)
	}
	several, err := sessions.New(agentOf(t, hosttest.Say("never"))(), &sessions.Options{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(several.Close)
	calls := map[string]func(s *sessions.Service, tenant string) error{
		"Run": func(s *sessions.Service, tenant string) error {
			_, err := s.Run(t.Context(), &sessions.Request{Tenant: tenant, Session: "s", Text: "hi"})
			return err
		},
		"Run in the background": func(s *sessions.Service, tenant string) error {
			_, err := s.Run(t.Context(), &sessions.Request{Tenant: tenant, Session: "s", Text: "hi", Detach: true})
			return err
		},
		"Snapshot": func(s *sessions.Service, tenant string) error {
			_, err := s.Snapshot(t.Context(), &sessions.SnapshotRequest{Tenant: tenant, Session: "s"})
			return err
		},
		"Wait": func(s *sessions.Service, tenant string) error {
			_, err := s.Wait(t.Context(), &sessions.SnapshotRequest{Tenant: tenant, Snapshot: out.Snapshot})
			return err
		},
		"Abort": func(s *sessions.Service, tenant string) error {
			_, err := s.Abort(t.Context(), tenant, out.Snapshot)
			return err
		},
		"Recover": func(s *sessions.Service, tenant string) error { _, err := s.Recover(t.Context(), tenant); return err },
		"Adopt":   func(s *sessions.Service, tenant string) error { _, err := s.Adopt(t.Context(), tenant); return err },
		"Background": func(s *sessions.Service, tenant string) error {
			_, err := s.Background(t.Context(), tenant)
			return err
		},
		"Artifact": func(s *sessions.Service, tenant string) error {
			_, err := s.Artifact(t.Context(), tenant, "s", "d")
			return err
		},
		"ArtifactAt": func(s *sessions.Service, tenant string) error {
			_, err := s.ArtifactAt(t.Context(), tenant, out.Snapshot, "d")
			return err
		},
		"PutArtifact": func(s *sessions.Service, tenant string) error {
			_, err := s.PutArtifact(t.Context(), tenant, "s", nil, strings.NewReader("x"))
			return err
		},
		"OpenArtifact": func(s *sessions.Service, tenant string) error {
			_, _, _, err := s.OpenArtifact(t.Context(), tenant, "s", "d")
			return err
		},
		"OpenArtifactAt": func(s *sessions.Service, tenant string) error {
			_, _, _, err := s.OpenArtifactAt(t.Context(), tenant, out.Snapshot, "d")
			return err
		},
	}
	for name, call := range calls {
		if err := call(several, ""); host.CodeOf(err) != host.Unauthenticated {
			t.Errorf("%s without a tenant, of several: %v, want code unauthenticated", name, err)
		}
		if err := call(several, host.DefaultTenant); host.CodeOf(err) != host.InvalidArgument {
			t.Errorf("%s of %q, of several: %v, want code invalid_argument", name, host.DefaultTenant, err)
		}
	}
	for name, call := range calls {
		if err := call(single, ""); host.CodeOf(err) == host.Unauthenticated {
			t.Errorf("%s of a single tenant: %v", name, err)
		}
	}
}
