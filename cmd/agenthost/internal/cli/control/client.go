package control

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"syscall"
	"time"

	"github.com/agenthost/agenthost/host"
)

// Call sends the host that listens at path one request and decodes the answer into
// result, which may be nil. The host's errors keep their codes and hints. Code
// failed_precondition if no host listens there.
func Call(ctx context.Context, path, op string, args, result any) error {
	conn, err := ask(ctx, path, op, args)
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	line, err := readLine(bufio.NewReader(conn), MaxAnswerBytes)
	if err != nil {
		return lost(ctx, path, err)
	}
	return decode(path, line, result)
}

// ask sends a request.
func ask(ctx context.Context, path, op string, args any) (net.Conn, error) {
	req := Request{Op: op}
	var err error
	if args != nil {
		if req.Args, err = json.Marshal(args); err != nil {
			return nil, host.Errorf(host.InvalidArgument, "encode the request: %w", err)
		}
	}
	line, err := json.Marshal(req)
	if err != nil {
		return nil, host.Errorf(host.InvalidArgument, "encode the request: %w", err)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, dialError(path, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := conn.Write(append(line, '\n')); err != nil {
		conn.Close()
		return nil, lost(ctx, path, err)
	}
	return conn, nil
}

func lost(ctx context.Context, path string, err error) error {
	if ctx.Err() != nil {
		return host.Errorf(host.Canceled, "interrupted: %w", ctx.Err())
	}
	return host.Errorf(host.Unavailable, "the host at %s does not answer: %w", path, err).WithHint("has it ended?")
}

func notAnAnswer(path string, err error) error {
	return host.Errorf(host.Unavailable, "the host at %s answers with what is no answer: %w", path, err)
}

func decode(path string, line []byte, result any) error {
	var a answer
	if err := json.Unmarshal(line, &a); err != nil {
		return notAnAnswer(path, err)
	}
	if a.Error != nil {
		return a.Error
	}
	if a.Event != nil {
		return notAnAnswer(path, errEvents)
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(a.Result, result); err != nil {
		return host.Errorf(host.Unavailable, "the host at %s answers in another form: %w", path, err).
			WithHint("is it of another version of agenthost?")
	}
	return nil
}

// errEvents is the error of a [Call] that should have been a [Stream].
var errEvents = errors.New("it answers with events")

// errUnreachable is the cause of an error of a [Call] that reached no host.
var errUnreachable = errors.New("nobody listens")

// Unreachable reports whether an error of [Call] means that no host listens.
func Unreachable(err error) bool { return errors.Is(err, errUnreachable) }

func dialError(path string, err error) error {
	const start = "start one with: agenthost dev PROJECT --data DIR"
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
