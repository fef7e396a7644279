package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
	"github.com/agenthost/agenthost/host/keys"
)

// The bounds of parts of a request.
const (
	maxIDBytes     = 256 // of a variable in a path
	maxRequestID   = 64
	maxQueryBytes  = 8 << 10
	maxHeaderBytes = 1 << 10 // of a header that a route reads
)

// call is one request and its answer.
type call struct {
	api       *API
	route     *route
	w         http.ResponseWriter
	r         *http.Request
	ctx       context.Context // the lifetime of the request
	id        string          // of the request
	principal *keys.Principal
	query     query
	audit     changeAudit
}

// begin makes the call of a request, with its deadlines.
func (a *API) begin(w http.ResponseWriter, r *http.Request, of *route) (*call, context.CancelFunc) {
	c := &call{api: a, route: of, w: w, r: r, id: requestID(r), principal: &keys.Principal{}}
	c.audit.call = c
	h := w.Header()
	h.Set("X-Request-Id", c.id)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	control := http.NewResponseController(w)
	c.ctx = r.Context()
	forBody, whole := a.options.Bounds.BodyTimeout, a.options.Bounds.RequestTimeout
	if of.takes != "" {
		forBody = a.options.Bounds.UploadTimeout
		whole += forBody
	}
	if r.Body != nil && r.Body != http.NoBody { // without one, the server would take it for the client's leaving
		_ = control.SetReadDeadline(time.Now().Add(forBody)) // a writer of tests has none; the server ends it with the body
	}
	if of.stream {
		_ = control.SetWriteDeadline(time.Time{}) // the connection's last request may have left one
		return c, func() {}
	}
	_ = control.SetWriteDeadline(time.Now().Add(a.options.Bounds.RequestTimeout + forBody))
	ctx, cancel := context.WithTimeout(c.ctx, whole)
	c.ctx = ctx
	return c, cancel
}

// tenant returns whose data or rights the request is about: the tenant in an
// administrator's path, or that of the credential. It is "" for a thing of the host's.
func (c *call) tenant() string {
	if of := c.r.PathValue("tenant"); of != "" || c.route.admin && c.principal.Admin {
		return of
	}
	return c.principal.Tenant
}

// sending gives the next bytes of an answer their deadline, where the route has none for
// the whole.
func (c *call) sending() {
	if c.route.stream {
		_ = http.NewResponseController(c.w).SetWriteDeadline(time.Now().Add(c.api.options.Bounds.RequestTimeout))
	}
}

// requestID returns the id that the client gave, if it is fit to be logged, or a
// fresh one.
func requestID(r *http.Request) string {
	id := r.Header.Get("X-Request-Id")
	if id == "" || len(id) > maxRequestID {
		return chat.NewID()
	}
	for _, b := range []byte(id) {
		if b <= ' ' || b > '~' {
			return chat.NewID()
		}
	}
	return id
}

// checkCondition refuses a change under a condition that the route does not keep: its sender
// would lose what the condition is to save.
func (c *call) checkCondition() error {
	if c.r.Method == http.MethodGet || c.r.Method == http.MethodHead || len(c.r.Header.Values("If-Match")) == 0 ||
		slices.ContainsFunc(c.route.headers, func(p param) bool { return p.name == "If-Match" }) {
		return nil
	}
	return host.Errorf(host.InvalidArgument, "%s %s has no header If-Match", c.route.method, c.route.path).WithHint("leave it out: the change is not conditional")
}

// path returns a variable of the path.
func (c *call) path(name string) (string, error) {
	v := c.r.PathValue(name)
	switch {
	case len(v) > maxIDBytes:
		return "", host.Errorf(host.InvalidArgument, "the %s in the path is more than %d bytes", name, maxIDBytes)
	case !utf8.ValidString(v):
		return "", host.Errorf(host.InvalidArgument, "the %s in the path is not UTF-8", name)
	}
	return v, nil
}

// revisionTag returns the ETag of a thing of a revision.
func revisionTag(revision uint64) string { return `"` + strconv.FormatUint(revision, 10) + `"` }

// revision returns the revision that the header If-Match names, of a thing in words; ok is
// false without the header.
func (c *call) revision(of string) (revision uint64, ok bool, err error) {
	tag := c.r.Header.Get("If-Match")
	if tag == "" {
		return 0, false, nil
	}
	text, opened := strings.CutPrefix(tag, `"`)
	text, closed := strings.CutSuffix(text, `"`)
	if revision, err = strconv.ParseUint(text, 10, 64); err != nil || !opened || !closed {
		return 0, false, host.Errorf(host.InvalidArgument, "If-Match is not the ETag of a %s: %.60q", of, tag).WithHint("send the ETag that the answer of a read has")
	}
	return revision, true, nil
}

// checkBody refuses a body in an encoding or a charset that the route does not read. A file
// may be a text in any charset.
func (c *call) checkBody() error {
	if c.route.body == nil && c.route.takes == "" {
		return nil
	}
	if e := strings.Join(c.r.Header.Values("Content-Encoding"), ","); e != "" && !strings.EqualFold(e, "identity") {
		c.w.Header().Set("Accept-Encoding", "identity")
		return &statusError{http.StatusUnsupportedMediaType, host.Errorf(host.InvalidArgument, "the body has the encoding %.60q", e).WithHint("send it without Content-Encoding")}
	}
	if c.route.body == nil {
		return nil
	}
	_, params, _ := mime.ParseMediaType(c.r.Header.Get("Content-Type")) // the handler refuses one that cannot be parsed
	if charset := params["charset"]; charset != "" && !strings.EqualFold(charset, "utf-8") {
		return &statusError{http.StatusUnsupportedMediaType, host.Errorf(host.InvalidArgument, "the body has the charset %.60q", charset).WithHint("send UTF-8")}
	}
	return nil
}

// bodyIs refuses a body of another media type than those; none is any of them.
func (c *call) bodyIs(types ...string) error {
	t := c.r.Header.Get("Content-Type")
	if t == "" {
		return nil
	}
	media, _, err := mime.ParseMediaType(t)
	if err != nil || !slices.Contains(types, media) {
		return &statusError{http.StatusUnsupportedMediaType, host.Errorf(host.InvalidArgument, "the body is of type %.60q", t).WithHint("send %s", types[0])}
	}
	return nil
}

// body reads the body into into.
func (c *call) body(into any) error {
	raw, err := c.readBody()
	if err != nil {
		return err
	}
	return decode(raw, into)
}

// readBody returns a body of JSON.
func (c *call) readBody() ([]byte, error) {
	if err := c.bodyIs("application/json"); err != nil {
		return nil, err
	}
	limit := c.api.options.Bounds.MaxBodyBytes
	raw, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, limit))
	if err != nil {
		return nil, badBody(err, limit)
	}
	return raw, nil
}

func badBody(err error, limit int64) error {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return &statusError{http.StatusRequestEntityTooLarge, host.Errorf(host.ResourceExhausted, "the body is more than %d bytes", limit)}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &statusError{http.StatusRequestTimeout, host.Errorf(host.DeadlineExceeded, "the body did not come in time")}
	}
	return host.Errorf(host.InvalidArgument, "the body cannot be read: %w", err)
}

// decode reads JSON of which every reader makes the same value: a member given twice
// is refused, and one that is unknown.
func decode(raw []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	return decodeBy(d, raw, into)
}

// decodeKnown is decode of the members that are known: others are ignored.
func decodeKnown(raw []byte, into any) error {
	return decodeBy(json.NewDecoder(bytes.NewReader(raw)), raw, into)
}

func decodeBy(d *json.Decoder, raw []byte, into any) error {
	if len(bytes.TrimSpace(raw)) == 0 {
		return host.Errorf(host.InvalidArgument, "the request has no body").WithHint("send a JSON object")
	}
	if _, _, err := jsondoc.DecodeStrict(raw); err != nil {
		return host.Errorf(host.InvalidArgument, "the body is not JSON: %w", err)
	}
	if err := d.Decode(into); err != nil {
		var coded *host.Error
		if errors.As(err, &coded) {
			return coded
		}
		return host.Errorf(host.InvalidArgument, "the body does not fit: %s", bodyFault(err)).WithHint("GET /v1/openapi.json has the schema")
	}
	return nil
}

// bodyFault says which member does not fit, without names of Go types.
func bodyFault(err error) string {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		is := " is a " + wrong.Value
		if strings.HasPrefix(wrong.Value, "a") || strings.HasPrefix(wrong.Value, "o") { // array, object
			is = " is an " + wrong.Value
		}
		if wrong.Field == "" {
			return "it" + is
		}
		return "member " + strconv.Quote(wrong.Field) + is
	}
	const unknown = "json: unknown field "
	if text := err.Error(); len(text) > len(unknown) && text[:len(unknown)] == unknown {
		return "there is no member " + text[len(unknown):]
	}
	return "a member has another form"
}

// answer sends v with the route's status.
func (c *call) answer(v any) error { return c.answerWith(c.route.status, v) }

func (c *call) answerWith(status int, v any) error {
	if v == nil {
		c.w.WriteHeader(status)
		return nil
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return host.Errorf(host.Internal, "encode the answer: %w", err)
	}
	h := c.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(raw)+1))
	c.sending()
	c.w.WriteHeader(status)
	_, _ = c.w.Write(append(raw, '\n')) // a client that has left reads nothing
	return nil
}
