package stream_test

// Scenario: errors of drivers pass through encoders and refusals without their private
// text.

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/stream"
	"github.com/agenthost/agenthost/internal/testhost"
)

const driverText = "dial tcp 10.0.3.7:5432: password=hunter2"

// Each encoder leaves the text of a driver out, and Serve returns it for the log.
func TestEncodersLeaveDriversOut(t *testing.T) {
	encoders := map[string]func() stream.Encoder{
		"own": stream.Own, "brief": stream.Brief, "AgentKit": func() stream.Encoder { return stream.AgentKit(nil) },
	}
	for name, encoder := range encoders {
		t.Run(name, func(t *testing.T) {
			h := testhost.NewSingle(t, &host.Options{Model: hosttest.NewModel(hosttest.Fail(errors.New(driverText)))})
			a := testhost.NewAgent(t, "a", nil)
			w := httptest.NewRecorder()
			r := httptest.NewRequest("POST", "/", nil)
			err := stream.Serve(w, r, h.Stream(t.Context(), a, &host.Request{Tenant: "ada", Text: "hi", Run: "r1"}), &stream.ServeOptions{Encoder: encoder()})
			if err == nil || !strings.Contains(err.Error(), driverText) {
				t.Errorf("Serve returns %v", err)
			}
			if body := w.Body.String(); strings.Contains(body, "hunter2") || !strings.Contains(body, "internal error (run r1)") {
				t.Errorf("the client reads %s", body)
			}
		})
	}
}

// So does the answer to a run that does not begin.
func TestRefusalsLeaveDriversOut(t *testing.T) {
	w := httptest.NewRecorder()
	events := func(yield func(host.Event, error) bool) { yield(host.Event{}, errors.New(driverText)) }
	err := stream.Serve(w, httptest.NewRequest("POST", "/", nil), events, nil)
	if w.Code != 500 || strings.Contains(w.Body.String(), "hunter2") || err == nil || !strings.Contains(err.Error(), driverText) {
		t.Errorf("%d %s, Serve returns %v", w.Code, w.Body, err)
	}
}
