//go:build linux

package soak

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// The process of the server, its resources, and what it needs.

// Resources are those of a process.
type Resources struct {
	Goroutines, Files int
	Memory            int64 // resident bytes
}

func (r Resources) String() string {
	return fmt.Sprintf("%d goroutines, %d files, %d MB", r.Goroutines, r.Files, r.Memory>>20)
}

// serverProcess is a process of agenthost serve.
type serverProcess struct {
	url    string
	cmd    *exec.Cmd
	ended  chan struct{}
	killed atomic.Bool
}

// start starts a server on the data.
func (s *serverSoak) start() error {
	cmd := exec.Command(s.opts.Program, "serve", s.opts.Dir, "--data", s.opts.Data, "--listen", "127.0.0.1:0", "--metrics")
	var log bytes.Buffer
	cmd.Stderr = &log
	if os.Getenv(logVariable) != "" {
		cmd.Stderr = os.Stderr
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	p := &serverProcess{cmd: cmd, ended: make(chan struct{})}
	timer := time.AfterFunc(serverStart, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if _, url, ok := strings.Cut(lines.Text(), " at http://"); ok {
			p.url = "http://" + url
			go func() {
				_, _ = io.Copy(io.Discard, out)
				_ = cmd.Wait()
				close(p.ended)
			}()
			s.mu.Lock()
			defer s.mu.Unlock()
			s.server = p
			return nil
		}
	}
	_ = cmd.Wait()
	return fmt.Errorf("the server does not start:\n%s", &log)
}

// kill kills the process as nothing but kill -9 does.
func (p *serverProcess) kill() {
	p.killed.Store(true)
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// end ends the process as its operator would.
func (p *serverProcess) end() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.ended:
	case <-time.After(serverStart):
		p.kill()
		return errors.New("the server does not end")
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("the server ends with exit code %d", code)
	}
	return nil
}

// makeKey makes a key of the tenant, while the server runs.
func (s *serverSoak) makeKey() error {
	out, err := exec.Command(s.opts.Program, "key", "create", "--tenant", serverTenant, "--name", "soak", "--data", s.opts.Data).Output()
	s.key = strings.TrimSpace(string(out))
	return err
}

// fillDevice fills the device for a while.
func (s *serverSoak) fillDevice() error {
	path := filepath.Join(s.opts.Device, "ballast")
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close(); _ = os.Remove(path) }()
	var st syscall.Statfs_t
	if err := syscall.Statfs(path, &st); err != nil {
		return err
	}
	if room := int64(st.Bavail)*st.Bsize - ballastLeaves; room > 0 {
		if err := syscall.Fallocate(int(f.Fd()), 0, 0, room); err != nil && !errors.Is(err, syscall.ENOSPC) {
			return err
		}
	}
	time.Sleep(deviceFull)
	return nil
}

// quiet waits until a process without load has given its resources back, as far as it does,
// and returns its resources. With before it reports those that are left behind.
func (s *serverSoak) quiet(ctx context.Context, before *Resources) (r Resources, err error) {
	s.http.CloseIdleConnections()
	var goroutines []int
	for since := time.Now(); ; {
		if r, err = s.resources(ctx); err != nil {
			return r, err
		}
		goroutines = append(goroutines, r.Goroutines)
		steady := len(goroutines) > 5 && slices.Max(goroutines[len(goroutines)-5:]) == r.Goroutines
		if steady && (before == nil || len(left(*before, r)) == 0) || time.Since(since) > quietLimit {
			break
		}
		time.Sleep(500 * time.Millisecond)
	}
	if before != nil {
		for _, line := range left(*before, r) {
			s.broke("%s", line)
		}
	}
	return r, nil
}

// left describes the resources that a process has beyond those that it may have after a load.
func left(before, after Resources) (lines []string) {
	if after.Goroutines > before.Goroutines+moreGoroutines {
		lines = append(lines, fmt.Sprintf("%d goroutines became %d", before.Goroutines, after.Goroutines))
	}
	if after.Files > before.Files+moreFiles {
		lines = append(lines, fmt.Sprintf("%d open files became %d", before.Files, after.Files))
	}
	if after.Memory > 2*before.Memory+moreMemory {
		lines = append(lines, fmt.Sprintf("%d MB became %d MB", before.Memory>>20, after.Memory>>20))
	}
	return lines
}

// resources asks the server for its resources.
func (s *serverSoak) resources(ctx context.Context) (r Resources, err error) {
	p := s.current()
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/metrics", nil)
	if err != nil {
		return r, err
	}
	req.Close = true
	resp, err := s.http.Do(req)
	if err != nil {
		return r, err
	}
	defer func() { _ = resp.Body.Close() }()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		name, text, _ := strings.Cut(lines.Text(), " ")
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			continue
		}
		switch name {
		case "go_goroutines":
			r.Goroutines = int(value)
		case "process_open_fds":
			r.Files = int(value)
		case "process_resident_memory_bytes":
			r.Memory = int64(value)
		}
	}
	if r.Goroutines == 0 || r.Files == 0 || r.Memory == 0 {
		return r, fmt.Errorf("the server's metrics do not say what it has: %v", r)
	}
	return r, nil
}

// listenFor serves a handler on a port of this machine until Close.
func listenFor(handler http.Handler) (server *http.Server, url string, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	server = &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	return server, "http://" + listener.Addr().String(), nil
}
