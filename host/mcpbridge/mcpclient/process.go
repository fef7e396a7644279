package mcpclient

import (
	"bytes"
	"cmp"
	"context"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/internal/osprocess"
)

// The bounds of a process.
const (
	stopWait       = 2 * time.Second // after its input is closed, and again after it is asked to end
	writeWait      = 10 * time.Second
	maxStderrTail  = 4 << 10 // kept of its messages, for the operator's log
	maxStderrLine  = 1 << 10
	maxStderrLines = 1000 // logged of one process
)

// spawner starts processes from one thread of the operating system, which lives as long as
// the spawner: the kernel ends a process when the thread that started it ends.
type spawner struct {
	requests chan func()
	stopped  chan struct{}
}

func newSpawner() *spawner {
	s := &spawner{requests: make(chan func()), stopped: make(chan struct{})}
	go func() {
		defer close(s.stopped)
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		for start := range s.requests {
			start()
		}
	}()
	return s
}

// start starts a command.
func (s *spawner) start(cmd *exec.Cmd) error {
	done := make(chan error, 1)
	s.requests <- func() { done <- cmd.Start() }
	return <-done
}

// close ends the thread, and with it the processes that still run.
func (s *spawner) close() {
	close(s.requests)
	<-s.stopped
}

// process is a running server. It is the stream of its standard input and output.
type process struct {
	cmd     *exec.Cmd
	in      *os.File // the server's input
	out     *os.File // its output
	exited  chan struct{}
	stderr  *stderrLog
	closing sync.Once
}

// startProcess starts a server's command with an environment.
func startProcess(s *spawner, server *Server, env []string, logger *slog.Logger) (_ *process, err error) {
	cmd := exec.Command(server.Command[0], server.Command[1:]...) // its end is stop, not a context's
	cmd.Dir, cmd.Env = server.Dir, append(osprocess.Environment(), env...)
	osprocess.OwnGroup(cmd)
	var files []*os.File
	defer func() {
		if err != nil {
			for _, f := range files {
				_ = f.Close()
			}
		}
	}()
	pipe := func() (r, w *os.File) {
		if err == nil {
			if r, w, err = os.Pipe(); err == nil {
				files = append(files, r, w)
			}
		}
		return r, w
	}
	theirIn, ourIn := pipe()
	ourOut, theirOut := pipe()
	ourErr, theirErr := pipe()
	if err != nil {
		return nil, fault.Wrap(err, "open the pipes of MCP server %q", server.Name)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirIn, theirOut, theirErr
	if server.Prepare != nil {
		if err = server.Prepare(cmd); err != nil {
			return nil, fault.Wrap(err, "prepare MCP server %q", server.Name)
		}
	}
	if err = s.start(cmd); err != nil {
		return nil, fault.Errorf(fault.Unavailable, "start MCP server %q: %w", server.Name, err).WithHint("see that its command is installed, and its directory exists")
	}
	for _, f := range []*os.File{theirIn, theirOut, theirErr} {
		_ = f.Close()
	}
	p := &process{cmd: cmd, in: ourIn, out: ourOut, exited: make(chan struct{}), stderr: newStderrLog(server.Name, logger)}
	var readErr sync.WaitGroup
	readErr.Go(func() { p.stderr.read(ourErr) })
	go func() {
		_ = cmd.Wait() // its status means nothing beside the closed streams
		_ = osprocess.KillGroup(cmd)
		_ = ourErr.Close() // a program that left the group may hold the other end
		readErr.Wait()
		close(p.exited)
	}()
	return p, nil
}

// Read implements io.Reader.
func (p *process) Read(b []byte) (int, error) { return p.out.Read(b) }

// Write implements io.Writer. A server that does not read its input fails it.
func (p *process) Write(b []byte) (int, error) {
	if err := p.in.SetWriteDeadline(time.Now().Add(writeWait)); err != nil {
		return 0, err
	}
	return p.in.Write(b)
}

// Close ends the process and its group: its input is closed, then it is asked to end, then
// it is killed. It returns when the process has ended.
func (p *process) Close() error {
	p.closing.Do(func() {
		_ = p.in.Close()
		for _, next := range []func(*exec.Cmd) error{osprocess.EndGroup, osprocess.KillGroup} {
			wait := time.NewTimer(stopWait)
			select {
			case <-p.exited:
				wait.Stop()
			case <-wait.C:
				_ = next(p.cmd)
			}
		}
		<-p.exited
		_ = p.out.Close()
	})
	return nil
}

// stderrLog logs the messages of a process, and keeps the last of them.
type stderrLog struct {
	server string
	logger *slog.Logger

	mu    sync.Mutex
	tail  []byte
	lines int
}

func newStderrLog(server string, logger *slog.Logger) *stderrLog {
	return &stderrLog{server: server, logger: logger}
}

// read reads to the end.
func (l *stderrLog) read(f *os.File) {
	buf := make([]byte, maxStderrTail)
	for {
		n, err := f.Read(buf)
		l.add(buf[:n])
		if err != nil {
			return
		}
	}
}

func (l *stderrLog) add(b []byte) {
	l.mu.Lock()
	l.tail = append(l.tail, b...)
	l.tail = bytes.Clone(l.tail[max(0, len(l.tail)-maxStderrTail):])
	var say []string
	for line := range strings.Lines(string(b)) {
		if l.lines++; l.lines <= maxStderrLines {
			say = append(say, plainLine(line, maxStderrLine))
		}
	}
	l.mu.Unlock()
	for _, line := range say {
		l.logger.Log(context.Background(), slog.LevelDebug, "MCP server says", "server", l.server, "text", line)
	}
}

// last returns the end of the messages.
func (l *stderrLog) last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return cmp.Or(plainText(string(l.tail), maxStderrTail), "nothing")
}
