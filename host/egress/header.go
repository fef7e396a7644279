package egress

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/agenthost/agenthost/host/fault"
)

// Bounds of a request's method and headers.
const (
	maxMethodBytes = 20
	maxHeaders     = 100
)

// userAgent is sent where a request names none.
const userAgent = "agenthost"

// checkMethod accepts methods in capitals, but those that ask for a tunnel or
// for an echo of the request, secrets included.
func checkMethod(m string) error {
	if m == "" || len(m) > maxMethodBytes || strings.Trim(m, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") != "" {
		return fault.Errorf(fault.InvalidArgument, "the method %.20q is not a word in capitals", m)
	}
	if m == http.MethodConnect || m == http.MethodTrace {
		return fault.Errorf(fault.InvalidArgument, "the method %s is never sent", m)
	}
	return nil
}

// hostHeaders belong to the host: they frame the message, name its receiver or
// its way here, or would undo the check of the method.
var hostHeaders = map[string]bool{
	"host": true, "content-length": true, "transfer-encoding": true, "te": true, "trailer": true,
	"connection": true, "keep-alive": true, "upgrade": true, "http2-settings": true, "expect": true,
	"via": true, "forwarded": true, "x-real-ip": true, "x-forwarded-for": true, "x-forwarded-host": true,
	"x-forwarded-proto": true, "x-forwarded-port": true, "x-forwarded-server": true,
	"x-http-method-override": true, "x-http-method": true, "x-method-override": true,
}

// checkHeaders refuses invalid headers, headers that the host sets, and too
// many or too large ones.
func checkHeaders(headers []Header, limit int) error {
	if len(headers) > maxHeaders {
		return fault.Errorf(fault.ResourceExhausted, "the request has %d headers, more than %d", len(headers), maxHeaders)
	}
	size := 0
	for _, h := range headers {
		size += len(h.Name) + len(h.Prefix) + len(h.Value) + 4
		lower := strings.ToLower(h.Name)
		switch {
		case !isToken(h.Name):
			return fault.Errorf(fault.InvalidArgument, "%.40q is not the name of a header", h.Name)
		case hostHeaders[lower] || strings.HasPrefix(lower, "proxy-"):
			return fault.Errorf(fault.InvalidArgument, "the header %s is the host's to set", h.Name)
		case !isFieldValue(h.Value) || !isFieldValue(h.Prefix):
			return fault.Errorf(fault.InvalidArgument, "the value of header %s has a control character", h.Name)
		case h.Secret != "" && h.Value != "":
			return fault.Errorf(fault.InvalidArgument, "the header %s has a value and a secret; it needs one of them", h.Name)
		case h.Secret == "" && h.Prefix != "":
			return fault.Errorf(fault.InvalidArgument, "the header %s has a prefix and no secret", h.Name)
		}
	}
	if size > limit {
		return fault.Errorf(fault.ResourceExhausted, "the headers have %d bytes, more than the limit HeaderBytes of %d", size, limit)
	}
	return nil
}

func isToken(s string) bool {
	const others = "!#$%&'*+-.^_`|~"
	for i := range len(s) {
		c := s[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte(others, c) >= 0) {
			return false
		}
	}
	return s != ""
}

func isFieldValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// fill returns the header fields for the server that is asked now, with the
// secrets that may go there. The encoding is the host's choice, so that a
// response can be bounded and searched.
func (f *fetch) fill(ctx context.Context) (http.Header, error) {
	out := http.Header{"User-Agent": {userAgent}, "Accept-Encoding": {"gzip"}}
	agent := false
	for _, h := range f.headers {
		value := h.Value
		if h.Secret != "" {
			secret, err := f.secret(ctx, h.Secret)
			if err != nil {
				return nil, err
			}
			value = h.Prefix + secret.Reveal()
		}
		switch name := http.CanonicalHeaderKey(h.Name); {
		case name == "Accept-Encoding":
		case name == "Range":
			out[name] = append(out[name], value)
			out["Accept-Encoding"] = []string{"identity"} // ranges then count the bytes that the plugin sees
		case name == "User-Agent" && !agent:
			agent = true
			out[name] = []string{value}
		default:
			out[name] = append(out[name], value)
		}
	}
	return out, nil
}

// secret returns a secret that may be sent to the server that is asked now.
func (f *fetch) secret(ctx context.Context, name string) (Secret, error) {
	if !f.req.Policy.allowSecret(name, f.target) {
		return Secret{}, fault.Errorf(fault.PermissionDenied, "the secret %q is not granted towards %s", name, f.target.origin()).
			WithHint("grant secret=%s@%s", name, f.target.origin())
	}
	if f.client.opts.Secrets == nil {
		return Secret{}, fault.Errorf(fault.FailedPrecondition, "the secret %q can't be read: this host has no secrets", name)
	}
	secret, err := f.client.opts.Secrets.Secret(ctx, f.req.Tenant, name)
	if err != nil {
		return Secret{}, secretError(name, err)
	}
	if v := secret.Reveal(); v == "" || !isFieldValue(v) || len(v) > maxSecretBytes {
		return Secret{}, fault.Errorf(fault.FailedPrecondition, "the secret %q can't be sent in a header: it is empty, too long or of several lines", name)
	}
	f.redactor.Add(secret)
	return secret, nil
}

// secretError keeps the code of a source's error, and not its text, which may
// name paths. The hint about a missing secret comes from the source.
func secretError(name string, err error) error {
	code := fault.CodeOf(err)
	if code == fault.NotFound {
		e := fault.Errorf(fault.NotFound, "the secret %q does not exist", name)
		if e.Hint = fault.AsError(err).Hint; e.Hint == "" {
			e.Hint = "set it where this host reads secrets from"
		}
		return e
	}
	return fault.Errorf(code, "the secret %q can't be read", name)
}

// safeHeaders may follow a redirect to another server; everything else that the
// plugin set may be a credential and is dropped.
var safeHeaders = []string{"accept", "accept-language", "content-language", "content-type", "range", "user-agent"}

func keepSafe(headers []Header) []Header {
	return slices.DeleteFunc(slices.Clone(headers), func(h Header) bool {
		return h.Secret != "" || !slices.Contains(safeHeaders, strings.ToLower(h.Name))
	})
}

func dropBodyHeaders(headers []Header) []Header {
	return slices.DeleteFunc(slices.Clone(headers), func(h Header) bool {
		lower := strings.ToLower(h.Name)
		return strings.HasPrefix(lower, "content-") || lower == "digest" || lower == "last-modified"
	})
}
