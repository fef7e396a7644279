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

// CheckAnswer asks a model and compares its response, whose text its deltas must give.
func CheckAnswer(t *testing.T, m llm.Model, want *llm.Response) {
	t.Helper()
	o := Ask(t.Context(), m, Question("hi"))
	if o.Err != nil {
		t.Fatal(o.Err)
	}
	if diff := cmp.Diff(want, o.Response); diff != "" {
		t.Errorf("response (-want +got):\n%s", diff)
	}
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

// CheckFault asks a model and compares its error, in which the key must not be.
func CheckFault(t *testing.T, m llm.Model, key string, want Fault) {
	t.Helper()
	o := Ask(t.Context(), m, Question("hi"))
	var e *fault.Error
	if !errors.As(o.Err, &e) || e.Code != want.Code || e.Retryable != want.Retryable || e.RetryAfter != want.After || !strings.Contains(e.Error()+e.Hint, want.Says) {
		t.Fatalf("error %#v, want %+v", o.Err, want)
	}
	if strings.Contains(e.Error()+e.Hint, key) {
		t.Errorf("the key is in the error: %v", e)
	}
}

// CheckLeaving leaves a model whose service has written the beginning of an answer, with the
// text Hel, and waits for the end of the request.
func CheckLeaving(t *testing.T, model func(http.HandlerFunc) llm.Model, beginning http.HandlerFunc) {
	t.Helper()
	gone := make(chan struct{})
	m := model(func(w http.ResponseWriter, r *http.Request) {
		beginning(w, r)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(gone)
	})
	for chunk, err := range m.Generate(t.Context(), Question("hi")) {
		if err != nil || chunk.Text != "Hel" {
			t.Fatalf("%+v, %v", chunk, err)
		}
		break
	}
	<-gone
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
