package modelhttp

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"
)

// Body is the body of a request, in pieces that are sent one after the other: a
// conversation is long, and most of its pieces exist already.
type Body [][]byte

// Len returns the length of all pieces together.
func (b Body) Len() int64 {
	n := 0
	for _, piece := range b {
		n += len(piece)
	}
	return int64(n)
}

// joinBytes is the length up to which a body is joined after all: net/http sends
// a body in memory together with the header, and any other in a packet of its
// own.
const joinBytes = 32 << 10

// reader returns a function that returns readers of the body, each from its
// beginning.
func (b Body) reader() func() (io.ReadCloser, error) {
	if b.Len() > joinBytes {
		return func() (io.ReadCloser, error) { return &bodyReader{left: b}, nil }
	}
	joined := bytes.Join(b, nil)
	return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(joined)), nil }
}

type bodyReader struct {
	left  [][]byte
	piece []byte // the unread rest of the present piece
}

// Read implements io.Reader. It fills p, for each read is a write to the network.
func (r *bodyReader) Read(p []byte) (n int, err error) {
	for n < len(p) {
		if len(r.piece) == 0 {
			if len(r.left) == 0 {
				return n, io.EOF
			}
			r.piece, r.left = r.left[0], r.left[1:]
		}
		m := copy(p[n:], r.piece)
		r.piece = r.piece[m:]
		n += m
	}
	return n, nil
}

// Close implements io.Closer.
func (r *bodyReader) Close() error { return nil }

// post sends a body as JSON to a path below the base URL, which may have a query
// of its own, with the headers that are given and the server's own, and opens the
// event stream of the answer. Its errors are those of do. The pieces must not be
// changed any more.
func (x *Exchange) post(path string, body Body, headers http.Header) error {
	u := *x.server.url
	path, query, _ := strings.Cut(path, "?")
	if u.Path += path; u.RawPath != "" {
		u.RawPath += path
	}
	if u.RawQuery != "" && query != "" {
		u.RawQuery += "&"
	}
	u.RawQuery += query
	reader := body.reader()
	first, _ := reader()
	req := (&http.Request{
		Method: http.MethodPost, URL: &u, Host: u.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: make(http.Header, len(headers)+len(x.server.opts.Headers)+2),
		Body:   first, GetBody: reader, ContentLength: body.Len(),
	}).WithContext(x.ctx)
	req.Header["Content-Type"] = jsonType
	if req.Header["Accept"] = eventStream; x.whole {
		req.Header["Accept"] = jsonType
	}
	for name, values := range headers {
		req.Header[name] = slices.Clip(values)
	}
	_, err := x.do(req)
	return err
}

// The values of headers; they are never written to.
var (
	jsonType    = []string{"application/json"}
	eventStream = []string{"text/event-stream"}
)
