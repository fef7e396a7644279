package httpapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/agenthost/agenthost/host"
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
}

// statusError is an error whose status is not that of its code.
type statusError struct {
	status int
	err    error
}

func (e *statusError) Error() string { return e.err.Error() }
func (e *statusError) Unwrap() error { return e.err }

// errAnswered ends a call whose answer has been sent.
var errAnswered = errors.New("answered")

// fail answers with an error.
func (c *call) fail(err error) {
	c.api.logMasked(c, err)
	e := fault.ForClient(err, c.id)
	p := Problem{
		Type: "urn:agenthost:error:" + string(e.Code), Status: e.Code.HTTPStatus(), Detail: e.Message, Code: e.Code,
		Hint: e.Hint, Retryable: e.Retryable, Limit: e.Limit, Request: c.id,
	}
	var other *statusError
	if errors.As(err, &other) {
		p.Status = other.status
	}
	p.Title = http.StatusText(p.Status)
	h := c.w.Header()
	e.SetRetryAfter(h)
	if e.Code == host.Unauthenticated {
		h.Set("WWW-Authenticate", `Bearer realm="agenthost"`)
	}
	raw, err := json.Marshal(p)
	if err != nil {
		raw = []byte(`{"type":"about:blank","title":"Internal Server Error","status":500,"code":"internal"}`)
	}
	h.Set("Content-Type", "application/problem+json")
	h.Set("Content-Length", strconv.Itoa(len(raw)+1))
	c.sending()
	c.w.WriteHeader(p.Status)
	_, _ = c.w.Write(append(raw, '\n'))
}
