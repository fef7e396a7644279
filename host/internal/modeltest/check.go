package modeltest

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/llm"
)

// CheckAnswer asks a model of a server and compares its response, whose text its deltas
// must give.
func (n New) CheckAnswer(t *testing.T, handler http.HandlerFunc, want *llm.Response) {
	t.Helper()
	o := Ask(t.Context(), n.Serve(t, handler), Question("hi"))
	if o.Err != nil {
		t.Fatal(o.Err)
	}
	if diff := cmp.Diff(want, o.Response); diff != "" {
		t.Errorf("response (-want +got):\n%s", diff)
	}
	CheckText(t, o)
}

// CheckText compares the text of a response with that of its deltas.
func CheckText(t *testing.T, o Outcome) {
	t.Helper()
	if got := (&chat.Message{Parts: o.Response.Parts}).Text(); got != o.Text {
		t.Errorf("deltas say %q, the response %q", o.Text, got)
	}
}

// Fault is the error that a model must end with.
type Fault struct {
	Code      fault.Code
	Retryable bool
	After     time.Duration // RetryAfter
	Says      string        // part of the error or of its hint
}

// CheckFault asks a model of a server and compares its error, in which [Key] must not be.
func (n New) CheckFault(t *testing.T, handler http.HandlerFunc, want Fault) {
	t.Helper()
	o := Ask(t.Context(), n.Serve(t, handler), Question("hi"))
	var e *fault.Error
	if !errors.As(o.Err, &e) || e.Code != want.Code || e.Retryable != want.Retryable || e.RetryAfter != want.After || !strings.Contains(e.Error()+e.Hint, want.Says) {
		t.Fatalf("error %#v, want %+v", o.Err, want)
	}
	if strings.Contains(e.Error()+e.Hint, Key) {
		t.Errorf("the key is in the error: %v", e)
	}
}

// CheckFields compares fields of a request with those of a JSON object, and finds none of
// the others.
func CheckFields(t *testing.T, got map[string]any, want string, others []string) {
	t.Helper()
	for name, value := range Parse(t, want).(map[string]any) {
		if diff := cmp.Diff(value, got[name]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for _, name := range others {
		if v, ok := got[name]; ok {
			t.Errorf("%s is %v, want it left out", name, v)
		}
	}
}

// CheckMember compares a member of a request with a JSON text; "" is that of no member.
func CheckMember(t *testing.T, got map[string]any, name, want string) {
	t.Helper()
	var value any
	if want != "" {
		value = Parse(t, want)
	}
	if diff := cmp.Diff(value, got[name]); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}
