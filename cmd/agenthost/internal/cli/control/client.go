package control

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"iter"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/httpapi"
)

// Call sends a request to a local route of the host that listens at path, and decodes the
// answer into result, which may be nil. The host's errors keep their codes and hints.
// Code failed_precondition if no host listens there.
func Call(ctx context.Context, path, name string, args, result any) error {
	a, err := post(ctx, path, name, args)
	if err != nil {
		return err
	}
	defer a.close()
	raw, err := io.ReadAll(io.LimitReader(a.body, MaxAnswerBytes+1))
	switch {
	case err != nil:
		return a.lost(err)
	case len(raw) > MaxAnswerBytes:
		return host.Errorf(host.ResourceExhausted, "the host at %s answers with more than %d bytes", path, MaxAnswerBytes)
	case result == nil:
		return nil
	}
	if err := json.Unmarshal(raw, result); err != nil {
		return host.Errorf(host.Unavailable, "the host at %s answers in another form: %w", path, err).WithHint(otherVersion)
	}
	return nil
}

// Stream is [Call] for a route that answers with [Events], and yields them. An error comes
// last: the host's, with its code and hint, or unavailable if the host hung up before the
// end. Leaving the loop hangs up.
func Stream(ctx context.Context, path, name string, args any) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		a, err := post(ctx, path, name, args)
		if err != nil {
			yield(nil, err)
			return
		}
		defer a.close()
		lines := bufio.NewScanner(a.body)
		lines.Buffer(nil, MaxAnswerBytes)
		for lines.Scan() {
			line := bytes.Clone(lines.Bytes())
			var last lastLine
			if json.Unmarshal(line, &last) == nil && last.Error != nil {
				yield(nil, last.Error)
				return
			}
			if !yield(line, nil) {
				return
			}
		}
		if err := lines.Err(); err != nil {
			yield(nil, a.lost(err))
		}
	}
}

// Ready returns nil if the host that listens at path takes requests, and otherwise why
// not, with code unavailable while it ends.
func Ready(ctx context.Context, path string) error {
	a, err := ask(ctx, path, http.MethodGet, "/ready", nil)
	if err == nil {
		a.close()
	}
	return err
}

const otherVersion = "it may be of another version of agenthost: end it, and start it with this one"

// hostAnswer is the answer of a host before its body is read.
type hostAnswer struct {
	ctx  context.Context // the lifetime of the request
	path string
	body io.Reader
	conn net.Conn
	stop func() bool // of the function that ends reads when ctx ends
}

func (a *hostAnswer) close() {
	a.stop()
	_ = a.conn.Close()
}

// post sends a request to a local route.
func post(ctx context.Context, path, name string, args any) (*hostAnswer, error) {
	body := []byte{}
	if args != nil {
		var err error
		if body, err = json.Marshal(args); err != nil {
			return nil, host.Errorf(host.InvalidArgument, "encode the request: %w", err)
		}
	}
	return ask(ctx, path, http.MethodPost, "/local/"+url.PathEscape(name), body)
}

// ask sends a request and returns the answer, which the caller closes. An answer that is
// an error is returned as one.
func ask(ctx context.Context, path, method, url string, body []byte) (*hostAnswer, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://localhost"+url, bytes.NewReader(body))
	if err != nil {
		return nil, host.Errorf(host.InvalidArgument, "make the request: %w", err)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, dialError(path, err)
	}
	a := &hostAnswer{ctx: ctx, path: path, conn: conn, stop: context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })}
	if err := a.send(req); err != nil {
		a.close()
		return nil, err
	}
	return a, nil
}

// send sends the request and reads the beginning of the answer. A connection is used for
// one request, so it needs no pool and no goroutine.
func (a *hostAnswer) send(req *http.Request) error {
	if err := req.Write(a.conn); err != nil {
		return a.lost(err)
	}
	in := bufio.NewReader(a.conn)
	if begin, err := in.Peek(1); err != nil {
		return a.lost(err)
	} else if begin[0] == '{' { // a line of JSON, with which earlier versions answered
		return host.Errorf(host.Unavailable, "the host at %s is of an earlier version of agenthost, which this one cannot steer", a.path).WithHint(otherVersion)
	}
	resp, err := http.ReadResponse(in, req)
	if err != nil {
		return a.lost(err)
	}
	a.body = resp.Body
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	return a.problem(resp)
}

// problem reads an answer that is an error.
func (a *hostAnswer) problem(resp *http.Response) error {
	raw, err := io.ReadAll(io.LimitReader(a.body, MaxRequestBytes))
	if err != nil {
		return a.lost(err)
	}
	var p httpapi.Problem
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), httpapi.ProblemType) || json.Unmarshal(raw, &p) != nil {
		return host.Errorf(host.Unavailable, "%s is no host: it answers with status %d", a.path, resp.StatusCode).WithHint("name the socket of a host with --socket")
	}
	return p.Error(resp.Header)
}

func (a *hostAnswer) lost(err error) error {
	if a.ctx.Err() != nil {
		return host.Errorf(host.Canceled, "interrupted: %w", a.ctx.Err())
	}
	return host.Errorf(host.Unavailable, "the host at %s does not answer: %w", a.path, err).WithHint("has it ended?")
}

// errUnreachable is the cause of an error of a [Call] that reached no host.
var errUnreachable = errors.New("nobody listens")

// Unreachable reports whether an error of [Call] means that no host listens.
func Unreachable(err error) bool { return errors.Is(err, errUnreachable) }

func dialError(path string, err error) error {
	const start = "start one with: agenthost serve PROJECT --data DIR, or agenthost dev PROJECT --data DIR"
	switch {
	case len(path) > maxPathBytes:
		return host.Errorf(host.InvalidArgument, "the path of the control socket is %d bytes, more than the %d that a socket's may have", len(path), maxPathBytes)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		e := host.Errorf(host.FailedPrecondition, "no host is running at %s", path).WithHint(start)
		e.Err = errUnreachable
		return e
	case errors.Is(err, fs.ErrPermission):
		return host.Errorf(host.PermissionDenied, "the host at %s is another user's", path)
	}
	return host.Errorf(host.FailedPrecondition, "reach the host at %s: %w", path, err).WithHint(start)
}
