package modeltest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/modelhttp"
)

// Whole is what CheckWhole needs of a kind of models that can be asked for an answer in
// one piece.
type Whole struct {
	New New

	// Streams reports whether a request asks for a stream.
	Streams func(path, body string) bool

	Stream   string // an answer as a stream of events
	Document string // the same answer in one piece
}

// CheckWhole checks when a model asks for an answer in one piece, and that such an
// answer is the one that a stream would have been, however it comes.
func CheckWhole(t *testing.T, w Whole) {
	t.Run("asked for where model and caller say so", w.checkAsking)
	t.Run("read from a server that streams all the same", w.checkStreamInItsPlace)
	t.Run("asked for again when it is cut", w.checkCut)
	t.Run("ends with its caller's context", w.checkCanceled)
}

func wholeQuestion(whole bool) *llm.Request {
	req := Question("hi")
	req.Whole = whole
	return req
}

func (w Whole) checkAsking(t *testing.T) {
	var streamed bool
	var accept string
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		streamed, accept = w.Streams(r.URL.Path, string(b)), r.Header.Get("Accept")
		if streamed {
			Answer(http.StatusOK, "text/event-stream", w.Stream)(rw, r)
			return
		}
		Answer(http.StatusOK, "application/json", w.Document)(rw, r)
	}))
	defer server.Close()
	streaming := w.ask(t, w.at(t, server.URL, false), false)
	if !streamed || accept != "text/event-stream" {
		t.Errorf("without Whole: asked for a stream: %t, accept %q", streamed, accept)
	}
	for _, c := range []struct {
		name          string
		model, caller bool
	}{
		{"both", true, true}, {"the model alone", true, false}, {"the caller alone", false, true},
	} {
		o := w.ask(t, w.at(t, server.URL, c.model), c.caller)
		want := "text/event-stream"
		if c.model && c.caller {
			want = "application/json"
		}
		if streamed == (c.model && c.caller) || accept != want {
			t.Errorf("%s: asked for a stream: %t, accept %q, want %q", c.name, streamed, accept, want)
		}
		w.checkSame(t, c.name, streaming, o)
	}
}

func (w Whole) at(t *testing.T, baseURL string, whole bool) llm.Model {
	return w.New(t, modelhttp.Options{BaseURL: baseURL, Whole: whole})
}

func (w Whole) ask(t *testing.T, m llm.Model, whole bool) Outcome {
	t.Helper()
	o := Ask(t.Context(), m, wholeQuestion(whole))
	if o.Err != nil || o.Response == nil {
		t.Fatalf("answer %v, %v", o.Response, o.Err)
	}
	return o
}

// checkSame compares what a reader of two answers has at their ends: the pieces differ.
func (w Whole) checkSame(t *testing.T, name string, streamed, o Outcome) {
	t.Helper()
	streamed.Deltas, o.Deltas = streamed.Calls(), o.Calls()
	if diff := cmp.Diff(streamed, o); diff != "" {
		t.Errorf("%s: the answer is not that of a stream (-streamed +got):\n%s", name, diff)
	}
}

func (w Whole) checkStreamInItsPlace(t *testing.T) {
	server := httptest.NewServer(Answer(http.StatusOK, "text/event-stream", w.Stream))
	defer server.Close()
	w.checkSame(t, "a stream", w.ask(t, w.at(t, server.URL, false), false), w.ask(t, w.at(t, server.URL, true), true))
}

// Nothing of a whole answer is passed on before its end.
func (w Whole) checkCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		half := w.Document[:len(w.Document)/2]
		bodies := []io.Reader{strings.NewReader(half), io.MultiReader(strings.NewReader(half), brokenPipe{}), strings.NewReader(w.Document)}
		m := w.New(t, modelhttp.Options{BaseURL: "http://model.test", Whole: true, HTTPClient: &http.Client{Transport: RoundTrip(func(r *http.Request) (*http.Response, error) {
			body := bodies[0]
			bodies = bodies[1:]
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(body), Request: r}, nil
		})}})
		if o := w.ask(t, m, true); len(o.Retries) != 2 {
			t.Errorf("%d retries, want 2", len(o.Retries))
		}
	})
}

type brokenPipe struct{}

func (brokenPipe) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// A server that writes a whole answer is silent for as long as that takes: for longer
// than the silence that a stream may have, and not longer than its caller waits.
func (w Whole) checkCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		m := w.New(t, modelhttp.Options{BaseURL: "http://model.test", Whole: true, HTTPClient: &http.Client{Transport: RoundTrip(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})}})
		began := time.Now()
		o := Ask(ctx, m, wholeQuestion(true))
		if took := time.Since(began); !errors.Is(o.Err, context.DeadlineExceeded) || took != 5*time.Minute || len(o.Retries) > 0 {
			t.Errorf("%v after %s and %d retries, want the caller's deadline after 5m", o.Err, took, len(o.Retries))
		}
	})
}
