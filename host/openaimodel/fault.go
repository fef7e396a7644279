package openaimodel

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/agenthost/agenthost/host"
)

// fault is a failed attempt: the error for the caller, and what may be done
// about it here.
type fault struct {
	err      *host.Error
	again    bool          // another attempt may succeed
	after    time.Duration // the wait that the server asks for
	hasAfter bool
	usageAsk bool // the server does not know stream_options
	shapeAsk bool // the server does not take response_format, or not this one
}

// Error implements error, so that a fault passes through go-openai.
func (f *fault) Error() string { return f.err.Error() }

// Unwrap returns the error for the caller.
func (f *fault) Unwrap() error { return f.err }

// wait returns how long to wait before the next attempt.
func (f *fault) wait(waits *backoff.ExponentialBackOff) time.Duration {
	next := waits.NextBackOff()
	if f.hasAfter {
		return f.after
	}
	return next
}

// final returns the error for the caller after so many attempts.
func (f *fault) final(attempts int) error {
	if attempts > 1 {
		f.err.Message += fmt.Sprintf(" (%d attempts)", attempts)
	}
	if f.again && f.after > MaxRetryAfter {
		f.err.Hint = fmt.Sprintf("the server asks to wait %s", f.after.Round(time.Second))
	}
	return f.err
}

// upstreamFault is a failure of the server that may pass.
func (m *Model) upstreamFault(format string, args ...any) *fault {
	return &fault{again: true, err: host.Errorf(host.Unavailable, "ask %s: it %s", m.where, fmt.Sprintf(format, args...)).
		WithHint("try again, or another server")}
}

// refused is an answer that will be no better next time.
func (m *Model) refused(format string, args ...any) *fault {
	f := m.upstreamFault(format, args...)
	f.again, f.err.Retryable = false, false
	f.err.Hint = "check that the base URL is that of an OpenAI-compatible server; it usually ends in /v1"
	return f
}

func (a *attempt) nonsense(came []byte) *fault {
	return a.model.refused("answers something that is not a chat completion: %q", a.model.snippet(came))
}

// snippet is the beginning of what came, fit for one line.
func (m *Model) snippet(b []byte) string {
	s := strings.Join(strings.Fields(strings.ToValidUTF8(m.redact(string(b)), "�")), " ")
	if len(s) > maxSeen {
		s = strings.ToValidUTF8(s[:maxSeen], "") + "…"
	}
	return s
}

// ended is what a request's own end is told as.
func (m *Model) ended(cause error) *host.Error {
	code := host.CodeOf(cause)
	if code != host.DeadlineExceeded {
		code = host.Canceled
	}
	return host.Errorf(code, "ask %s: %w", m.where, cause)
}

// networkFault says why no answer came at all.
func (a *attempt) networkFault(err error) *fault {
	if a.ctx.Err() != nil {
		return a.endedFault()
	}
	var urlErr *url.Error
	if errors.As(err, &urlErr) {
		err = urlErr.Err // without the address, which may hold secrets
	}
	return a.model.dialFault(err)
}

func (m *Model) dialFault(err error) *fault {
	var dns *net.DNSError
	var timeout net.Error
	f := &fault{again: true, err: host.Errorf(host.Unavailable, "ask %s: %s", m.where, m.snippet([]byte(err.Error())))}
	f.err.Err = err
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		f.err.Message = "ask " + m.where + ": connection refused"
		f.err.Hint = "is the server at " + m.where + " running?"
	case errors.As(err, &dns):
		f.err.Message = "ask " + m.where + ": no such host"
		f.err.Hint = "check the base URL, and that this machine is online"
		f.again = dns.IsTemporary || dns.IsTimeout
	case errors.Is(err, errRedirect):
		f.again, f.err.Retryable = false, false
		f.err.Hint = "if that is where the server is, give it as the base URL"
	case isTLS(err):
		f.again, f.err.Retryable = false, false
		f.err.Hint = "check the certificate, and whether the base URL begins with http:// or https://"
	case errors.As(err, &timeout) && timeout.Timeout():
		f.again, f.err.Code = false, host.DeadlineExceeded
		f.err.Hint = "is the server at " + m.where + " running and reachable?"
	default:
		f.err.Hint = "try again; if it stays, check the server at " + m.where
	}
	return f
}

func isTLS(err error) bool {
	var record tls.RecordHeaderError
	var cert *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	return errors.As(err, &record) || errors.As(err, &cert) || errors.As(err, &unknown) ||
		strings.Contains(err.Error(), "HTTP response to HTTPS client")
}

// statuses maps HTTP statuses to codes; see codeOf for the rest.
var statuses = map[int]host.Code{
	http.StatusUnauthorized:          host.Unauthenticated,
	http.StatusPaymentRequired:       host.ResourceExhausted,
	http.StatusForbidden:             host.PermissionDenied,
	http.StatusNotFound:              host.NotFound,
	http.StatusRequestTimeout:        host.DeadlineExceeded,
	http.StatusConflict:              host.Unavailable,
	http.StatusRequestEntityTooLarge: host.ResourceExhausted,
	http.StatusTooEarly:              host.Unavailable,
	http.StatusTooManyRequests:       host.ResourceExhausted,
}

func codeOf(status int) host.Code {
	if code, ok := statuses[status]; ok {
		return code
	}
	if status >= 400 && status < 500 {
		return host.InvalidArgument
	}
	return host.Unavailable
}

// complaint is what a server says of a failure.
type complaint struct {
	message string
	code    string // "code" or "type"
}

// readComplaint understands {"error":{"message","type","code"}}, the same
// without the wrapper, {"error":"..."} and {"detail":"..."}.
func readComplaint(raw []byte) complaint {
	var outer struct {
		Error, Message, Detail, Code, Type json.RawMessage
	}
	if json.Unmarshal(raw, &outer) != nil {
		return complaint{message: string(raw)}
	}
	var inner struct {
		Message, Code, Type json.RawMessage
	}
	if json.Unmarshal(outer.Error, &inner) == nil {
		outer.Message, outer.Code, outer.Type = inner.Message, inner.Code, inner.Type
		outer.Error = nil
	}
	c := complaint{message: firstText(outer.Message, outer.Error, outer.Detail), code: firstText(outer.Code, outer.Type)}
	if c.message == "" {
		c.message = string(raw)
	}
	return c
}

// firstText returns the first value that is there: a string as it is, anything
// else as JSON.
func firstText(values ...json.RawMessage) string {
	for _, v := range values {
		var s string
		switch {
		case len(v) == 0 || string(v) == "null":
			continue
		case json.Unmarshal(v, &s) == nil:
			if s != "" {
				return s
			}
			continue
		}
		return string(v)
	}
	return ""
}

func (c complaint) says(words ...string) bool {
	for _, w := range words {
		if strings.Contains(c.code, w) || strings.Contains(strings.ToLower(c.message), w) {
			return true
		}
	}
	return false
}

// statusFault says what an answer other than 200 means.
func (m *Model) statusFault(resp *http.Response, body []byte) *fault {
	f := m.complaintFault(resp.StatusCode, strconv.Itoa(resp.StatusCode)+" "+http.StatusText(resp.StatusCode), readComplaint(body))
	f.after, f.hasAfter = retryAfter(resp.Header, time.Now())
	if id := resp.Header.Get("X-Request-Id"); id != "" {
		f.err.Message += " (request " + m.snippet([]byte(id)) + ")"
	}
	return f
}

// wireFault says what an error object in a stream means.
func (m *Model) wireFault(object json.RawMessage) *fault {
	c := readComplaint([]byte(`{"error":` + string(object) + `}`))
	return m.complaintFault(statusOf(c), "it answers with an error", c)
}

// statusOf guesses the status that an error object in a stream would have had.
func statusOf(c complaint) int {
	if n, err := strconv.Atoi(c.code); err == nil && n >= 400 && n < 600 {
		return n
	}
	switch {
	case c.says("rate_limit", "insufficient_quota", "overloaded_error"):
		return http.StatusTooManyRequests
	case c.says("context_length", "invalid_request", "content_policy"):
		return http.StatusBadRequest
	case c.says("invalid_api_key", "authentication_error"):
		return http.StatusUnauthorized
	}
	return http.StatusInternalServerError
}

// complaintFault says what a complaint under a status means; text is how the
// error begins.
func (m *Model) complaintFault(status int, text string, c complaint) *fault {
	if said := m.snippet([]byte(c.message)); said != "" {
		text += ": " + said
	}
	f := &fault{err: host.Errorf(codeOf(status), "ask %s: %s", m.where, text)}
	switch {
	case status < 400:
		return m.refused("answers %s", text)
	case f.err.Code == host.Unavailable:
		f.again, f.err.Hint = true, "the server has a problem; try again later"
	case f.err.Code == host.DeadlineExceeded:
		f.err.Retryable, f.err.Hint = true, "the server took too long; try again"
	case f.err.Code == host.ResourceExhausted:
		m.exhausted(f, status, c)
	case f.err.Code == host.Unauthenticated:
		f.err.Hint = m.keyHint()
	case f.err.Code == host.PermissionDenied:
		f.err.Hint = "the key in OPENAI_API_KEY may not use this model or this server"
	case f.err.Code == host.NotFound:
		f.err.Message = fmt.Sprintf("ask %s for model %q: %s", m.where, m.name, text)
		f.err.Hint = "look for the model's name at " + m.base() + "/models, and check the base URL; it usually ends in /v1"
	case c.says("context_length", "context length", "maximum context", "context window", "too many tokens"):
		f.err.Code, f.err.Hint = host.ResourceExhausted, "the conversation is too long for the model; limit its history with the token limiter"
	case c.says("stream_options", "include_usage"):
		f.usageAsk = true
	case c.says("response_format", "json_schema"):
		f.shapeAsk = true
	}
	return f
}

func (m *Model) keyHint() string {
	if m.opts.APIKey == "" {
		return "set OPENAI_API_KEY"
	}
	return "check the key in OPENAI_API_KEY; it is set, but this server does not take it"
}

// exhausted tells load, which passes, from a budget, which does not.
func (m *Model) exhausted(f *fault, status int, c complaint) {
	switch {
	case status == http.StatusRequestEntityTooLarge:
		f.err.Hint = "the request is too large for the server; limit the history or send less"
	case status == http.StatusPaymentRequired || c.says("insufficient_quota", "billing"):
		f.err.Hint = "the account has no credit left; check its plan and billing"
	default:
		f.again, f.err.Retryable, f.err.Hint = true, true, "too many requests; try again later"
	}
}

// retryAfter returns the wait that a server asks for, in milliseconds, seconds
// or until a date.
func retryAfter(h http.Header, now time.Time) (time.Duration, bool) {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil {
		return wholeWait(ms, time.Millisecond)
	}
	v := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(v, 64); err == nil {
		return wholeWait(s, time.Second)
	}
	if at, err := http.ParseTime(v); err == nil {
		return max(at.Sub(now), 0), true
	}
	return 0, false
}

func wholeWait(n float64, unit time.Duration) (time.Duration, bool) {
	if !(n >= 0) { // NaN too
		return 0, false
	}
	return time.Duration(math.Min(n, float64(math.MaxInt64/int64(unit))-1) * float64(unit)), true
}
