package control_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/control"
	"github.com/agenthost/agenthost/host"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// socketPath is short: a test's own directory may be too long for a socket.
func socketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "c")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

func serve(t *testing.T, handlers map[string]control.Handler) string {
	t.Helper()
	path := socketPath(t)
	s, err := control.Listen(path, handlers)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), s.Close()); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
	return path
}

func echo(_ context.Context, args json.RawMessage) (any, error) { return args, nil }

func TestCallReachesItsHandler(t *testing.T) {
	path := serve(t, map[string]control.Handler{"echo": echo})
	var got struct{ A int }
	if err := control.Call(t.Context(), path, "echo", map[string]int{"A": 7}, &got); err != nil || got.A != 7 {
		t.Errorf("Call = %+v, %v; want what was sent", got, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket's mode is %v, %v; want 0600", info.Mode(), err)
	}
}

func TestErrorsKeepTheirCodesAndHints(t *testing.T) {
	path := serve(t, map[string]control.Handler{"fail": func(context.Context, json.RawMessage) (any, error) {
		return nil, host.Errorf(host.NotFound, "there is none").WithHint("look elsewhere")
	}})
	err := control.Call(t.Context(), path, "fail", nil, nil)
	var e *host.Error
	if !errors.As(err, &e) || e.Code != host.NotFound || e.Hint != "look elsewhere" {
		t.Errorf("Call = %v, want not_found with its hint", err)
	}
	if err := control.Call(t.Context(), path, "nothing", nil, nil); host.CodeOf(err) != host.Unimplemented {
		t.Errorf("Call of an unknown operation = %v, want unimplemented", err)
	}
}

func TestASocketThatIsInUse(t *testing.T) {
	path := serve(t, nil)
	if _, err := control.Listen(path, nil); host.CodeOf(err) != host.FailedPrecondition || !strings.Contains(err.Error(), "another host listens") {
		t.Errorf("Listen at a socket in use = %v, want failed_precondition", err)
	}
}

func TestAStaleSocketIsReplaced(t *testing.T) {
	path := socketPath(t)
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close() // as a process that was killed leaves it
	if err := control.Call(t.Context(), path, "echo", nil, nil); host.CodeOf(err) != host.FailedPrecondition || !strings.Contains(err.Error(), "no host is running") {
		t.Errorf("Call of a host that is gone = %v, want failed_precondition", err)
	}
	s, err := control.Listen(path, map[string]control.Handler{"echo": echo})
	if err != nil {
		t.Fatalf("Listen at a stale socket = %v", err)
	}
	if err := control.Call(t.Context(), path, "echo", 1, nil); err != nil {
		t.Errorf("Call = %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
}

func TestWhatIsNoSocketIsLeftAlone(t *testing.T) {
	path := socketPath(t)
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := control.Listen(path, nil); host.CodeOf(err) != host.FailedPrecondition {
		t.Errorf("Listen at a file = %v, want failed_precondition", err)
	}
	if b, _ := os.ReadFile(path); string(b) != "mine" {
		t.Errorf("the file now holds %q", b)
	}
	if _, err := control.Listen(strings.Repeat("x", 200), nil); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("Listen at a path that is too long = %v, want invalid_argument", err)
	}
}

// ask sends bytes as they are and returns the first line of the answer.
func ask(t *testing.T, path string, raw []byte) string {
	t.Helper()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go func() { _, _ = conn.Write(raw) }()
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		t.Fatalf("read the answer to %.40q: %v", raw, err)
	}
	return line
}

func TestBadRequestsAreAnswered(t *testing.T) {
	path := serve(t, map[string]control.Handler{"echo": echo})
	for _, c := range []struct{ name, raw, want string }{
		{"no JSON", "hello\n", `"invalid_argument"`},
		{"a list", "[1]\n", `"invalid_argument"`},
		{"an empty line", "\n", `"invalid_argument"`},
		{"an operation that is not there", `{"op":"x"}` + "\n", `"unimplemented"`},
		{"too long", string(bytes.Repeat([]byte("a"), control.MaxRequestBytes+8192)), `"resource_exhausted"`},
		{"two on one line", `{"op":"echo"}{"op":"echo"}` + "\n", `"invalid_argument"`},
	} {
		if got := ask(t, path, []byte(c.raw)); !strings.Contains(got, c.want) {
			t.Errorf("%s is answered with %.200s, want %s", c.name, got, c.want)
		}
	}
}

func TestAConnectionMayAskSeveralThings(t *testing.T) {
	path := serve(t, map[string]control.Handler{"echo": echo})
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	lines := bufio.NewScanner(conn)
	for _, n := range []string{"1", "2", "3"} {
		if _, err := conn.Write([]byte(`{"op":"echo","args":` + n + "}\n")); err != nil {
			t.Fatal(err)
		}
		if want := `{"result":` + n + `}`; !lines.Scan() || lines.Text() != want {
			t.Fatalf("answer is %q, want %q", lines.Text(), want)
		}
	}
}

func TestTooManyConnectionsAreTold(t *testing.T) {
	path := serve(t, map[string]control.Handler{"echo": echo})
	for range control.MaxConnections {
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		// It counts once it has been answered.
		if _, err := conn.Write([]byte(`{"op":"echo"}` + "\n")); err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReader(conn).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	if err := control.Call(t.Context(), path, "echo", nil, nil); host.CodeOf(err) != host.ResourceExhausted && host.CodeOf(err) != host.Unavailable {
		t.Errorf("Call of a host that is full = %v, want resource_exhausted", err)
	}
}

func TestCloseEndsWhatIsBeingHandled(t *testing.T) {
	begun := make(chan struct{})
	path := socketPath(t)
	s, err := control.Listen(path, map[string]control.Handler{"wait": func(ctx context.Context, _ json.RawMessage) (any, error) {
		close(begun)
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- control.Call(context.Background(), path, "wait", nil, nil) }()
	<-begun
	if err := s.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
	if err := <-done; err == nil {
		t.Error("Call of a host that was closed has no error")
	}
}

func TestCallEndsWithItsContext(t *testing.T) {
	begun := make(chan struct{})
	path := serve(t, map[string]control.Handler{"wait": func(ctx context.Context, _ json.RawMessage) (any, error) {
		close(begun)
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-begun; cancel() }()
	if err := control.Call(ctx, path, "wait", nil, nil); host.CodeOf(err) != host.Canceled {
		t.Errorf("Call = %v, want canceled", err)
	}
}

// What comes over a socket is answered or dropped, whatever it is.
func FuzzRequests(f *testing.F) {
	f.Add([]byte(`{"op":"echo","args":1}` + "\n"))
	f.Add([]byte("\n\n{}\n"))
	f.Add([]byte(`{"op":1}`))
	dir, err := os.MkdirTemp("", "c")
	if err != nil {
		f.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "s")
	s, err := control.Listen(path, map[string]control.Handler{"echo": echo})
	if err != nil {
		f.Fatal(err)
	}
	defer s.Close()
	f.Fuzz(func(t *testing.T, raw []byte) {
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		go func() {
			_, _ = conn.Write(raw)
			_ = conn.(*net.UnixConn).CloseWrite()
		}()
		lines := bufio.NewScanner(conn)
		lines.Buffer(nil, control.MaxAnswerBytes)
		for lines.Scan() {
			if !json.Valid(lines.Bytes()) {
				t.Fatalf("answer to %q is not JSON: %q", raw, lines.Text())
			}
		}
	})
}
