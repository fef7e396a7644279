package egress

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"syscall"

	"github.com/agenthost/agenthost/host/fault"
)

// read reads the whole response, bounded, decompressed and redacted.
func (f *fetch) read(ctx context.Context, resp *http.Response, redirects int) (*Response, error) {
	defer resp.Body.Close()
	f.learnSecrets(ctx)
	body, err := f.readBody(resp)
	if err != nil {
		return nil, err
	}
	return &Response{
		Status: resp.StatusCode, Headers: f.responseHeaders(resp.Header), Body: f.redactor.Redact(body),
		URL: f.redactor.RedactString(f.target.url.String()), Redirects: redirects, Secrets: !f.redactor.Empty(),
	}, nil
}

// learnSecrets adds to the redactor every secret that the plugin may send
// anywhere: a server can keep a secret of an earlier request, and return it to a
// request without one.
func (f *fetch) learnSecrets(ctx context.Context) {
	source := f.client.opts.Secrets
	if f.req.Policy == nil || source == nil {
		return
	}
	for name := range f.req.Policy.secrets {
		if s, err := source.Secret(ctx, f.req.Tenant, name); err == nil {
			f.redactor.Add(s)
		}
	}
}

// framing is how many bytes longer a compressed body may be than its content:
// some compressions add bytes, but none adds many.
const framing = 64 << 10

// readBody reads the body. The limit holds for the decompressed bytes, so that a
// bomb ends at the limit too, and for the compressed ones, so that endless empty
// blocks do. Where a secret must be redacted, an unreadable encoding is refused.
func (f *fetch) readBody(resp *http.Response) ([]byte, error) {
	var from io.Reader = resp.Body
	switch encoding := strings.ToLower(strings.TrimSpace(resp.Header.Get("Content-Encoding"))); {
	case f.method == http.MethodHead || encoding == "" || encoding == "identity":
	case len(resp.Header.Values("Content-Encoding")) == 1 && (encoding == "gzip" || encoding == "x-gzip"):
		unzip, err := gzip.NewReader(&cappedReader{resp.Body, f.limits.ResponseBytes + framing, f.tooLarge})
		if errors.Is(err, io.EOF) {
			break // a response without a body
		}
		if err != nil {
			return nil, err
		}
		from = unzip
		resp.Header.Del("Content-Encoding")
		resp.Header.Del("Content-Length")
	case !f.redactor.Empty():
		return nil, fault.Errorf(fault.Unavailable, "%s answers in an encoding that was not asked for and can't be searched for secrets", f.target.origin())
	}
	return f.readAll(from, resp.ContentLength)
}

// cappedReader fails when more than its rest has been read.
type cappedReader struct {
	from    io.Reader
	rest    int
	exhaust func() error
}

func (r *cappedReader) Read(b []byte) (int, error) {
	if r.rest <= 0 {
		return 0, r.exhaust()
	}
	n, err := r.from.Read(b[:min(len(b), r.rest)])
	r.rest -= n
	return n, err
}

// firstRead bounds the memory allocated for an announced Content-Length.
const firstRead = 64 << 10

func (f *fetch) readAll(from io.Reader, announced int64) ([]byte, error) {
	limit := f.limits.ResponseBytes
	if f.method != http.MethodHead && announced > int64(limit) {
		return nil, f.tooLarge()
	}
	b := make([]byte, 0, min(max(announced+1, 512), firstRead))
	for {
		if len(b) == cap(b) {
			b = grow(b, announced)
		}
		n, err := from.Read(b[len(b):min(cap(b), limit+1)])
		b = b[:len(b)+n]
		switch {
		case len(b) > limit:
			return nil, f.tooLarge()
		case err == io.EOF:
			return b, nil
		case err != nil:
			return nil, err
		}
	}
}

// grow makes room for the rest of the announced bytes, but for no more than
// three times the received ones.
func grow(b []byte, announced int64) []byte {
	size := 4 * cap(b)
	if rest := announced + 1; int64(cap(b)) < rest && rest < int64(size) {
		size = int(rest)
	}
	return append(make([]byte, 0, size), b...)
}

func (f *fetch) tooLarge() error {
	return fault.Errorf(fault.ResourceExhausted, "the response has more bytes than the limit ResponseBytes of %d", f.limits.ResponseBytes).
		WithHint("ask for less, with a range or a page")
}

// responseHeaders returns the headers in a fixed order, without those of the
// connection.
func (f *fetch) responseHeaders(h http.Header) []Header {
	var out []Header
	for _, name := range slices.Sorted(maps.Keys(h)) {
		lower := strings.ToLower(name)
		if responseHop[lower] || strings.HasPrefix(lower, "proxy-") {
			continue
		}
		for _, v := range h[name] {
			out = append(out, Header{Name: lower, Value: f.redactor.RedactString(v)})
		}
	}
	return out
}

var responseHop = map[string]bool{
	"connection": true, "keep-alive": true, "te": true, "trailer": true, "transfer-encoding": true, "upgrade": true, "alt-svc": true,
}

// reason says in our words why a round trip did not come about. The transport's
// own texts hold addresses of this machine and of hosts inside its network.
func reason(err error) string {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var verify *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the server closed the connection"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "the network can't reach it"
	case errors.As(err, &unknown):
		return "its certificate is signed by an unknown authority"
	case errors.As(err, &name):
		return "its certificate is for another name"
	case errors.As(err, &invalid), errors.As(err, &verify):
		return "its certificate is not valid"
	case errors.As(err, &record), errors.As(err, &alert):
		return "it does not speak TLS as this host does"
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum):
		return "its compressed body is damaged"
	case headersTooLarge(err):
		return "its headers are larger than the limit HeaderBytes"
	}
	return "its answer is not HTTP that can be read"
}

// headersTooLarge reports whether err is net/http's for headers over the transport's
// limit, which it gives as text alone: with HTTP/1 and with HTTP/2.
func headersTooLarge(err error) bool {
	text := err.Error()
	return strings.Contains(text, "response headers exceeded") || strings.Contains(text, "header list")
}
