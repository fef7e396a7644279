package sessions_test

// Scenario: errors of drivers and tenants reach clients without their private text.

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
)

const driverText = "dial tcp 10.0.3.7:5432: password=hunter2"

// Answers, events and snapshots have no word of what failed inside.
func TestClientsAreNotToldOfDrivers(t *testing.T) {
	failure := hosttest.Fail(host.Errorf(host.Unavailable, "ask: %w", errors.New(driverText)))
	s := stored(t, agentOf(t, failure, failure)())
	h := handlerOf(s)
	for _, accept := range []string{"application/json", "text/event-stream", "application/x-ndjson"} {
		_, _, body := post(h, "/turn", `{"text":"hi","session":"s"}`, "Accept", accept)
		if strings.Contains(body, "hunter2") || !strings.Contains(body, "internal error (run ") || !strings.Contains(body, `"code":"unavailable"`) {
			t.Errorf("%s: %s", accept, body)
		}
		failure := hosttest.Fail(host.Errorf(host.Unavailable, "ask: %w", errors.New(driverText)))
		s = stored(t, agentOf(t, failure)())
		h = handlerOf(s)
	}
	out, err := s.Run(t.Context(), &request{Text: "hi", Session: "s"})
	if err == nil || !strings.Contains(err.Error(), driverText) || !strings.Contains(out.Error.Error(), driverText) {
		t.Errorf("the caller of the library gets %v", err)
	}
	if snap := snapshot(t, s, out.Turn); snap.Error == nil || strings.Contains(snap.Error.Error(), "hunter2") {
		t.Errorf("the snapshot has %v", snap.Error)
	}
}

func TestClientsAreNotToldWhyTheirTenantIsUnknown(t *testing.T) {
	s := stored(t, agentOf(t)())
	h := s.Handler(func(*http.Request) (string, error) { return "", errors.New(driverText) })
	for _, path := range []string{"/turn", "/snapshot", "/abort"} {
		code, _, body := post(h, path, `{}`)
		if code != http.StatusInternalServerError || strings.Contains(body, "hunter2") {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
}

// A credential that names no tenant is none, on every path.
