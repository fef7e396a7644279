package openaimodel_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/internal/modeltest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/modelhttp"
	"github.com/agenthost/agenthost/host/openaimodel"
)

func TestMain(m *testing.M) {
	if os.Getenv(fakeModelVariable) != "" {
		serveFakeModel()
		return
	}
	goleak.VerifyTestMain(m)
}

// serve starts a server and returns a model that asks it, without retries
// unless opts says otherwise.
func serve(t *testing.T, handler http.HandlerFunc, opts *openaimodel.Options) *openaimodel.Model {
	t.Helper()
	srv := httptest.NewServer(handler)
	t.Cleanup(srv.Close)
	return modelAt(t, srv.URL+"/v1", opts)
}

func modelAt(t *testing.T, baseURL string, opts *openaimodel.Options) *openaimodel.Model {
	t.Helper()
	if opts == nil {
		opts = &openaimodel.Options{Server: modelhttp.Options{MaxRetries: -1}}
	}
	o := *opts
	o.Server.BaseURL = baseURL
	if o.Server.APIKey == "" {
		o.Server.APIKey = modeltest.Key
	}
	return modelWith(t, "m1", o)
}

// stream answers with the lines of an event stream.
func stream(lines ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, l := range lines {
			io.WriteString(w, l+"\n\n")
		}
	}
}

func delta(d string) string {
	return `data: {"id":"c1","model":"m1-2026","choices":[{"index":0,"delta":` + d + `,"finish_reason":null}]}`
}

func finish(reason string) string {
	return `data: {"id":"c1","model":"m1-2026","choices":[{"index":0,"delta":{},"finish_reason":"` + reason + `"}]}`
}

const (
	usage = `data: {"id":"c1","model":"m1-2026","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10,` +
		`"prompt_tokens_details":{"cached_tokens":2},"completion_tokens_details":{"reasoning_tokens":1}}}`
	done = `data: [DONE]`
)

func text(s string) []host.Part { return []host.Part{&host.Text{Text: s}} }

func call(id, name, arguments string) host.Part {
	return &host.ToolCall{ID: id, Name: name, Arguments: json.RawMessage(arguments)}
}

// thought is reasoning that came in a field.
func thought(text, field string) host.Part {
	return &host.Reasoning{Text: text, Extra: chat.Extra{{Name: "openai", Value: json.RawMessage(`{"model":"m1","field":"` + field + `"}`)}}}
}

func TestAnswers(t *testing.T) {
	want := func(reason host.FinishReason, parts ...host.Part) *llm.Response {
		return &llm.Response{ID: "c1", Model: "m1-2026", Parts: parts, FinishReason: reason}
	}
	withUsage := func(r *llm.Response) *llm.Response {
		r.Usage = host.Usage{InputTokens: 7, OutputTokens: 3, CachedTokens: 2, ReasoningTokens: 1}
		return r
	}
	for _, tt := range []struct {
		name    string
		handler http.HandlerFunc
		want    *llm.Response
	}{
		{"streams text and usage", stream(delta(`{"role":"assistant","content":""}`), delta(`{"content":"Hel"}`), delta(`{"content":"lo"}`), finish("stop"), usage, done),
			withUsage(want(chat.FinishStop, text("Hello")...))},
		{"streams a tool call in fragments", stream(
			delta(`{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"look","arguments":""}}]}`),
			delta(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"id\":"}}]}`),
			delta(`{"tool_calls":[{"index":0,"function":{"arguments":"1042}"}}]}`), finish("tool_calls"), done),
			want(chat.FinishToolCalls, call("a", "look", `{"id":1042}`))},
		{"streams parallel calls, interleaved", stream(
			delta(`{"content":"Looking."}`),
			delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"look","arguments":"{"}},{"index":1,"id":"b","function":{"name":"look","arguments":"{"}}]}`),
			delta(`{"tool_calls":[{"index":1,"function":{"arguments":"\"id\":2}"}}]}`),
			delta(`{"tool_calls":[{"index":0,"function":{"arguments":"\"id\":1}"}}]}`), finish("tool_calls"), done),
			want(chat.FinishToolCalls, &host.Text{Text: "Looking."}, call("a", "look", `{"id":1}`), call("b", "look", `{"id":2}`))},
		{"takes stop after tool calls for tool_calls", stream(
			delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"look","arguments":"{}"}}]}`), finish("stop"), done),
			want(chat.FinishToolCalls, call("a", "look", `{}`))},
		{"tells calls apart by id when all have index 0", stream(
			delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"look","arguments":"{\"id\":1}"}}]}`),
			delta(`{"tool_calls":[{"index":0,"id":"b","function":{"name":"look","arguments":"{\"id\":2}"}}]}`), finish("tool_calls"), done),
			want(chat.FinishToolCalls, call("a", "look", `{"id":1}`), call("b", "look", `{"id":2}`))},
		{"takes calls without index or id", stream(
			delta(`{"tool_calls":[{"function":{"name":"look","arguments":"{\"id\":1}"}}]}`),
			delta(`{"tool_calls":[{"function":{"name":"find","arguments":{"id":2}}}]}`), finish("tool_calls"), done),
			want(chat.FinishToolCalls, call("", "look", `{"id":1}`), call("", "find", `{"id":2}`))},
		{"takes an id that comes with every fragment", stream(
			delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"look","arguments":"{"}}]}`),
			delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"look","arguments":"}"}}]}`), finish("tool_calls"), done),
			want(chat.FinishToolCalls, call("a", "look", `{}`))},
		{"shows reasoning_content", stream(delta(`{"reasoning_content":"Hm. "}`), delta(`{"reasoning_content":"Yes."}`), delta(`{"content":"42"}`), finish("stop"), done),
			want(chat.FinishStop, thought("Hm. Yes.", "reasoning_content"), &host.Text{Text: "42"})},
		{"shows reasoning", stream(delta(`{"reasoning":"Hm.","content":"42"}`), finish("stop"), done),
			want(chat.FinishStop, thought("Hm.", "reasoning"), &host.Text{Text: "42"})},
		{"counts what DeepSeek took from its cache", stream(delta(`{"content":"x"}`), finish("stop"),
			`data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3,"prompt_cache_hit_tokens":2,"completion_tokens_details":{"reasoning_tokens":1}}}`, done),
			withUsage(want(chat.FinishStop, text("x")...))},
		{"takes content in parts", stream(delta(`{"content":[{"type":"text","text":"4"},{"type":"text","text":"2"}]}`), finish("stop"), done),
			want(chat.FinishStop, text("42")...)},
		{"takes a refusal for text", stream(delta(`{"refusal":"I will not."}`), finish("content_filter"), done),
			want(chat.FinishContentFilter, text("I will not.")...)},
		{"maps length", stream(delta(`{"content":"Once upon"}`), finish("length"), done), want(chat.FinishLength, text("Once upon")...)},
		{"maps an unknown reason to stop", stream(delta(`{"content":"x"}`), finish("eos"), done), want(chat.FinishStop, text("x")...)},
		{"takes an end without DONE after a finish reason", stream(delta(`{"content":"x"}`), finish("stop")), want(chat.FinishStop, text("x")...)},
		{"takes DONE without a finish reason", stream(delta(`{"content":"x"}`), done), want(chat.FinishStop, text("x")...)},
		{"takes an empty answer", stream(delta(`{"content":""}`), finish("stop"), done), want(chat.FinishStop)},
		{"skips comments and other fields", stream(": keep-alive", "event: message\nid: 7\nretry: 10\n"+delta(`{"content":"x"}`), ": keep-alive", finish("stop"), done),
			want(chat.FinishStop, text("x")...)},
		{"reads CRLF and no blanks after the colon", stream(strings.ReplaceAll(delta(`{"content":"x"}`), "data: ", "data:")+"\r\n\r\n"+finish("stop")+"\r\n\r\n", done),
			want(chat.FinishStop, text("x")...)},
		{"ignores other choices", stream(`data: {"id":"c1","model":"m1-2026","choices":[{"index":1,"delta":{"content":"other"}},{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}]}`, done),
			want(chat.FinishStop, text("x")...)},
		{"reads a document from a server that does not stream", modeltest.Answer(200, "application/json", `
			{"id":"c1","object":"chat.completion","model":"m1-2026",
			 "choices":[{"index":0,"message":{"role":"assistant","content":"Hello","tool_calls":[
			   {"id":"a","type":"function","function":{"name":"look","arguments":"{\"id\":1}"}},
			   {"id":"b","type":"function","function":{"name":"look","arguments":"{\"id\":2}"}}]},"finish_reason":"tool_calls"}],
			 "usage":{"prompt_tokens":7,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":2},"completion_tokens_details":{"reasoning_tokens":1}}}`),
			withUsage(want(chat.FinishToolCalls, &host.Text{Text: "Hello"}, call("a", "look", `{"id":1}`), call("b", "look", `{"id":2}`)))},
		{"reads a document that says it is a stream", modeltest.Answer(200, "text/event-stream", "\xef\xbb\xbf"+`{"id":"c1","model":"m1-2026","choices":[{"message":{"content":"x"},"finish_reason":"stop"}]}`),
			want(chat.FinishStop, text("x")...)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			newModel.CheckAnswer(t, tt.handler, tt.want)
		})
	}
}

func TestFailures(t *testing.T) {
	errorBody := func(message, code string) string {
		return fmt.Sprintf(`{"error":{"message":%q,"type":"t","param":null,"code":%q}}`, message, code)
	}
	for _, tt := range []struct {
		name      string
		handler   http.HandlerFunc
		code      host.Code
		retryable bool
		says      []string
	}{
		{"wrong key", modeltest.Answer(401, "application/json", errorBody("Incorrect API key provided: "+modeltest.Key, "invalid_api_key")), host.Unauthenticated, false,
			[]string{"Incorrect API key", "OPENAI_API_KEY", "[secret]"}},
		{"forbidden", modeltest.Answer(403, "application/json", errorBody("Country not supported", "x")), host.PermissionDenied, false, []string{"Country not supported"}},
		{"unknown model", modeltest.Answer(404, "application/json", errorBody("The model does not exist", "model_not_found")), host.NotFound, false, []string{`"m1"`, "/v1/models"}},
		{"unknown address", modeltest.Answer(404, "text/plain", "404 page not found"), host.NotFound, false, []string{`"m1"`, "/v1"}},
		{"bad request", modeltest.Answer(400, "application/json", errorBody("Invalid schema for function 'look'", "invalid_function_parameters")), host.InvalidArgument, false, []string{"Invalid schema"}},
		{"unprocessable, with a detail", modeltest.Answer(422, "application/json", `{"detail":[{"loc":["body"],"msg":"field required"}]}`), host.InvalidArgument, false, []string{"field required"}},
		{"conversation too long", modeltest.Answer(400, "application/json", errorBody("This model's maximum context length is 8192 tokens", "context_length_exceeded")), host.ResourceExhausted, false,
			[]string{"maximum context length", "token limiter"}},
		{"request too large", modeltest.Answer(413, "text/plain", "too large"), host.ResourceExhausted, false, []string{"send less"}},
		{"too many requests", modeltest.Answer(429, "application/json", errorBody("Rate limit reached", "rate_limit_exceeded")), host.ResourceExhausted, true, []string{"Rate limit reached", "later"}},
		{"no credit", modeltest.Answer(429, "application/json", errorBody("You exceeded your current quota", "insufficient_quota")), host.ResourceExhausted, false, []string{"billing"}},
		{"payment required", modeltest.Answer(402, "application/json", `{"error":"no credits"}`), host.ResourceExhausted, false, []string{"no credits", "billing"}},
		{"server error", modeltest.Answer(500, "text/html", "<html><body>oops</body></html>"), host.Unavailable, true, []string{"500", "oops"}},
		{"overloaded", modeltest.Answer(503, "application/json", `{"message":"loading model"}`), host.Unavailable, true, []string{"503", "loading model"}},
		{"gateway timeout", modeltest.Answer(504, "text/plain", "upstream"), host.Unavailable, true, []string{"504"}},
		{"server's own timeout", modeltest.Answer(408, "text/plain", ""), host.DeadlineExceeded, true, []string{"408"}},
		{"no content", modeltest.Answer(204, "text/plain", ""), host.Unavailable, false, []string{"204"}},
		{"redirect to another host", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://elsewhere.invalid/v1", http.StatusTemporaryRedirect)
		}, host.Unavailable, false, []string{"redirects to another host, http://elsewhere.invalid", "base URL"}},

		{"HTML", modeltest.Answer(200, "text/html", "<!DOCTYPE html>\n<html>\n<title>Log in to the guest network</title>"), host.Unavailable, false,
			[]string{"<!DOCTYPE html> <html> <title>Log in", "base URL"}},
		{"plain text", modeltest.Answer(200, "text/plain", "Ollama is running"), host.Unavailable, false, []string{"Ollama is running"}},
		{"another JSON", modeltest.Answer(200, "application/json", `["hello"]`), host.Unavailable, false, []string{`[\"hello\"]`}},
		{"a document without choices", modeltest.Answer(200, "application/json", `{"hello":"world"}`), host.Unavailable, true, []string{"broke off"}},
		{"a document with an error", modeltest.Answer(200, "application/json", `{"error":{"message":"no such model loaded","code":"invalid_request_error"}}`), host.InvalidArgument, false, []string{"no such model loaded"}},
		{"half a document", modeltest.Answer(200, "application/json", `{"id":"c1","choices":[{"index":0,"message":{"conte`), host.Unavailable, true, []string{"broke off"}},
		{"wrong types", stream(`data: {"choices":[{"delta":{"content":{"a":1}}}]}`, done), host.Unavailable, false, []string{"not a chat completion"}},
		{"broken JSON in an event", stream(delta(`{"content":"x"}`), `data: {"choices":[{"delta":`, done), host.Unavailable, false, []string{"not a chat completion"}},
		{"only comments", stream(": keep-alive", ": keep-alive"), host.Unavailable, true, []string{"broke off"}},
		{"only DONE", stream(done), host.Unavailable, true, []string{"no answer"}},
		{"only usage", stream(usage, done), host.Unavailable, true, []string{"no answer"}},
		{"breaks off before anything", stream(delta(`{"role":"assistant"}`)), host.Unavailable, true, []string{"broke off"}},
		{"breaks off in a field's name", modeltest.Answer(200, "text/event-stream", delta(`{"content":"x"}`)+"\n\n"+`da`), host.Unavailable, true, []string{"broke off"}},
		{"gives up", stream(delta(`{"content":"x"}`), finish("error"), done), host.Unavailable, true, []string{"gave up"}},
		{"an error in the stream", stream(delta(`{"content":"x"}`), `data: {"error":{"message":"The server had an error","type":"server_error","code":null}}`, done), host.Unavailable, true,
			[]string{"The server had an error"}},
		{"an error in the stream after a comment", stream(": ping", delta(`{"content":"x"}`), ": ping", `data: {"error":{"message":"Overloaded","code":529}}`), host.Unavailable, true, []string{"Overloaded"}},
		{"an error in the stream, not first", stream(`data: {"id":"c1","error":{"message":"rate limited","code":429},"choices":[]}`), host.ResourceExhausted, true, []string{"rate limited"}},
		{"an error that is a string", stream(`data: {"error":"out of memory"}`), host.Unavailable, true, []string{"out of memory"}},
		{"an error with a list", stream(`data: {"error":{"message":["a","b"]}}`), host.Unavailable, true, []string{`["a","b"]`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := modeltest.Ask(t.Context(), serve(t, tt.handler, nil), modeltest.Question("hi"))
			wantError(t, o, tt.code, tt.retryable, tt.says...)
		})
	}
}

// wantError checks an outcome that must be an error and nothing else.
func wantError(t *testing.T, o modeltest.Outcome, code host.Code, retryable bool, says ...string) {
	t.Helper()
	if o.Response != nil {
		t.Fatalf("Generate answers %+v, want code %s", o.Response, code)
	}
	var e *host.Error
	if !errors.As(o.Err, &e) || e.Code != code || e.Retryable != retryable {
		t.Fatalf("Generate: %#v, want code %s, retryable %t", o.Err, code, retryable)
	}
	for _, s := range says {
		if !strings.Contains(e.Error(), s) {
			t.Errorf("error %q does not say %q", e.Error(), s)
		}
	}
	if !strings.Contains(e.Error(), "http://127.0.0.1:") {
		t.Errorf("error %q does not name the server", e.Error())
	}
	if strings.Contains(e.Error(), modeltest.Key) {
		t.Errorf("error %q tells the key", e.Error())
	}
	if e.Hint == "" && code != host.InvalidArgument && code != host.Canceled {
		t.Errorf("error %q has no next step", e.Error())
	}
}

func TestDown(t *testing.T) {
	const url = "http://127.0.0.1:1" // a port that no listener of another process is given
	o := modeltest.Ask(t.Context(), modelAt(t, url+"/v1", nil), modeltest.Question("hi"))
	wantError(t, o, host.Unavailable, true, "connection refused", "is the server at "+url+" running?")
}

func TestNoSuchHost(t *testing.T) {
	m := newModel(t, modelhttp.Options{BaseURL: "http://user:hunter22@models.invalid/v1", MaxRetries: -1})
	o := modeltest.Ask(t.Context(), m, modeltest.Question("hi"))
	if host.CodeOf(o.Err) != host.Unavailable || !strings.Contains(o.Err.Error(), "http://models.invalid") {
		t.Errorf("Generate: %v, want unavailable and the host's name", o.Err)
	}
	if strings.Contains(o.Err.Error(), "hunter22") {
		t.Errorf("error %q tells the password", o.Err)
	}
}

func TestNoKeySaysWhichVariable(t *testing.T) {
	srv := httptest.NewServer(modeltest.Answer(401, "application/json", `{"error":{"message":"no key"}}`))
	defer srv.Close()
	m := newModel(t, modelhttp.Options{BaseURL: srv.URL})
	wantError(t, modeltest.Ask(t.Context(), m, modeltest.Question("hi")), host.Unauthenticated, false, "set OPENAI_API_KEY")
}

func TestSlow(t *testing.T) {
	hang := func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	for _, tt := range []struct {
		name    string
		handler http.HandlerFunc
	}{
		{"before the first byte", func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body); <-r.Context().Done() }},
		{"after the headers", hang},
		{"in the answer", func(w http.ResponseWriter, r *http.Request) { stream(delta(`{"content":"x"}`))(w, r); hang(w, r) }},
		{"in an error's body", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(500); hang(w, r) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.name == "in an error's body" { // what came of it is enough
				o := patiently(t, tt.handler, modelhttp.Options{MaxRetries: -1}, func(o modeltest.Outcome) bool { return codeOf(o.Err) == host.Unavailable })
				wantError(t, modeltest.Outcome{Err: o.Err}, host.Unavailable, true, "500")
				return
			}
			opts := &openaimodel.Options{Server: modelhttp.Options{Timeout: 50 * time.Millisecond, MaxRetries: -1}}
			o := modeltest.Ask(t.Context(), serve(t, tt.handler, opts), modeltest.Question("hi"))
			wantError(t, o, host.DeadlineExceeded, true, "nothing came for 50ms")
			if !errors.Is(o.Err, context.DeadlineExceeded) {
				t.Errorf("%v is not context.DeadlineExceeded", o.Err)
			}
		})
	}
}

// patiently asks a server that falls silent, with longer and longer timeouts until what it
// sends before is there in time, however busy the machine.
func patiently(t *testing.T, handler http.HandlerFunc, opts modelhttp.Options, enough func(modeltest.Outcome) bool) (o modeltest.Outcome) {
	t.Helper()
	for opts.Timeout = 50 * time.Millisecond; opts.Timeout < time.Minute; opts.Timeout *= 5 {
		if o = modeltest.Ask(t.Context(), serve(t, handler, &openaimodel.Options{Server: opts}), modeltest.Question("hi")); enough(o) {
			break
		}
	}
	return o
}

func TestFinishedAnswerSurvivesASilentEnd(t *testing.T) {
	o := patiently(t, func(w http.ResponseWriter, r *http.Request) {
		stream(delta(`{"content":"x"}`), finish("stop"))(w, r)
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}, modelhttp.Options{}, func(o modeltest.Outcome) bool { return o.Err == nil })
	if o.Err != nil || o.Response == nil {
		t.Errorf("Generate: %v, %+v; want the answer", o.Err, o.Response)
	}
}

func TestCancel(t *testing.T) {
	const promptly = time.Minute // milliseconds are meant; the machine may be busy
	cause := errors.New("user pressed ctrl-C")
	for _, tt := range []struct {
		name    string
		handler func(reached chan<- struct{}) http.HandlerFunc
	}{
		{"before the headers", func(reached chan<- struct{}) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				close(reached)
				<-r.Context().Done()
			}
		}},
		{"mid-stream", func(reached chan<- struct{}) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				stream(delta(`{"content":"x"}`))(w, r)
				http.NewResponseController(w).Flush()
				close(reached)
				<-r.Context().Done()
			}
		}},
		{"while waiting to try again", func(reached chan<- struct{}) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Retry-After", "50")
				w.WriteHeader(503)
				close(reached)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			reached := make(chan struct{})
			m := serve(t, tt.handler(reached), &openaimodel.Options{})
			ctx, cancel := context.WithCancelCause(t.Context())
			var at time.Time
			go func() { <-reached; at = time.Now(); cancel(cause) }()
			o := modeltest.Ask(ctx, m, modeltest.Question("hi"))
			took := time.Since(at)
			if host.CodeOf(o.Err) != host.Canceled || o.Err.Error() != cause.Error() { // the server is not at fault
				t.Errorf("error %q, want the cause alone, with code canceled", o.Err)
			}
			if !errors.Is(o.Err, context.Canceled) || !errors.Is(o.Err, cause) {
				t.Errorf("%v is not both context.Canceled and its cause", o.Err)
			}
			if took > promptly {
				t.Errorf("cancelling took %s", took)
			}
			t.Logf("cancelling took %s", took)
		})
	}
}

func TestDeadlineOfTheCaller(t *testing.T) {
	m := serve(t, func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body); <-r.Context().Done() }, nil)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, host.Errorf(host.DeadlineExceeded, "run exceeds its limit"))
	defer cancel()
	o := modeltest.Ask(ctx, m, modeltest.Question("hi"))
	if host.CodeOf(o.Err) != host.DeadlineExceeded || !strings.Contains(o.Err.Error(), "run exceeds its limit") {
		t.Errorf("Generate: %v, want the caller's deadline and its cause", o.Err)
	}
}

func TestStreamOptionsAreForgottenByAServerThatRefusesThem(t *testing.T) {
	var asked, requests atomic.Int32
	m := serve(t, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if b, _ := io.ReadAll(r.Body); strings.Contains(string(b), "stream_options") {
			asked.Add(1)
			modeltest.Answer(400, "application/json", `{"error":{"message":"Unrecognized request argument: stream_options"}}`)(w, r)
			return
		}
		stream(delta(`{"content":"x"}`), finish("stop"), done)(w, r)
	}, nil)
	for range 2 {
		if o := modeltest.Ask(t.Context(), m, modeltest.Question("hi")); o.Err != nil || o.Text != "x" || len(o.Retries) > 0 {
			t.Fatalf("Generate: %+v", o)
		}
	}
	if asked.Load() != 1 || requests.Load() != 3 {
		t.Errorf("asked for usage %d times in %d requests, want 1 in 3", asked.Load(), requests.Load())
	}
}

func TestResponseFormatIsLeftOutForAServerThatRefusesIt(t *testing.T) {
	var requests atomic.Int32
	m := serve(t, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if b, _ := io.ReadAll(r.Body); strings.Contains(string(b), "response_format") {
			modeltest.Answer(400, "application/json", `{"error":{"message":"response_format json_schema is not supported"}}`)(w, r)
			return
		}
		stream(delta(`{"content":"{}"}`), finish("stop"), done)(w, r)
	}, nil)
	req := modeltest.Question("hi")
	req.Output = &llm.OutputSpec{Name: "x", Schema: json.RawMessage(`{"type":"object"}`)}
	if o := modeltest.Ask(t.Context(), m, req); o.Err != nil || o.Text != "{}" || len(o.Retries) > 0 || requests.Load() != 2 {
		t.Errorf("%+v after %d requests, want an answer after 2", o, requests.Load())
	}
}

func TestConnectionsAreUsedAgain(t *testing.T) {
	var opened atomic.Int32
	srv := httptest.NewUnstartedServer(stream(delta(`{"content":"x"}`), finish("stop"), done))
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			opened.Add(1)
		}
	}
	srv.Start()
	defer srv.Close()
	m := modelAt(t, srv.URL+"/v1", nil)
	for range 5 {
		if o := modeltest.Ask(t.Context(), m, modeltest.Question("hi")); o.Err != nil {
			t.Fatal(o.Err)
		}
	}
	if n := opened.Load(); n != 1 {
		t.Errorf("5 requests opened %d connections", n)
	}
}

func TestKeepRawIsCut(t *testing.T) {
	big := strings.Repeat("x", 300<<10)
	m := serve(t, stream(delta(`{"content":"`+big+`"}`), delta(`{"content":"`+big+`"}`), delta(`{"content":"`+big+`"}`), delta(`{"content":"`+big+`"}`), finish("stop"), done),
		&openaimodel.Options{Server: modelhttp.Options{KeepRaw: true}})
	o := modeltest.Ask(t.Context(), m, modeltest.Question("hi"))
	if len(o.Text) != 4*len(big) {
		t.Errorf("text is %d bytes, want %d", len(o.Text), 4*len(big))
	}
	var chunks []map[string]any
	if err := json.Unmarshal(o.Response.Raw, &chunks); err != nil || len(o.Response.Raw) > 1<<20+100 || chunks[len(chunks)-1]["left_out_bytes"] == nil {
		t.Errorf("Raw is %d bytes (%v), want it cut and to say so", len(o.Response.Raw), err)
	}
}

func TestBounds(t *testing.T) {
	forever := func(first, each string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, first)
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, each); err != nil {
					return
				}
			}
		}
	}
	calls := make([]string, 300)
	for i := range calls {
		calls[i] = delta(fmt.Sprintf(`{"tool_calls":[{"index":%d,"id":"c%d","function":{"name":"f"}}]}`, i, i))
	}
	for _, tt := range []struct {
		name    string
		handler http.HandlerFunc
		says    string
	}{
		{"a line", forever("data: ", strings.Repeat("x", 64<<10)), "line of more than"},
		{"a document", forever(`{"choices":[`, strings.Repeat(" ", 64<<10)), "document of more than"},
		{"white space", forever("", strings.Repeat("\n", 64<<10)), "blank of more than"},
		{"an answer", forever("", delta(`{"content":"`+strings.Repeat("x", 256<<10)+`"}`)+"\n\n"), "answer of more than"},
		{"tool calls", stream(append(calls, finish("tool_calls"), done)...), "more than 256 tool calls"},
		{"an error's body", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(500)
			forever("", strings.Repeat("x", 64<<10))(w, r)
		}, "500"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := modeltest.Ask(t.Context(), serve(t, tt.handler, nil), modeltest.Question("hi"))
			if host.CodeOf(o.Err) != host.Unavailable || !strings.Contains(o.Err.Error(), tt.says) {
				t.Errorf("Generate: %v, want unavailable and %q", o.Err, tt.says)
			}
			if len(o.Err.Error()) > 1000 {
				t.Errorf("the error is %d bytes long", len(o.Err.Error()))
			}
		})
	}
}

func TestNewRefuses(t *testing.T) {
	for _, tt := range []struct {
		name, model string
		opts        openaimodel.Options
	}{
		{"no name", "", openaimodel.Options{}},
		{"base URL without a scheme", "m1", openaimodel.Options{Server: modelhttp.Options{BaseURL: "localhost:11434/v1"}}},
		{"base URL of another scheme", "m1", openaimodel.Options{Server: modelhttp.Options{BaseURL: "ftp://localhost/v1"}}},
		{"base URL without a host", "m1", openaimodel.Options{Server: modelhttp.Options{BaseURL: "http:///v1"}}},
		{"key with a line end", "m1", openaimodel.Options{Server: modelhttp.Options{APIKey: "sk-secret\nX-Evil: 1"}}},
		{"negative timeout", "m1", openaimodel.Options{Server: modelhttp.Options{Timeout: -1}}},
		{"too many retries", "m1", openaimodel.Options{Server: modelhttp.Options{MaxRetries: 1000}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := openaimodel.New(tt.model, &tt.opts)
			if host.CodeOf(err) != host.InvalidArgument {
				t.Errorf("New: %v, want invalid_argument", err)
			}
			if strings.Contains(fmt.Sprint(err), "sk-secret") {
				t.Errorf("error %q tells the key", err)
			}
		})
	}
}

// A server that has moved on the same host is asked there, with the same body and key,
// also when it answers in one piece.
func TestARedirectOnTheSameHostIsFollowed(t *testing.T) {
	type asked struct{ path, body, key string }
	var got []asked
	m := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = append(got, asked{r.URL.Path, string(body), r.Header.Get("Authorization")})
		if !strings.HasPrefix(r.URL.Path, "/moved") {
			http.Redirect(w, r, "/moved"+r.URL.Path, http.StatusPermanentRedirect)
			return
		}
		modeltest.Answer(http.StatusOK, "application/json", wholeDocument)(w, r)
	}, &openaimodel.Options{Server: modelhttp.Options{MaxRetries: -1, Whole: true}})
	if o := modeltest.Ask(t.Context(), m, wholeQuestion("hi")); o.Err != nil || o.Text != "Hi" {
		t.Fatalf("answer %q, %v; want Hi", o.Text, o.Err)
	}
	first, last := got[0], got[len(got)-1]
	if last.path != "/moved"+first.path || last.body != first.body || last.key != first.key || first.key == "" || first.body == "" {
		t.Errorf("asked %+v", got)
	}
}
