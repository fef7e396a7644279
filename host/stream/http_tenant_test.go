package stream_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/stream"
	"github.com/agenthost/agenthost/internal/testhost"
)

// A handler whose credential names no tenant answers with a status, before any
// event, in every encoding.
func TestNoTenantIsUnauthenticatedBeforeAnyEvent(t *testing.T) {
	model := hosttest.NewModel()
	h := testhost.New(t, &host.Options{Model: model})
	agent := newAgent(t, "clerk", nil)
	for name, encoder := range map[string]stream.Encoder{"own": nil, "brief": stream.Brief(), "AgentKit": stream.AgentKit(nil)} {
		for tenant, want := range map[string]int{"": http.StatusUnauthorized, host.DefaultTenant: http.StatusBadRequest} {
			w := httptest.NewRecorder()
			r := httptest.NewRequest("POST", "/chat", nil)
			events := h.Stream(r.Context(), agent, &host.Request{Tenant: tenant, Text: "hi"})
			err := stream.Serve(w, r, events, &stream.ServeOptions{Encoder: encoder})
			if w.Code != want || strings.Contains(w.Body.String(), "run.started") || err == nil {
				t.Errorf("%s, tenant %q: %d %s (%v), want status %d", name, tenant, w.Code, w.Body, err, want)
			}
		}
	}
	if n := len(model.Requests()); n != 0 {
		t.Errorf("the model was asked %d times", n)
	}
}
