package openaimodel_test

// Scenario: a model asks for its answers in one piece.

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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
