package openaimodel_test

// Scenario: a model asks for its answers in one piece.

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/internal/modeltest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/modelhttp"
	"github.com/agenthost/agenthost/host/openaimodel"
)

const wholeDocument = `{"id":"c1","model":"m1-2026","choices":[{"index":0,"message":{"role":"assistant","content":"Hi",` +
	`"tool_calls":[{"id":"t1","type":"function","function":{"name":"look","arguments":"{}"}}]},"finish_reason":"tool_calls"}],` +
	`"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}`

func wholeQuestion(text string) *llm.Request {
	req := modeltest.Question(text)
	req.Whole = true
	return req
}

// The server is asked for a stream unless both the model and the caller want none.
func TestAnswersAreWholeWhereModelAndCallerSaySo(t *testing.T) {
	var asked, accept string
	serveBoth := func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		asked, accept = string(b), r.Header.Get("Accept")
		if strings.Contains(asked, `"stream":true`) {
			stream(delta(`{"content":"Hi","tool_calls":[{"index":0,"id":"t1","type":"function","function":{"name":"look","arguments":"{}"}}]}`),
				finish("tool_calls"), `data: {"id":"c1","model":"m1-2026","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}`, done)(w, r)
			return
		}
		modeltest.Answer(200, "application/json", wholeDocument)(w, r)
	}
	whole := serve(t, serveBoth, &openaimodel.Options{Server: modelhttp.Options{MaxRetries: -1, Whole: true}})
	streaming := serve(t, serveBoth, nil)
	var outcomes []modeltest.Outcome
	for _, c := range []struct {
		name   string
		model  host.Model
		req    *llm.Request
		stream bool
	}{
		{"both", whole, wholeQuestion("hi"), false},
		{"the model alone", whole, modeltest.Question("hi"), true},
		{"the caller alone", streaming, wholeQuestion("hi"), true},
		{"both, after a stream", whole, wholeQuestion("hi"), false},
	} {
		o := modeltest.Ask(t.Context(), c.model, c.req)
		if o.Err != nil {
			t.Fatalf("%s: %v", c.name, o.Err)
		}
		outcomes = append(outcomes, o)
		streamed, options := strings.Contains(asked, `"stream":true`), strings.Contains(asked, "stream_options")
		want := map[bool]string{true: "text/event-stream", false: "application/json"}[c.stream]
		if streamed != c.stream || options != c.stream || accept != want {
			t.Errorf("%s: asked for a stream: %t, with options: %t, accept %q", c.name, streamed, options, accept)
		}
	}
	for _, o := range outcomes[1:] {
		if diff := cmp.Diff(outcomes[0], o, cmp.AllowUnexported(modeltest.Outcome{})); diff != "" {
			t.Errorf("a whole answer differs from a streamed one (-whole +streamed):\n%s", diff)
		}
	}
}

// slowly is a server that answers after a time.
type slowly struct {
	after  time.Duration
	answer string
}

func (s slowly) RoundTrip(req *http.Request) (*http.Response, error) {
	io.Copy(io.Discard, req.Body)
	select {
	case <-time.After(s.after):
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(s.answer)), Request: req}, nil
}

// A server that writes a whole answer is silent for as long as that takes.
func TestAWholeAnswerHasATimeoutOfItsOwn(t *testing.T) {
	for _, c := range []struct {
		name  string
		opts  modelhttp.Options
		after time.Duration
		code  host.Code
	}{
		{"longer than Timeout", modelhttp.Options{}, 5 * time.Minute, ""},
		{"longer than the default", modelhttp.Options{}, modelhttp.DefaultWholeTimeout + time.Second, host.DeadlineExceeded},
		{"longer than WholeTimeout", modelhttp.Options{WholeTimeout: time.Minute}, 61 * time.Second, host.DeadlineExceeded},
		{"within a Timeout above the default", modelhttp.Options{Timeout: time.Hour}, 50 * time.Minute, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.opts.Whole, c.opts.HTTPClient = true, &http.Client{Transport: slowly{c.after, wholeDocument}}
				o := modeltest.Ask(t.Context(), modelAt(t, "http://model.test/v1", &openaimodel.Options{Server: c.opts}), wholeQuestion("hi"))
				if code := codeOf(o.Err); code != c.code {
					t.Errorf("an answer after %s: %v, want code %q", c.after, o.Err, c.code)
				}
			})
		})
	}
	_, err := openaimodel.New("m1", &openaimodel.Options{Server: modelhttp.Options{WholeTimeout: -1}})
	if host.CodeOf(err) != host.InvalidArgument || !strings.Contains(err.Error(), "whole") {
		t.Errorf("a negative timeout: %v", err)
	}
}

func codeOf(err error) host.Code {
	if err == nil {
		return ""
	}
	return host.CodeOf(err)
}

// Nothing of a whole answer is passed on before its end, so one that is cut can be
// asked for again.
func TestAWholeAnswerThatIsCutIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &replies{list: []reply{
			{200, nil, strings.NewReader(wholeDocument[:100])},
			{200, nil, io.MultiReader(strings.NewReader(wholeDocument[:50]), brokenPipe{})},
			{200, nil, strings.NewReader(wholeDocument)},
		}}
		m := modelAt(t, "http://model.test/v1", &openaimodel.Options{Server: modelhttp.Options{Whole: true, HTTPClient: &http.Client{Transport: server}}})
		o := modeltest.Ask(t.Context(), m, wholeQuestion("hi"))
		if o.Err != nil || len(o.Retries) != 2 || o.Text != "Hi" {
			t.Errorf("text %q after %d retries, %v; want Hi after 2", o.Text, len(o.Retries), o.Err)
		}
	})
}

type brokenPipe struct{}

func (brokenPipe) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// A caller that leaves while the server is silent has its error at once.
func TestAWholeAnswerIsCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		m := modelAt(t, "http://model.test/v1", &openaimodel.Options{Server: modelhttp.Options{Whole: true, HTTPClient: &http.Client{Transport: slowly{time.Hour, ""}}}})
		began := time.Now()
		o := modeltest.Ask(ctx, m, wholeQuestion("hi"))
		if took := time.Since(began); codeOf(o.Err) != host.DeadlineExceeded || took != time.Second || len(o.Retries) > 0 {
			t.Errorf("%v after %s and %d retries, want deadline_exceeded after 1s", o.Err, took, len(o.Retries))
		}
	})
}

// A server that streams although it was asked not to is read all the same.
func TestAStreamInPlaceOfAWholeAnswerIsRead(t *testing.T) {
	m := serve(t, stream(delta(`{"content":"Hel"}`), delta(`{"content":"lo"}`), finish("stop"), usage, done),
		&openaimodel.Options{Server: modelhttp.Options{MaxRetries: -1, Whole: true}})
	if o := modeltest.Ask(t.Context(), m, wholeQuestion("hi")); o.Err != nil || o.Text != "Hello" || o.Response == nil {
		t.Errorf("text %q, %v; want Hello", o.Text, o.Err)
	}
}
