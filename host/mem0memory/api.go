package mem0memory

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
)

// The bounds of a request.
const (
	defaultTimeout = 30 * time.Second
	maxAnswerBytes = 4 << 20
	maxErrorBytes  = 4 << 10
	shownBytes     = 200 // of a server's words about an error
	maxAttempts    = 3
	firstWait      = 500 * time.Millisecond
	longestWait    = 10 * time.Second // also for waits that the server asks for
)

// api sends requests.
type api struct {
	base, key string
	timeout   time.Duration
	client    *http.Client
}

func newAPI(o Options) (*api, error) {
	if o.APIKey == "" {
		return nil, host.Errorf(host.InvalidArgument, "Mem0 without a key").WithHint("set Options.APIKey")
	}
	if o.BaseURL == "" {
		o.BaseURL = DefaultBaseURL
	}
	u, err := url.Parse(o.BaseURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, host.Errorf(host.InvalidArgument, "the address of Mem0 is not http(s)://HOST")
	}
	a := &api{base: strings.TrimSuffix(o.BaseURL, "/"), key: o.APIKey, timeout: o.Timeout, client: o.Client}
	if a.timeout <= 0 {
		a.timeout = defaultTimeout
	}
	if a.client == nil {
		// A key must not follow a redirect to elsewhere.
		a.client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	return a, nil
}

// never is a wait longer than any retry takes: it means no retry.
const never = longestWait + 1

// call is one request.
type call struct {
	method, path string
	body         any  // as JSON; nil is none
	again        bool // it may be sent again when its outcome is unknown
}

// do sends a request, again if that may help, and reads the answer.
func (a *api) do(ctx context.Context, c call, into any) error {
	var body []byte
	if c.body != nil {
		var err error
		if body, err = json.Marshal(c.body); err != nil {
			return host.Errorf(host.InvalidArgument, "ask Mem0: %w", err)
		}
	}
	wait := firstWait
	for attempt := 1; ; attempt++ {
		answer, retry, err := a.send(ctx, c, body)
		switch {
		case err == nil && into == nil:
			return nil
		case err == nil:
			if err := json.Unmarshal(answer, into); err != nil {
				return errNonsense("what is not its protocol")
			}
			return nil
		case attempt == maxAttempts || !fault.AsError(err).Retryable || retry < 0 && !c.again || retry > longestWait:
			return err
		}
		if err := sleep(ctx, max(retry, wait/2+rand.N(wait))); err != nil {
			return err
		}
		wait = min(2*wait, longestWait)
	}
}

// send is one attempt. retry is how long the server wants to be left alone, and
// negative if it does not say that it has done nothing.
func (a *api) send(ctx context.Context, c call, body []byte) (answer []byte, retry time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, c.method, a.base+c.path, bytes.NewReader(body))
	if err != nil {
		return nil, -1, host.Errorf(host.InvalidArgument, "ask Mem0: its address cannot be used")
	}
	req.Header.Set("Authorization", "Token "+a.key)
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := a.client.Do(req)
	if err != nil {
		return nil, -1, failed(ctx, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBytes))
		retry, err := a.refused(resp, text)
		return nil, retry, err
	}
	answer, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes+1))
	switch {
	case err != nil:
		return nil, -1, failed(ctx, err)
	case len(answer) > maxAnswerBytes:
		return nil, never, errNonsense("more than it was asked for")
	}
	return answer, 0, nil
}

func errNonsense(what string) error {
	return host.Errorf(host.Unavailable, "Mem0 answers %s", what)
}

// failed says why there is no answer. The cause names addresses, and is for logs.
func failed(ctx context.Context, err error) error {
	e := &host.Error{Code: host.Unavailable, Message: "Mem0 cannot be reached", Retryable: true, Err: err}
	switch cause := ctx.Err(); {
	case errors.Is(cause, context.Canceled):
		e.Code, e.Message, e.Retryable = host.Canceled, "ask Mem0: canceled", false
	case cause != nil:
		e.Code, e.Message = host.DeadlineExceeded, "Mem0 does not answer in time"
	}
	return e
}

// statuses is the one table from Mem0's statuses to codes.
var statuses = map[int]host.Code{
	400: host.InvalidArgument, 401: host.Unauthenticated, 403: host.PermissionDenied, 404: host.NotFound,
	409: host.Conflict, 413: host.ResourceExhausted, 422: host.InvalidArgument, 429: host.ResourceExhausted,
}

// refused is an answer with another status than success.
func (a *api) refused(resp *http.Response, text []byte) (retry time.Duration, err error) {
	code, known := statuses[resp.StatusCode]
	if !known {
		code = host.Unavailable
	}
	e := &host.Error{Code: code, Message: "Mem0 answers with status " + strconv.Itoa(resp.StatusCode),
		Retryable: resp.StatusCode == 429 || resp.StatusCode >= 500}
	if said := a.said(text); said != "" {
		e.Message += ": " + said
	}
	if code == host.Unauthenticated || code == host.PermissionDenied {
		e.Message, e.Hint = "Mem0 refuses the key", "check the key in Mem0's dashboard" // the server's words may quote the key
	}
	if resp.StatusCode != 429 && resp.StatusCode != 503 {
		return -1, e
	}
	seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
	return time.Duration(min(max(seconds, 0), 3600)) * time.Second, e
}

// said returns a server's words about an error, without the key.
func (a *api) said(text []byte) string {
	var in struct{ Detail, Error, Message json.RawMessage }
	if json.Unmarshal(text, &in) != nil {
		return ""
	}
	for _, raw := range []json.RawMessage{in.Detail, in.Error, in.Message} {
		if len(raw) > 0 {
			s := strings.ReplaceAll(strings.Trim(string(raw), `"`), a.key, "...")
			return strings.ToValidUTF8(s[:min(len(s), shownBytes)], "")
		}
	}
	return ""
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return failed(ctx, ctx.Err())
	}
}
