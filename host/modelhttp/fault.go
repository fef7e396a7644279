package modelhttp

import (
	"cmp"
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

	"github.com/agenthost/agenthost/host/fault"
)

// Fault is a failed attempt: the error for the caller, and whether another
// attempt may follow.
type Fault struct {
	Err    *fault.Error
	Again  bool // another attempt may succeed
	AtOnce bool // the attempt's request was changed: try without a wait or a retry chunk

	complaint complaint
	after     time.Duration // the wait that the server asks for
	hasAfter  bool
}

// Error implements error, so that a fault passes through other clients.
func (f *Fault) Error() string { return f.Err.Error() }

// Unwrap returns the error for the caller.
func (f *Fault) Unwrap() error { return f.Err }

// Says reports whether the server refused the request with a complaint that has
// one of these words in it.
func (f *Fault) Says(words ...string) bool {
	return f.Err.Code == fault.InvalidArgument && f.complaint.says(words...)
}

// Mentions reports whether the server's complaint contains one of these words,
// under any status.
func (f *Fault) Mentions(words ...string) bool { return f.complaint.says(words...) }

// wait returns how long to wait after so many failed attempts.
func (f *Fault) wait(attempts int) time.Duration {
	if f.hasAfter {
		return f.after
	}
	return backoff.Wait(attempts)
}

// final returns the error for the caller after so many attempts.
func (f *Fault) final(attempts int) error {
	if attempts > 1 {
		f.Err.Message += fmt.Sprintf(" (%d attempts)", attempts)
	}
	if f.Again && f.after > MaxRetryAfter {
		f.Err.Hint = fmt.Sprintf("the server asks to wait %s", f.after.Round(time.Second))
	}
	if f.hasAfter {
		f.Err.RetryAfter = f.after
	}
	return f.Err
}

// Upstream is a failure of the server that may pass.
func (s *Server) Upstream(format string, args ...any) *Fault {
	return &Fault{Again: true, Err: fault.Errorf(fault.Unavailable, "ask %s: it %s", s.where, fmt.Sprintf(format, args...)).
		WithHint("try again, or another server")}
}

// Refused is an answer that will be no better next time.
func (s *Server) Refused(format string, args ...any) *Fault {
	f := s.Upstream(format, args...)
	f.Again, f.Err.Retryable = false, false
	f.Err.Hint = "check that the base URL is that of " + s.protocol.BaseHint
	return f
}

// ended returns the error for the end of a request's own context.
func (s *Server) ended(cause error) *fault.Error {
	code := fault.CodeOf(cause)
	if code != fault.DeadlineExceeded { // the caller cancelled: the server is not at fault
		return &fault.Error{Code: fault.Canceled, Message: cause.Error(), Err: cause}
	}
	return fault.Errorf(code, "ask %s: %w", s.where, cause)
}

// networkFault says why no answer came at all.
func (x *Exchange) networkFault(err error) *Fault {
	if x.ctx.Err() != nil {
		return x.endedFault()
	}
	var urlErr *url.Error
	if errors.As(err, &urlErr) {
		err = urlErr.Err // without the address, which may hold secrets
	}
	return x.server.dialFault(err)
}

func (s *Server) dialFault(err error) *Fault {
	var dns *net.DNSError
	var timeout net.Error
	f := &Fault{Again: true, Err: fault.Errorf(fault.Unavailable, "ask %s: %s", s.where, s.snippet([]byte(err.Error())))}
	f.Err.Err = err
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		f.Err.Message = "ask " + s.where + ": connection refused"
		f.Err.Hint = "is the server at " + s.where + " running?"
	case errors.As(err, &dns):
		f.Err.Message = "ask " + s.where + ": no such host"
		f.Err.Hint = "check the base URL, and that this machine is online"
		f.Again = dns.IsTemporary || dns.IsTimeout
	case errors.Is(err, errRedirect):
		f.Again, f.Err.Retryable = false, false
		f.Err.Hint = "if that is where the server is, give it as the base URL"
	case isTLS(err):
		f.Again, f.Err.Retryable = false, false
		f.Err.Hint = "check the certificate, and whether the base URL begins with http:// or https://"
	case errors.As(err, &timeout) && timeout.Timeout():
		f.Again, f.Err.Code = false, fault.DeadlineExceeded
		f.Err.Hint = "is the server at " + s.where + " running and reachable?"
	default:
		f.Err.Hint = "try again; if it stays, check the server at " + s.where
	}
	return f
}

func isTLS(err error) bool {
	var record tls.RecordHeaderError
	var cert *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	return errors.As(err, &record) || errors.As(err, &cert) || errors.As(err, &unknown) || errors.Is(err, http.ErrSchemeMismatch)
}

// statuses maps HTTP statuses to codes; see codeOf for the rest.
var statuses = map[int]fault.Code{
	http.StatusUnauthorized:          fault.Unauthenticated,
	http.StatusPaymentRequired:       fault.ResourceExhausted,
	http.StatusForbidden:             fault.PermissionDenied,
	http.StatusNotFound:              fault.NotFound,
	http.StatusRequestTimeout:        fault.DeadlineExceeded,
	http.StatusConflict:              fault.Unavailable,
	http.StatusRequestEntityTooLarge: fault.ResourceExhausted,
	http.StatusTooEarly:              fault.Unavailable,
	http.StatusTooManyRequests:       fault.ResourceExhausted,
}

func codeOf(status int) fault.Code {
	if code, ok := statuses[status]; ok {
		return code
	}
	if status >= 400 && status < 500 {
		return fault.InvalidArgument
	}
	return fault.Unavailable
}

// complaint is a server's words about a failure.
type complaint struct {
	message string
	code    string // "code" or "type"
	wait    time.Duration
	hasWait bool // the complaint asks for wait, as Google's do
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
		Message, Code, Type, Details json.RawMessage
	}
	if json.Unmarshal(outer.Error, &inner) == nil {
		outer.Message, outer.Code, outer.Type = inner.Message, inner.Code, inner.Type
		outer.Error = nil
	}
	c := complaint{message: firstText(outer.Message, outer.Error, outer.Detail), code: firstText(outer.Code, outer.Type)}
	c.wait, c.hasWait = retryDelay(inner.Details)
	if c.message == "" {
		c.message = string(raw)
	}
	return c
}

// retryDelay returns the wait that the details of one of Google's errors ask for:
// an element with a retryDelay, such as "34.07s".
func retryDelay(details json.RawMessage) (time.Duration, bool) {
	var list []struct {
		RetryDelay string `json:"retryDelay"`
	}
	if len(details) > maxErrorBytes {
		return 0, false // each of its elements takes more than it is long
	}
	_ = json.Unmarshal(details, &list) // on elements of other shapes, list keeps the ones read
	for _, d := range list {
		if wait, err := time.ParseDuration(d.RetryDelay); err == nil && wait >= 0 {
			return wait, true
		}
	}
	return 0, false
}

// firstText returns the first value that is not absent, null or "": a string's
// text, any other value as JSON.
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

// statusFault translates an answer other than 200.
func (s *Server) statusFault(resp *http.Response, body []byte) *Fault {
	f := s.complaintFault(resp.StatusCode, strconv.Itoa(resp.StatusCode)+" "+http.StatusText(resp.StatusCode), readComplaint(body))
	if after, ok := retryAfter(resp.Header, time.Now()); ok {
		f.after, f.hasAfter = after, true
	}
	if id := cmp.Or(resp.Header.Get("X-Request-Id"), resp.Header.Get("Request-Id")); id != "" {
		f.Err.Message += " (request " + s.snippet([]byte(id)) + ")"
	}
	return f
}

// WireFault translates an error object in a stream.
func (s *Server) WireFault(object json.RawMessage) *Fault {
	c := readComplaint([]byte(`{"error":` + string(object) + `}`))
	c.message = string(beginning([]byte(c.message))) // as short as that of another status
	return s.complaintFault(statusOf(c), "it answers with an error", c)
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
	case c.says("permission_error"):
		return http.StatusForbidden
	case c.says("not_found_error"):
		return http.StatusNotFound
	case c.says("invalid_api_key", "authentication_error"):
		return http.StatusUnauthorized
	}
	return http.StatusInternalServerError
}

// complaintFault translates a complaint under a status; text is the beginning
// of the error.
func (s *Server) complaintFault(status int, text string, c complaint) *Fault {
	if said := s.snippet([]byte(c.message)); said != "" {
		text += ": " + said
	}
	f := &Fault{complaint: c, after: c.wait, hasAfter: c.hasWait, Err: fault.Errorf(codeOf(status), "ask %s: %s", s.where, text)}
	switch {
	case status < 400:
		return s.Refused("answers %s", text)
	case f.Err.Code == fault.Unavailable:
		f.Again, f.Err.Hint = true, "the server has a problem; try again later"
	case f.Err.Code == fault.DeadlineExceeded:
		f.Err.Retryable, f.Err.Hint = true, "the server took too long; try again"
	case f.Err.Code == fault.ResourceExhausted:
		s.exhausted(f, status, c)
	case f.Err.Code == fault.Unauthenticated:
		f.Err.Hint = s.keyHint()
	case f.Err.Code == fault.PermissionDenied:
		f.Err.Hint = "the key in " + s.protocol.KeyVariable + " may not use this model or this server"
		if s.opts.APIKey == "" {
			f.Err.Hint = s.keyHint()
		}
	case f.Err.Code == fault.NotFound:
		f.Err.Message = fmt.Sprintf("ask %s for model %q: %s", s.where, s.model, text)
		f.Err.Hint = "look for the model's name at " + s.base() + s.protocol.ModelsPath + ", and check that the base URL is that of " + s.protocol.BaseHint
	case c.says("context_length", "context length", "maximum context", "context window", "too many tokens", "prompt is too long", "maximum number of tokens"):
		f.Err.Code, f.Err.Hint = fault.ResourceExhausted, "the conversation is too long for the model; limit its history with the token limiter"
	case c.says("api key not valid", "api key expired"): // Google's are invalid arguments
		f.Err.Code, f.Err.Hint = fault.Unauthenticated, s.keyHint()
	}
	return f
}

func (s *Server) keyHint() string {
	if s.opts.APIKey == "" {
		return "set " + s.protocol.KeyVariable
	}
	return "check the key in " + s.protocol.KeyVariable + "; it is set, but this server does not take it"
}

// exhausted distinguishes load, which passes, from an exhausted budget, which
// does not. A complaint that says when to come back is load, regardless of its
// words.
func (s *Server) exhausted(f *Fault, status int, c complaint) {
	switch {
	case status == http.StatusRequestEntityTooLarge:
		f.Err.Hint = "the request is too large for the server; limit the history or send less"
	case status == http.StatusPaymentRequired || c.says("insufficient_quota", "billing") && !c.hasWait:
		f.Err.Hint = "the account has no credit left; check its plan and billing"
	default:
		f.Again, f.Err.Retryable, f.Err.Hint = true, true, "too many requests; try again later"
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

// NoConversations is the error of a model whose service keeps no conversations,
// for a request that continues one.
func NoConversations(model string) error {
	return fault.Errorf(fault.FailedPrecondition, "the service of model %q keeps no conversations", model).
		WithHint("send the whole conversation, or ask a model of the Responses API that stores its answers")
}
