package share

import (
	"bytes"
	"io"
	"net/http"
	"strings"

	"github.com/agenthost/agenthost/host/egress"
	"github.com/agenthost/agenthost/host/fault"
)

// blobSlack is how much longer than a module the body of a request or an answer about
// contents may be.
const blobSlack = 64 << 10

// transport sends the requests of a registry's client as the host sends those of
// plugins: to granted and public addresses alone, bounded, redirects checked one by one.
type transport struct {
	client    *egress.Client
	policy    *egress.Policy
	blobBytes int
}

var _ http.RoundTripper = (*transport)(nil)

// RoundTrip implements [http.RoundTripper].
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	out := &egress.Request{Plugin: "share", Policy: t.policy, Method: req.Method, URL: req.URL.String()}
	out.Limits = egress.Limits{RequestBytes: t.blobBytes + blobSlack, ResponseBytes: maxIndexBytes, Timeout: DefaultTimeout}
	if strings.Contains(req.URL.Path, "/blobs/") {
		out.Limits.ResponseBytes = t.blobBytes + blobSlack
	}
	var err error
	if out.Body, err = requestBody(req, out.Limits.RequestBytes); err != nil {
		return nil, err
	}
	for name, values := range req.Header {
		for _, v := range values {
			if name != "Content-Length" {
				out.Headers = append(out.Headers, egress.Header{Name: name, Value: v})
			}
		}
	}
	in, err := t.client.Fetch(req.Context(), out)
	if err != nil {
		return nil, err
	}
	return response(req, in), nil
}

func requestBody(req *http.Request, limit int) ([]byte, error) {
	if req.Body == nil {
		return nil, nil
	}
	defer req.Body.Close()
	body, err := io.ReadAll(io.LimitReader(req.Body, int64(limit)+1))
	if err == nil && len(body) > limit {
		err = fault.Errorf(fault.ResourceExhausted, "the request has more than %d bytes", limit)
	}
	return body, err
}

func response(req *http.Request, in *egress.Response) *http.Response {
	out := &http.Response{
		Status: http.StatusText(in.Status), StatusCode: in.Status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(in.Body)), ContentLength: int64(len(in.Body)), Request: req,
	}
	for _, h := range in.Headers {
		out.Header.Add(h.Name, h.Value)
	}
	if req.Method == http.MethodHead {
		out.ContentLength = contentLength(out.Header)
	}
	return out
}

// contentLength returns the length that an answer without a body announces; -1 if it
// announces none.
func contentLength(h http.Header) int64 {
	n := int64(0)
	digits := h.Get("Content-Length")
	for _, d := range digits {
		if d < '0' || d > '9' || n > maxIndexBytes*maxIndexBytes {
			return -1
		}
		n = 10*n + int64(d-'0')
	}
	if digits == "" {
		return -1
	}
	return n
}
