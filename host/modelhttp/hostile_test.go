package modelhttp_test

// Scenario: servers break the protocol, fall silent or send too much.

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/anthropicmodel"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/geminimodel"
	"github.com/agenthost/agenthost/host/internal/modeltest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/modelhttp"
	"github.com/agenthost/agenthost/host/openaimodel"
	"github.com/agenthost/agenthost/host/responsesmodel"
	"github.com/agenthost/agenthost/internal/testhost"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What a hostile or broken server does has the same outcome for every protocol.

// wire is one protocol: how it is asked, and how it says things.
type wire struct {
	name  string
	model modeltest.New
	hello []string                   // the events of an answer that says "Hello."
	calls func(ids ...string) string // an answer that calls a tool that nobody offered, under these ids
	fault string                     // an event in the middle of an answer: overloaded
}

func wires() []wire {
	each := func(ids []string, format string) string {
		list := make([]string, len(ids))
		for i, id := range ids {
			list[i] = fmt.Sprintf(format, i, id)
		}
		return strings.Join(list, ",")
	}
	return []wire{
		{
			name: "chat completions",
			model: func(t testing.TB, server modelhttp.Options) llm.Model {
				m, err := openaimodel.New("m1", &openaimodel.Options{Server: server})
				return modeltest.Close(t, m, err)
			},
			hello: []string{
				`{"id":"c","model":"m1","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}`,
				`{"id":"c","model":"m1","choices":[{"index":0,"delta":{"content":"Hel"}}]}`,
				`{"id":"c","model":"m1","choices":[{"index":0,"delta":{"content":"lo."}}]}`,
				`{"id":"c","model":"m1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`, `[DONE]`},
			calls: func(ids ...string) string {
				return `{"id":"c","model":"m1","choices":[{"index":0,"message":{"tool_calls":[` + each(ids, `{"index":%d,"id":"%s","type":"function","function":{"name":"nobody","arguments":"{}"}}`) + `]},"finish_reason":"tool_calls"}]}`
			},
			fault: `{"error":{"message":"Overloaded","code":529}}`,
		},
		{
			name: "responses",
			model: func(t testing.TB, server modelhttp.Options) llm.Model {
				m, err := responsesmodel.New("m1", &responsesmodel.Options{Server: server})
				return modeltest.Close(t, m, err)
			},
			hello: []string{
				`{"type":"response.created","response":{"id":"r"}}`,
				`{"type":"response.output_text.delta","output_index":0,"delta":"Hel"}`, `{"type":"response.output_text.delta","output_index":0,"delta":"lo."}`,
				`{"type":"response.completed","response":{"id":"r","model":"m1","status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"Hello."}]}]}}`},
			calls: func(ids ...string) string {
				return `{"id":"r","model":"m1","status":"completed","output":[` + each(ids, `{"type":"function_call","id":"fc_%d","call_id":"%s","name":"nobody","arguments":"{}"}`) + `]}`
			},
			fault: `{"type":"error","code":"server_error","message":"Overloaded","param":null}`,
		},
		{
			name: "messages",
			model: func(t testing.TB, server modelhttp.Options) llm.Model {
				m, err := anthropicmodel.New("m1", &anthropicmodel.Options{Server: server})
				return modeltest.Close(t, m, err)
			},
			hello: []string{
				`{"type":"message_start","message":{"id":"m","model":"m1"}}`, `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
				`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hel"}}`, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"lo."}}`,
				`{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`, `{"type":"message_stop"}`},
			calls: func(ids ...string) string {
				return `{"type":"message","id":"m","model":"m1","stop_reason":"tool_use","content":[` + each(ids, `{"type":"tool_use","n":%d,"id":"%s","name":"nobody","input":{}}`) + `]}`
			},
			fault: `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`,
		},
		{
			name: "generate content",
			model: func(t testing.TB, server modelhttp.Options) llm.Model {
				m, err := geminimodel.New("m1", &geminimodel.Options{Server: server})
				return modeltest.Close(t, m, err)
			},
			hello: []string{
				`{"candidates":[{"content":{"role":"model","parts":[{"text":"Hel"}]}}],"modelVersion":"m1"}`,
				`{"candidates":[{"content":{"role":"model","parts":[{"text":"lo."}]},"finishReason":"STOP"}],"modelVersion":"m1"}`},
			calls: func(ids ...string) string {
				return `{"candidates":[{"content":{"role":"model","parts":[` + each(ids, `{"n":%d,"functionCall":{"id":"%s","name":"nobody","args":{}}}`) + `]},"finishReason":"STOP"}]}`
			},
			fault: `{"error":{"code":503,"message":"Overloaded","status":"UNAVAILABLE"}}`,
		},
	}
}

// events writes events as a stream has them.
func events(data ...string) string {
	var b strings.Builder
	for _, d := range data {
		b.WriteString("data: " + d + "\n\n")
	}
	return b.String()
}

// halfway is the part of the answer in which one word has come.
func (w *wire) halfway() string {
	i := slices.IndexFunc(w.hello, func(e string) bool { return strings.Contains(e, "Hel") })
	return events(w.hello[:i+1]...)
}

func text(s string) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, s) }
}

// cut sends what it is given and cuts the connection.
func cut(first string) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(rw, first)
		_ = http.NewResponseController(rw).Flush()
		panic(http.ErrAbortHandler)
	}
}

func status(code int, header ...string) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(header); i += 2 {
			rw.Header().Set(header[i], header[i+1])
		}
		rw.WriteHeader(code)
		_, _ = io.WriteString(rw, `{"error":{"message":"not now","type":"x"}}`)
	}
}

func TestHostileServers(t *testing.T) {
	for _, w := range wires() {
		t.Run(w.name, func(t *testing.T) {
			hello, half := events(w.hello...), w.halfway()
			for _, tt := range []struct {
				name    string
				answers []http.HandlerFunc // the last again and again
				text    string             // that was shown
				retries int
				code    host.Code // "" for an answer
				says    string
			}{
				{"an answer", []http.HandlerFunc{text(hello)}, "Hello.", 0, "", ""},
				{"an answer with CRLF, comments and names of events", []http.HandlerFunc{text(": hi\r\n\r\nevent: x\r\nid: 7\r\nretry: 1\r\n" + strings.ReplaceAll(hello, "\n", "\r\n"))}, "Hello.", 0, "", ""},
				{"nothing at all", []http.HandlerFunc{text("")}, "", 1, host.Unavailable, "broke off"},
				{"nothing at all, once", []http.HandlerFunc{text(""), text(hello)}, "Hello.", 1, "", ""},
				{"half an event", []http.HandlerFunc{text(hello[:len("data: ")+9])}, "", 1, host.Unavailable, "broke off"},
				{"half an event after a word", []http.HandlerFunc{text(half + `data: {"ty`)}, "Hel", 0, host.Unavailable, "broke off"},
				{"a connection that is cut", []http.HandlerFunc{cut(half)}, "Hel", 0, host.Unavailable, "broke off"},
				{"a connection that is cut at once", []http.HandlerFunc{cut(""), text(hello)}, "Hello.", 1, "", ""},
				{"an end without the end of the protocol", []http.HandlerFunc{text(half)}, "Hel", 0, host.Unavailable, "broke off"},
				{"a giant line", []http.HandlerFunc{text("data: " + strings.Repeat("x", 5<<20))}, "", 0, host.Unavailable, "a line of more than"},
				{"a giant document", []http.HandlerFunc{text(`{"x":"` + strings.Repeat("x", 17<<20))}, "", 0, host.Unavailable, "a document of more than"},
				{"nested a million times", []http.HandlerFunc{text("data: " + strings.Repeat(`{"x":`, 500_000))}, "", 0, host.Unavailable, "not "},
				{"a page of a hotel", []http.HandlerFunc{text("<!DOCTYPE html><title>Log in</title>")}, "", 0, host.Unavailable, "Log in"},
				{"another JSON", []http.HandlerFunc{text(events(`[1,2]`))}, "", 0, host.Unavailable, "not "},
				{"an error in the middle", []http.HandlerFunc{text(half + events(w.fault))}, "Hel", 0, "*", "Overloaded"},
				{"an error at first", []http.HandlerFunc{text(events(w.fault)), text(hello)}, "Hello.", 1, "", ""},
				{"429, then an answer", []http.HandlerFunc{status(429, "Retry-After", "0"), text(hello)}, "Hello.", 1, "", ""},
				{"429 for ever", []http.HandlerFunc{status(429, "Retry-After", "0")}, "", 1, host.ResourceExhausted, "429"},
				{"429 for an hour", []http.HandlerFunc{status(429, "Retry-After", "3600")}, "", 0, host.ResourceExhausted, "wait 1h0m0s"},
				{"429 with nonsense", []http.HandlerFunc{status(429, "Retry-After", "soon"), text(hello)}, "Hello.", 1, "", ""},
				{"500", []http.HandlerFunc{status(500, "Retry-After", "0")}, "", 1, host.Unavailable, "500"},
				{"529, then an answer", []http.HandlerFunc{status(529, "Retry-After-Ms", "1"), text(hello)}, "Hello.", 1, "", ""},
				{"a refusal", []http.HandlerFunc{status(400)}, "", 0, host.InvalidArgument, "not now"},
				{"a status that is none", []http.HandlerFunc{status(299)}, "", 0, host.Unavailable, "299"},
				{"bytes that are not UTF-8", []http.HandlerFunc{text(strings.ReplaceAll(hello, "Hel", "H\xffl"))}, "*", 0, "", ""},
			} {
				t.Run(tt.name, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						p := &modeltest.Service{Answers: tt.answers}
						o := modeltest.Ask(t.Context(), w.model(t, modelhttp.Options{BaseURL: "http://nowhere.invalid", HTTPClient: servedBy(t, p), Timeout: patience, MaxRetries: 1}), modeltest.Question("hi"))
						if tt.text != "*" && o.Text != tt.text || len(o.Retries) != tt.retries {
							t.Errorf("%q and %d retries, want %q and %d", o.Text, len(o.Retries), tt.text, tt.retries)
						}
						for _, again := range p.Sent {
							if diff := cmp.Diff(p.Sent[0], again); diff != "" || again == nil {
								t.Errorf("the request is another one at the next attempt: %s", diff)
							}
						}
						checkOutcome(t, o, tt.code, tt.says)
					})
				})
			}
		})
	}
}

// servedBy returns a client of a server in the same bubble: pauses before retries take no time.
func servedBy(t *testing.T, handler http.Handler) *http.Client {
	t.Helper()
	listener := pipeListener{make(chan net.Conn), make(chan struct{})}
	server := &http.Server{Handler: handler}
	go func() { _ = server.Serve(listener) }()
	transport := &http.Transport{DialContext: listener.dial}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = server.Close()
	})
	return &http.Client{Transport: transport}
}

// pipeListener is a network of one address, without ports.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l pipeListener) dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case l.conns <- there:
		return here, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l pipeListener) Close() error {
	close(l.closed)
	return nil
}

func (l pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

// patience is how long a server may be silent.
const patience = time.Minute

// silent answers with what it has, and then with nothing until the caller leaves.
type silent struct{ first string }

func (s silent) RoundTrip(r *http.Request) (*http.Response, error) {
	if s.first == "" {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return &http.Response{StatusCode: 200, Header: http.Header{}, Request: r, Body: struct {
		io.Reader
		io.Closer
	}{io.MultiReader(strings.NewReader(s.first), untilGone{r}), io.NopCloser(nil)}}, nil
}

type untilGone struct{ r *http.Request }

func (u untilGone) Read([]byte) (int, error) {
	<-u.r.Context().Done()
	return 0, u.r.Context().Err()
}

func TestSilentServers(t *testing.T) {
	for _, w := range wires() {
		for name, first := range map[string]string{"": "", "Hel": w.halfway()} {
			t.Run(w.name+" after "+strconv.Quote(name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					began := time.Now()
					o := modeltest.Ask(t.Context(), w.model(t, modelhttp.Options{BaseURL: "http://nowhere.invalid", HTTPClient: &http.Client{Transport: silent{first}}, Timeout: patience, MaxRetries: 1}), modeltest.Question("hi"))
					if o.Text != name || len(o.Retries) > 0 || time.Since(began) != patience {
						t.Errorf("%q and %d retries after %s, want %q and none after %s", o.Text, len(o.Retries), time.Since(began), name, patience)
					}
					checkOutcome(t, o, host.DeadlineExceeded, "nothing came")
				})
			})
		}
	}
}

func checkOutcome(t *testing.T, o modeltest.Outcome, code host.Code, says string) {
	t.Helper()
	switch {
	case code == "":
		if o.Err != nil || o.Response == nil || o.Response.FinishReason != chat.FinishStop {
			t.Errorf("%+v, %v; want an answer", o.Response, o.Err)
		}
		return
	case o.Response != nil || o.Err == nil:
		t.Fatalf("%+v, want an error of code %s", o.Response, code)
	case code != "*" && host.CodeOf(o.Err) != code:
		t.Errorf("%v (%s), want code %s", o.Err, host.CodeOf(o.Err), code)
	}
	e := fault.AsError(o.Err)
	if full := e.Error() + e.Hint; !strings.Contains(full, says) || len(full) > 1500 {
		t.Errorf("%d bytes of error %q, want %q in it", len(full), full, says)
	}
}

func TestLeavingEndsTheRequest(t *testing.T) {
	for _, w := range wires() {
		t.Run(w.name, func(t *testing.T) {
			gone := make(chan struct{})
			m := w.model.Serve(t, func(rw http.ResponseWriter, r *http.Request) {
				text(w.halfway())(rw, r)
				_ = http.NewResponseController(rw).Flush()
				<-r.Context().Done()
				close(gone)
			})
			for chunk, err := range m.Generate(t.Context(), modeltest.Question("hi")) {
				if err != nil || chunk.Text != "Hel" {
					t.Fatalf("%+v, %v", chunk, err)
				}
				break
			}
			<-gone
		})
	}
}

func TestRawHasTheEvents(t *testing.T) {
	for _, w := range wires() {
		t.Run(w.name, func(t *testing.T) {
			srv := httptest.NewServer(text(events(w.hello...)))
			defer srv.Close()
			o := modeltest.Ask(t.Context(), w.model(t, modelhttp.Options{BaseURL: srv.URL, KeepRaw: true}), modeltest.Question("hi"))
			want := "[" + strings.TrimSuffix(strings.Join(w.hello, ","), ",[DONE]") + "]"
			if o.Err != nil || string(o.Response.Raw) != want {
				t.Errorf("raw %s, %v, want %s", o.Response.Raw, o.Err, want)
			}
		})
	}
}

// Calls that no model should make come through as they are: the host tells calls
// with one id apart, and tells the model that there is no such tool.
func TestHostileCalls(t *testing.T) {
	for _, w := range wires() {
		t.Run(w.name, func(t *testing.T) {
			srv := httptest.NewServer(&modeltest.Service{Answers: []http.HandlerFunc{text(w.calls("a", "a", "", "b")), text(events(w.hello...))}})
			defer srv.Close()
			agent := testhost.NewAgent(t, "clerk", &host.AgentOptions{Model: w.model(t, modelhttp.Options{BaseURL: srv.URL, MaxRetries: -1})})
			h := testhost.NewSingle(t, nil)
			result, err := h.Run(t.Context(), agent, &host.Request{Tenant: "acme", Text: "hi"})
			if err != nil || result.Text() != "Hello." {
				t.Fatalf("%v, %v", result, err)
			}
			ids := map[string]bool{}
			for _, m := range result.Results[0].Messages {
				for _, r := range m.ToolResults() {
					if ids[r.ID] || r.ID == "" || !r.IsError || !strings.Contains(r.ContentText(), "nobody") {
						t.Errorf("result %+v", r)
					}
					ids[r.ID] = true
				}
			}
			// The two that are alike in every word are one call.
			if len(ids) != 3 || !ids["a"] || !ids["b"] {
				t.Errorf("results of %v, want those of a, b and one that was given an id", ids)
			}
		})
	}
}
