package stream_test

import (
	"encoding/json"
	"iter"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/runevent"
	"github.com/agenthost/agenthost/host/stream"
)

// framesOf hides all of an encoder but its frames.
type framesOf struct{ stream.Encoder }

// The answer with the unchanged events is written without frames, and is the same.
func TestAnAnswerIsThatOfItsFrames(t *testing.T) {
	data := []host.EventData{
		&runevent.RunStarted{Tenant: "acme", Thread: "t\n1"}, &runevent.TextDelta{Text: "a\r\nb\u2028<é>"}, &runevent.ToolStarted{ID: "c1", Name: "t", Arguments: json.RawMessage("{\n  \"a\":\r\n 1\n}")},
		&runevent.MessageDone{Message: host.AssistantText("two\nlines")}, &runevent.UnknownEvent{Name: "other", JSON: json.RawMessage("{\n}")},
		&runevent.RunFinished{Error: host.Errorf(host.Internal, "a secret of the host")},
	}
	events := func() iter.Seq2[host.Event, error] {
		return func(yield func(host.Event, error) bool) {
			for i, d := range data {
				if !yield(host.Event{Seq: int64(i), Time: time.Unix(int64(i), 0), Run: "r1", Agent: "clerk", Data: d}, nil) {
					return
				}
			}
		}
	}
	for _, accept := range []string{"text/event-stream", "application/x-ndjson"} {
		answer := func(encoder stream.Encoder) string {
			w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
			r.Header.Set("Accept", accept)
			if err := stream.Serve(w, r, events(), &stream.ServeOptions{Encoder: encoder}); err != nil {
				t.Fatal(err)
			}
			return w.Body.String()
		}
		if got, want := answer(stream.Own()), answer(framesOf{stream.Own()}); got != want {
			t.Errorf("%s is answered\n%s, and by frames\n%s", accept, got, want)
		}
	}
}

func TestAnEventThatCannotBeWrittenEndsTheAnswer(t *testing.T) {
	w := httptest.NewRecorder()
	err := stream.Serve(w, httptest.NewRequest("GET", "/", nil), func(yield func(host.Event, error) bool) {
		_ = yield(host.Event{Run: "r1", Data: &runevent.TextDelta{Text: "x"}}, nil) &&
			yield(host.Event{Seq: 1, Run: "r1", Data: &runevent.ToolStarted{Arguments: json.RawMessage(`{"a":`)}}, nil)
	}, nil)
	if host.CodeOf(err) != host.Internal {
		t.Errorf("the error is %v", err)
	}
}
