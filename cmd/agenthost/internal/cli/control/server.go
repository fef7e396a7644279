package control

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
)

// The bounds of a server.
const (
	MaxRequestBytes = 1 << 20          // a line
	MaxAnswerBytes  = 32 << 20         // a line
	MaxConnections  = 16               // at one time; further ones get an error
	IdleTime        = time.Minute      // after which a connection without requests is closed
	HandlerTime     = 10 * time.Minute // for one request, such as building a plugin
)

// maxPathBytes is how long a socket's path can be on every system.
const maxPathBytes = 103

// Handler answers one kind of request. args is absent or JSON; the result is
// sent as JSON, or as it comes if it is [Events]. It is called by many goroutines
// at once.
type Handler func(ctx context.Context, args json.RawMessage) (any, error)

// Request is a client's request.
type Request struct {
	Op   string          `json:"op"`
	Args json.RawMessage `json:"args,omitempty"`
}

type answer struct {
	Event  json.RawMessage `json:"event,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  *host.Error     `json:"error,omitempty"`
}

// Server answers requests until it is closed.
type Server struct {
	path     string
	file     fs.FileInfo
	listener net.Listener
	handlers map[string]Handler
	ctx      context.Context // the lifetime: ends with Close
	cancel   context.CancelFunc
	slots    chan struct{}
	running  sync.WaitGroup

	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	closed bool
}

// Listen makes a socket at path and serves handlers by the names of their operations. A
// stale socket, without a listener, is replaced. Code failed_precondition if another
// host listens at path, or if path is not a socket.
func Listen(path string, handlers map[string]Handler) (*Server, error) {
	listener, err := ListenSocket(path)
	if err != nil {
		return nil, err
	}
	s := &Server{path: path, listener: listener, handlers: handlers, slots: make(chan struct{}, MaxConnections), conns: map[net.Conn]struct{}{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if s.file, err = os.Lstat(path); err != nil {
		return nil, errors.Join(host.Errorf(host.FailedPrecondition, "open control socket: %w", err), s.Close())
	}
	s.running.Go(s.accept)
	return s, nil
}

// ListenSocket makes a socket at path that only this user can open. A stale socket,
// without a listener, is replaced. Code failed_precondition if another host listens at
// path, or if path is not a socket. Closing the listener leaves the file.
func ListenSocket(path string) (net.Listener, error) {
	if err := checkFree(path); err != nil {
		return nil, err
	}
	listener, err := listen(path)
	if err != nil {
		return nil, host.Errorf(host.FailedPrecondition, "open control socket %s: %w", path, err).
			WithHint("name another one with --socket")
	}
	return listener, nil
}

// checkFree returns an error unless path is free or a stale socket.
func checkFree(path string) error {
	if len(path) > maxPathBytes {
		return host.Errorf(host.InvalidArgument, "control socket %s: its path is %d bytes, more than the %d that a socket's may have", path, len(path), maxPathBytes).
			WithHint("name a shorter one with --socket")
	}
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return host.Errorf(host.FailedPrecondition, "open control socket: %w", err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return host.Errorf(host.FailedPrecondition, "%s is there, and is not a socket", path).WithHint("move it away, or name another one with --socket")
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		return nil // left behind by a process that has exited
	}
	_ = conn.Close()
	return host.Errorf(host.FailedPrecondition, "another host listens at %s", path).WithHint("stop it, or name another one with --socket")
}

// Listens reports whether a host listens at path.
func Listens(path string) bool {
	conn, err := net.Dial("unix", path)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// listen makes the socket in a temporary directory that only this user can open, and
// renames it to path after setting its mode: at no moment can other users open it.
func listen(path string) (_ net.Listener, err error) {
	dir, err := os.MkdirTemp(filepath.Dir(path), ".s")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	aside := filepath.Join(dir, "s")
	listener, err := net.Listen("unix", aside)
	if err != nil {
		return nil, err
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := errors.Join(os.Chmod(aside, 0o600), os.Rename(aside, path)); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}

// Path returns the path of the socket.
func (s *Server) Path() string { return s.path }

// Close ends all connections and handlers, waits for them, and removes the socket. It
// may be called twice.
func (s *Server) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	for conn := range s.conns {
		_ = conn.Close()
	}
	s.mu.Unlock()
	s.cancel()
	err := s.listener.Close()
	s.running.Wait()
	if now, statErr := os.Lstat(s.path); statErr == nil && s.file != nil && os.SameFile(now, s.file) {
		err = errors.Join(err, os.Remove(s.path))
	}
	return err
}

func (s *Server) accept() {
	for {
		conn, err := s.listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // such as too many open files: wait for some to be closed
			select {
			case <-time.After(100 * time.Millisecond):
				continue
			case <-s.ctx.Done():
				return
			}
		}
		if !s.begin(conn) {
			_ = conn.Close()
		}
	}
}

// begin serves a connection, unless the server is closed.
func (s *Server) begin(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	select {
	case s.slots <- struct{}{}:
	default:
		_ = conn.SetDeadline(time.Now().Add(time.Second))
		_ = write(conn, answer{Error: host.Errorf(host.ResourceExhausted, "the host has %d control connections", MaxConnections).WithHint("try again")})
		return false
	}
	s.conns[conn] = struct{}{}
	s.running.Go(func() {
		defer s.end(conn)
		s.serve(conn)
	})
	return true
}

func (s *Server) end(conn net.Conn) {
	s.mu.Lock()
	delete(s.conns, conn)
	s.mu.Unlock()
	_ = conn.Close()
	<-s.slots
}

// serve answers a connection's requests until the connection ends, is idle for
// IdleTime, or sends a line over MaxRequestBytes.
func (s *Server) serve(conn net.Conn) {
	lines := bufio.NewReaderSize(conn, 4096)
	for {
		_ = conn.SetDeadline(time.Now().Add(IdleTime))
		line, err := readLine(lines, MaxRequestBytes)
		if len(line) == 0 && err != nil {
			return
		}
		if errors.Is(err, errTooLong) {
			_ = write(conn, answer{Error: host.Errorf(host.ResourceExhausted, "a request is more than %d bytes", MaxRequestBytes)})
			return
		}
		if s.reply(conn, lines, line) != nil || err != nil {
			return
		}
	}
}

// reply answers a request. Its error is a failed write to the client.
func (s *Server) reply(conn net.Conn, lines *bufio.Reader, line []byte) error {
	ctx, cancel := context.WithTimeout(s.ctx, HandlerTime)
	defer cancel()
	result, err := s.handle(ctx, line)
	if events, ok := result.(Events); ok && err == nil {
		return s.stream(conn, lines, cancel, events)
	}
	a := answer{}
	if err == nil {
		if a.Result, err = json.Marshal(result); err != nil {
			err = host.Errorf(host.Internal, "encode the answer: %w", err)
		}
	}
	if err != nil {
		a = answer{Error: fault.AsError(err)}
	}
	_ = conn.SetDeadline(time.Now().Add(IdleTime))
	return write(conn, a)
}

func (s *Server) handle(ctx context.Context, line []byte) (any, error) {
	var req Request
	if !utf8.Valid(line) { // encoding/json would put U+FFFD in its place
		return nil, host.Errorf(host.InvalidArgument, "request is not UTF-8")
	}
	if err := json.Unmarshal(line, &req); err != nil {
		return nil, host.Errorf(host.InvalidArgument, "request is not JSON: %w", err).WithHint(`write {"op":NAME,"args":{...}} on a line`)
	}
	handle := s.handlers[req.Op]
	if handle == nil {
		return nil, host.Errorf(host.Unimplemented, "this host has no operation %.60q", req.Op).WithHint("is it of another version of agenthost?")
	}
	return handle(ctx, req.Args)
}

func write(w io.Writer, a answer) error {
	line, err := json.Marshal(a)
	if err != nil {
		return err
	}
	_, err = w.Write(append(line, '\n'))
	return err
}

var errTooLong = errors.New("line is too long")

// readLine reads a line of at most max bytes, without its end. The last line of
// a stream need not have one: it comes with io.EOF.
func readLine(r *bufio.Reader, max int) ([]byte, error) {
	var line []byte
	for {
		piece, err := r.ReadSlice('\n')
		if len(line)+len(piece) > max {
			return line, errTooLong
		}
		line = append(line, piece...)
		if err == bufio.ErrBufferFull {
			continue
		}
		if err == nil {
			line = line[:len(line)-1]
		}
		return line, err
	}
}
