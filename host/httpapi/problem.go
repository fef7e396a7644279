package httpapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/agenthost/agenthost/host/fault"
)

// Problem is the body of an answer that is an error: problem details as of RFC 9457,
// of type application/problem+json, with the members of [fault.Error] beside them.
type Problem struct {
	Type      string     `json:"type"`   // urn:agenthost:error:CODE
	Title     string     `json:"title"`  // the status in words
	Status    int        `json:"status"` // the HTTP status
	Detail    string     `json:"detail"` // the thing and the cause
	Code      fault.Code `json:"code"`
	Hint      string     `json:"hint,omitempty"` // the next step
	Retryable bool       `json:"retryable,omitempty"`
	Limit     string     `json:"limit,omitempty"` // the limit that refused the request
	Request   string     `json:"request"`         // the X-Request-Id of the answer

	retryAfter time.Duration
}

// ProblemType is the media type of a [Problem].
const ProblemType = "application/problem+json"

// NewProblem returns an error as a problem. request is the id of the request. The text is
// the error's own: what clients may not read is replaced by [fault.ForClient] before.
func NewProblem(e *fault.Error, request string) *Problem {
	status := e.Code.HTTPStatus()
	return &Problem{
		Type: "urn:agenthost:error:" + string(e.Code), Title: http.StatusText(status), Status: status, Detail: e.Message, Code: e.Code,
		Hint: e.Hint, Retryable: e.Retryable, Limit: e.Limit, Request: request, retryAfter: e.RetryAfter,
	}
}

// Answer sends the problem as the answer of a request.
func (p *Problem) Answer(w http.ResponseWriter) {
	h := w.Header()
	(&fault.Error{RetryAfter: p.retryAfter}).SetRetryAfter(h)
	if p.Code == fault.Unauthenticated {
		h.Set("WWW-Authenticate", authenticateWith)
	}
	raw, err := json.Marshal(p)
	if err != nil {
		raw = []byte(`{"type":"about:blank","title":"Internal Server Error","status":500,"code":"internal"}`)
	}
	h.Set("Content-Type", ProblemType)
	h.Set("Content-Length", strconv.Itoa(len(raw)+1))
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(raw, '\n')) // a client that has left reads nothing
}

// Error returns the error that a client has read, with the Retry-After of its header.
func (p *Problem) Error(h http.Header) *fault.Error {
	e := fault.Errorf(p.Code, "%s", p.Detail)
	if !p.Code.Valid() {
		e.Code = fault.Internal
	}
	e.Hint, e.Retryable, e.Limit = p.Hint, p.Retryable, p.Limit
	if n, err := strconv.Atoi(h.Get("Retry-After")); err == nil && n > 0 && n <= maxRetryAfter {
		e.RetryAfter = time.Duration(n) * time.Second
	}
	return e
}

// maxRetryAfter bounds the seconds of a Retry-After that is believed: a year.
const maxRetryAfter = 365 * 24 * 60 * 60

// statusError is an error whose status is not that of its code.
type statusError struct {
	status int
	err    error
}

func (e *statusError) Error() string { return e.err.Error() }
func (e *statusError) Unwrap() error { return e.err }

// errAnswered ends a call whose answer has been sent.
var errAnswered = errors.New("answered")

// authenticateWith says how a request is authenticated.
const authenticateWith = `Bearer realm="agenthost"`

// fail answers with an error.
func (c *call) fail(err error) {
	c.api.logMasked(c, err)
	p := NewProblem(c.api.forClient(err, c.id), c.id)
	var other *statusError
	if errors.As(err, &other) {
		p.Status, p.Title = other.status, http.StatusText(other.status)
	}
	c.sending()
	p.Answer(c.w)
}

// forClient returns an error as the API's clients read it. run names the run or request
// in whose log the operator finds the whole one.
func (a *API) forClient(err error, run string) *fault.Error {
	if a.options.WholeErrors {
		return fault.AsError(err)
	}
	return fault.ForClient(err, run)
}
