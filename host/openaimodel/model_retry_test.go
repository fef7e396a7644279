package openaimodel_test

import (
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

// replies is a server without a network, so that time can be made up: the n-th
// request gets the n-th reply, the last one again and again.
type replies struct {
	list     []reply
	requests []time.Time
}

type reply struct {
	status int
	header http.Header
	body   io.Reader
}

func (r *replies) RoundTrip(req *http.Request) (*http.Response, error) {
	io.Copy(io.Discard, req.Body)
	n := min(len(r.requests), len(r.list)-1)
	r.requests = append(r.requests, time.Now())
	if r.list[n].header == nil {
		r.list[n].header = http.Header{}
	}
	return &http.Response{StatusCode: r.list[n].status, Header: r.list[n].header, Body: io.NopCloser(r.list[n].body), Request: req}, nil
}

// waits returns how long it was between the requests.
func (r *replies) waits() []time.Duration {
	var out []time.Duration
	for i := 1; i < len(r.requests); i++ {
		out = append(out, r.requests[i].Sub(r.requests[i-1]))
	}
	return out
}

func fails(status int, header ...string) reply {
	h := http.Header{}
	for i := 0; i+1 < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return reply{status, h, strings.NewReader("not now")}
}

func streams(lines ...string) reply {
	return reply{200, nil, strings.NewReader(strings.Join(lines, "\n\n") + "\n\n")}
}

func answers() reply { return streams(delta(`{"content":"x"}`), finish("stop"), done) }

func withReplies(t *testing.T, opts openaimodel.Options, list ...reply) (*openaimodel.Model, *replies) {
	t.Helper()
	r := &replies{list: list}
	opts.Server.HTTPClient = &http.Client{Transport: r}
	m, err := openaimodel.New("m1", &opts)
	if err != nil {
		t.Fatal(err)
	}
	return m, r
}

func TestRetriesWithGrowingWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, r := withReplies(t, openaimodel.Options{}, fails(503), fails(429), streams(delta(`{"role":"assistant"}`)), answers())
		o := modeltest.Ask(t.Context(), m, modeltest.Question("hi"))
		if o.Err != nil || o.Text != "x" {
			t.Fatalf("Generate: %+v", o)
		}
		var codes []host.Code
		for i, n := range o.Retries {
			if n.Attempt != i+1 || n.Reason == "" {
				t.Errorf("retry %d is announced as %+v", i, n)
			}
			codes = append(codes, n.Code)
		}
		if diff := cmp.Diff([]host.Code{host.Unavailable, host.ResourceExhausted, host.Unavailable}, codes); diff != "" {
			t.Errorf("announced (-want +got):\n%s", diff)
		}
		for i, w := range r.waits() {
			middle := 500 * time.Millisecond << i
			if w < middle/2 || w > middle*3/2 {
				t.Errorf("wait %d was %s, want %s give or take half", i, w, middle)
			}
		}
	})
}

func TestRetriesEndAndAreCapped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, r := withReplies(t, openaimodel.Options{Server: modelhttp.Options{MaxRetries: 10}}, fails(503))
		o := modeltest.Ask(t.Context(), m, modeltest.Question("hi"))
		if host.CodeOf(o.Err) != host.Unavailable || !strings.Contains(o.Err.Error(), "(11 attempts)") || len(r.requests) != 11 {
			t.Errorf("%d requests, error %v", len(r.requests), o.Err)
		}
		for i, w := range r.waits() {
			if w > 12*time.Second {
				t.Errorf("wait %d was %s", i, w)
			}
		}
	})
}

func TestRetryAfter(t *testing.T) {
	for _, tt := range []struct {
		name   string
		header func() []string
		want   time.Duration
	}{
		{"seconds", func() []string { return []string{"Retry-After", "7"} }, 7 * time.Second},
		{"now", func() []string { return []string{"Retry-After", "0"} }, 0},
		{"milliseconds win", func() []string { return []string{"Retry-After", "7", "Retry-After-Ms", "250"} }, 250 * time.Millisecond},
		{"a date", func() []string {
			return []string{"Retry-After", time.Now().Add(20 * time.Second).UTC().Format(http.TimeFormat)}
		}, 20 * time.Second},
		{"a date that has passed", func() []string {
			return []string{"Retry-After", time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat)}
		}, 0},
		{"the longest", func() []string { return []string{"Retry-After", "60"} }, time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, r := withReplies(t, openaimodel.Options{}, fails(429, tt.header()...), answers())
				if o := modeltest.Ask(t.Context(), m, modeltest.Question("hi")); o.Err != nil {
					t.Fatal(o.Err)
				}
				if got := r.waits(); len(got) != 1 || got[0] != tt.want {
					t.Errorf("waited %v, want %s", got, tt.want)
				}
			})
		})
	}
}

func TestRetryAfterNonsense(t *testing.T) {
	for _, v := range []string{"soon", "-3", "NaN", ""} {
		synctest.Test(t, func(t *testing.T) {
			m, r := withReplies(t, openaimodel.Options{}, fails(503, "Retry-After", v), answers())
			if o := modeltest.Ask(t.Context(), m, modeltest.Question("hi")); o.Err != nil {
				t.Fatalf("%q: %v", v, o.Err)
			}
			if w := r.waits()[0]; w < 250*time.Millisecond || w > 750*time.Millisecond {
				t.Errorf("Retry-After %q: waited %s, want the usual", v, w)
			}
		})
	}
}

func TestRetryAfterTooLong(t *testing.T) {
	for _, v := range []string{"61", "1e300", "+Inf"} {
		synctest.Test(t, func(t *testing.T) {
			m, r := withReplies(t, openaimodel.Options{}, fails(429, "Retry-After", v), answers())
			o := modeltest.Ask(t.Context(), m, modeltest.Question("hi"))
			if host.CodeOf(o.Err) != host.ResourceExhausted || len(r.requests) != 1 || !strings.Contains(o.Err.Error(), "asks to wait") {
				t.Errorf("Retry-After %s: %d requests, error %v; want one and how long to wait", v, len(r.requests), o.Err)
			}
		})
	}
}

func TestNotRetried(t *testing.T) {
	for _, tt := range []struct {
		name  string
		opts  openaimodel.Options
		reply reply
	}{
		{"with retries off", openaimodel.Options{Server: modelhttp.Options{MaxRetries: -1}}, fails(503)},
		{"400", openaimodel.Options{}, fails(400)},
		{"401", openaimodel.Options{}, fails(401)},
		{"403", openaimodel.Options{}, fails(403)},
		{"404", openaimodel.Options{}, fails(404)},
		{"a budget that is used up", openaimodel.Options{}, reply{429, nil, strings.NewReader(`{"error":{"code":"insufficient_quota"}}`)}},
		{"nonsense", openaimodel.Options{}, reply{200, nil, strings.NewReader("<html>")}},
		{"what the caller has seen a part of", openaimodel.Options{}, streams(delta(`{"content":"Hel"}`))},
		{"a call the caller has seen a part of", openaimodel.Options{}, streams(delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"look"}}]}`))},
		{"silence", openaimodel.Options{Server: modelhttp.Options{Timeout: time.Second}}, reply{200, nil, nil}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, r := withReplies(t, tt.opts, tt.reply, answers())
				if tt.name == "silence" {
					r.list[0].body = silence() // belongs to this bubble
				}
				o := modeltest.Ask(t.Context(), m, modeltest.Question("hi"))
				if o.Err == nil || len(o.Retries) > 0 || len(r.requests) != 1 {
					t.Errorf("%d requests, retries %v, error %v; want one request and its error", len(r.requests), o.Retries, o.Err)
				}
			})
		})
	}
}

// silence is a body that sends a chunk and then nothing until it is closed.
func silence() io.Reader {
	pr, pw := io.Pipe()
	time.AfterFunc(time.Hour, func() { pw.Close() })
	return pr
}

func TestLeavingAtARetryEndsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, r := withReplies(t, openaimodel.Options{}, fails(503), answers())
		for chunk, err := range m.Generate(t.Context(), modeltest.Question("hi")) {
			if err != nil || chunk.Retry == nil {
				t.Fatalf("Generate: %+v, %v; want a retry's notice", chunk, err)
			}
			break
		}
		if len(r.requests) != 1 {
			t.Errorf("%d requests", len(r.requests))
		}
	})
}

func TestSilenceIsNotTheReadersTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := withReplies(t, openaimodel.Options{Server: modelhttp.Options{Timeout: time.Second}}, answers())
		var got *llm.Response
		for chunk, err := range m.Generate(t.Context(), modeltest.Question("hi")) {
			if err != nil {
				t.Fatalf("Generate: %v", err)
			}
			time.Sleep(time.Minute) // the reader is slow; the server is not
			got = chunk.Response
		}
		if got == nil {
			t.Error("no response")
		}
	})
}

func TestCommentsAreNotSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pr, pw := io.Pipe()
		go func() {
			for range 100 {
				time.Sleep(900 * time.Millisecond)
				io.WriteString(pw, ": working\n\n")
			}
			io.WriteString(pw, strings.Join([]string{delta(`{"content":"x"}`), finish("stop"), done, ""}, "\n\n"))
			pw.Close()
		}()
		m, _ := withReplies(t, openaimodel.Options{Server: modelhttp.Options{Timeout: time.Second}}, reply{200, nil, pr})
		if o := modeltest.Ask(t.Context(), m, modeltest.Question("hi")); o.Err != nil || o.Text != "x" {
			t.Errorf("Generate: %+v", o)
		}
	})
}
