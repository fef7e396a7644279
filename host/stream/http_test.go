package stream_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runevent"
	"github.com/agenthost/agenthost/host/runs"
	"github.com/agenthost/agenthost/host/stream"
	"github.com/agenthost/agenthost/internal/testhost"
)

func respond(t *testing.T, h *host.Host, agent *host.Agent, accept string, opts *stream.ServeOptions) (*httptest.ResponseRecorder, error) {
	t.Helper()
	r := httptest.NewRequest("POST", "/chat", nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	err := stream.Serve(w, r, h.Stream(t.Context(), agent, &host.Request{Text: "hi"}), opts)
	return w, err
}

func words(n int) *hosttest.Model { return hosttest.NewModel(hosttest.Say(strings.Repeat("word ", n))) }

func TestServe(t *testing.T) {
	h := newHost(t, nil)
	for _, tt := range []struct{ accept, contentType, begins string }{
		{"text/event-stream", "text/event-stream", "id: 0\nevent: run.started\ndata: {\"seq\":0,"},
		{"", "text/event-stream", "id: 0\n"},
		{"application/x-ndjson", "application/x-ndjson", `{"seq":0,`},
	} {
		w, err := respond(t, h, newAgent(t, "clerk", &host.AgentOptions{Model: words(3)}), tt.accept, nil)
		body := w.Body.String()
		if err != nil || w.Code != 200 || !w.Flushed || w.Header().Get("Content-Type") != tt.contentType || !strings.HasPrefix(body, tt.begins) || !strings.Contains(body, `"type":"run.finished"`) {
			t.Errorf("accepting %q: %d, %v, %v\n%s", tt.accept, w.Code, err, w.Header(), body)
		}
	}
}

func TestServeFailures(t *testing.T) {
	refuses := hosttest.NewModel(hosttest.Fail(host.Errorf(host.Unavailable, "down")))
	w, err := respond(t, newHost(t, nil), newAgent(t, "clerk", &host.AgentOptions{Model: refuses}), "", nil)
	if host.CodeOf(err) != host.Unavailable || w.Code != 200 || !strings.Contains(w.Body.String(), `"finish_reason":"failed"`) || strings.Contains(w.Body.String(), "event: error") {
		t.Errorf("a run that fails: %v, %d\n%s", err, w.Code, w.Body)
	}
	w, err = respond(t, newHost(t, nil), newAgent(t, "clerk", nil), "", nil)
	if host.CodeOf(err) != host.InvalidArgument || w.Code != 400 || !strings.HasPrefix(w.Body.String(), `{"error":{"code":"invalid_argument"`) {
		t.Errorf("a run that cannot begin: %v, %d\n%s", err, w.Code, w.Body)
	}
	registry, err := runs.New(newHost(t, nil), &runs.Options{Kept: 10})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = registry.Close() })
	run, err := registry.Start(t.Context(), newAgent(t, "clerk", &host.AgentOptions{Model: words(100)}), &host.Request{Tenant: "acme", Text: "go"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := registry.Wait(t.Context(), "acme", run.ID); err != nil {
		t.Fatal(err)
	}
	recorder := httptest.NewRecorder()
	err = stream.Serve(recorder, httptest.NewRequest("GET", "/", nil), func(yield func(host.Event, error) bool) {
		for ev := range newHost(t, nil).Stream(t.Context(), newAgent(t, "clerk", &host.AgentOptions{Model: words(1)}), &host.Request{Text: "hi"}) {
			yield(ev, nil)
			break
		}
		for ev, err := range registry.Events(t.Context(), "acme", run.ID, 0) {
			yield(ev, err)
		}
	}, nil)
	if host.CodeOf(err) != host.ResourceExhausted || !strings.HasSuffix(recorder.Body.String(), "\n\n") || !strings.Contains(recorder.Body.String(), "event: error\ndata: {\"error\":{\"code\":\"resource_exhausted\"") {
		t.Errorf("a reader that fell behind: %v\n%s", err, recorder.Body)
	}
}

// onePipe is a listener of one connection without a network.
type onePipe struct {
	conns chan net.Conn
	done  chan struct{}
}

func (l *onePipe) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}
func (l *onePipe) Close() error   { close(l.done); return nil }
func (l *onePipe) Addr() net.Addr { return &net.TCPAddr{} }

// serveOne serves one connection and returns the client's end of it.
func serveOne(t *testing.T, handler http.HandlerFunc) net.Conn {
	client, server := net.Pipe()
	l := &onePipe{conns: make(chan net.Conn, 1), done: make(chan struct{})}
	l.conns <- server
	srv := &http.Server{Handler: handler}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = srv.Serve(l)
	}()
	t.Cleanup(func() {
		client.Close()
		srv.Close()
		<-served
	})
	return client
}

// A client that takes nothing holds the run for WriteTimeout and no longer.
func TestAClientThatTakesNothingIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		adapter := hosttest.NewHistory()
		history := testhost.NewHistory(t, adapter)
		agent := newAgent(t, "clerk", &host.AgentOptions{Model: words(10_000), History: history})
		ended := make(chan error, 1)
		client := serveOne(t, func(w http.ResponseWriter, r *http.Request) {
			events := newHost(t, nil).Stream(context.WithoutCancel(r.Context()), agent, &host.Request{Thread: "t1", Text: "hi"})
			ended <- stream.Serve(w, r, events, &stream.ServeOptions{WriteTimeout: 5 * time.Second})
		})
		began := time.Now()
		fmt.Fprint(client, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n")
		err := <-ended
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("the client was cut off after %s", took)
		}
		if host.CodeOf(err) != host.Canceled || !strings.Contains(err.Error(), "WriteTimeout of 5s") {
			t.Errorf("Serve: %v", err)
		}
		if turns := adapter.Turns(); len(turns) != 1 || turns[0].Status != chat.FinishCanceled {
			t.Errorf("the thread's turns are %+v", turns)
		}
	})
}

// heldWriter is a client that reads nothing until it is released.
type heldWriter struct {
	*httptest.ResponseRecorder
	released chan struct{}
	flushes  int
}

func (w *heldWriter) Write(b []byte) (int, error) {
	<-w.released
	return w.ResponseRecorder.Write(b)
}

func (w *heldWriter) Flush() { w.flushes++ }

func TestFramesThatAreReadyAreSentTogether(t *testing.T) {
	const deltas = 100
	w := &heldWriter{ResponseRecorder: httptest.NewRecorder(), released: make(chan struct{})}
	events := func(yield func(host.Event, error) bool) {
		for i := range deltas {
			if !yield(host.Event{Seq: int64(i), Run: "r1", Data: &runevent.TextDelta{Text: "word"}}, nil) {
				t.Error("a client that is slow ends the events")
			}
		}
		close(w.released)
	}
	if err := stream.Serve(w, httptest.NewRequest("POST", "/chat", nil), events, nil); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(w.Body.String(), "data: "); n != deltas || w.flushes > 2 {
		t.Errorf("%d frames are sent by %d flushes, want %d by 2 at most", n, w.flushes, deltas)
	}
}

func TestSilenceIsKeptAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := hosttest.ModelFunc(func(ctx context.Context, _ *llm.Request) hosttest.Reply {
			timer := time.NewTimer(time.Minute)
			defer timer.Stop()
			<-timer.C
			return hosttest.Say("done")
		})
		client := serveOne(t, func(w http.ResponseWriter, r *http.Request) {
			_ = stream.Serve(w, r, newHost(t, nil).Stream(r.Context(), newAgent(t, "clerk", &host.AgentOptions{Model: model}), &host.Request{Text: "hi"}), nil)
		})
		fmt.Fprint(client, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(client), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if comments := strings.Count(string(body), ": \n\n"); err != nil || comments < 3 || comments > 4 || !strings.Contains(string(body), "run.finished") {
			t.Errorf("a minute of silence has %d comments, want one every %s; %v", comments, stream.DefaultKeepAlive, err)
		}
	})
}

func ExampleServe() {
	model := hosttest.NewModel(hosttest.Say("Hello!"))
	agent, err := host.NewAgent("clerk", &host.AgentOptions{Model: model})
	if err != nil {
		panic(err)
	}
	h, err := host.New(nil)
	if err != nil {
		panic(err)
	}
	tenantOf := func(*http.Request) string { return "acme" } // from the credential
	handler := func(w http.ResponseWriter, r *http.Request) {
		events := h.Stream(r.Context(), agent, &host.Request{Tenant: tenantOf(r), Text: r.FormValue("text")})
		_ = stream.Serve(w, r, events, nil) // the client has left, or knows
	}
	w := httptest.NewRecorder()
	handler(w, httptest.NewRequest("POST", "/chat?text=hi", nil))
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "event: ") {
			fmt.Print(line)
		}
	}
	// Output:
	// event: run.started
	// event: state.patch
	// event: agent.started
	// event: model.called
	// event: text.delta
	// event: message
	// event: agent.finished
	// event: run.finished
}
