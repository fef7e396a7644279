package queue_test

// Scenario: one of two processes on a store is killed, and the other continues its jobs.

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/sockkv"
	"github.com/agenthost/agenthost/host/queue"
	"github.com/agenthost/agenthost/internal/testdriver"
)

// Two processes run the jobs of a third one's store, over a socket. The one that
// runs a job, and has a run that left another, is killed; the other goes on.

const (
	sharedSocket = "QUEUE_SHARED_SOCKET"
	sharedLease  = 200 * time.Millisecond
	sharedWait   = time.Minute
)

// sharedChild runs jobs and does as it is told until it is killed, or its input
// ends.
func sharedChild(t *testing.T, path string) {
	store, err := sockkv.Dial(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	ended := func(context.Context, host.Scope) (host.RunStatus, error) { return host.RunEnded, nil }
	q := queue.New(store, &queue.Options{Lease: sharedLease, RunStatus: ended, Attempts: 100})
	defer func() { _ = q.Close() }()
	var holds atomic.Bool // the jobs that it runs, from when it has left one
	q.Handle("note", func(ctx context.Context, job *host.Job) error {
		fmt.Println("runs", job.ID)
		if holds.Load() && job.Scope.Run == "" {
			<-ctx.Done()
		}
		return ctx.Err()
	})
	if err := q.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	fmt.Println("ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		switch in.Text() {
		case "leave":
			holds.Store(true)
			fmt.Println("left", leave(t, q, jobOf("acme", "1")))
		case "run":
			go runForever(q)
		}
	}
}

// runForever leaves a job in a run that does not end.
func runForever(q *queue.Queue) {
	tool := host.NewTool("leave", "", func(ctx context.Context, _ *host.Call, _ struct{}) (string, error) {
		id, err := q.Enqueue(ctx, &host.Job{Name: "note", Scope: host.Scope{Tenant: "acme", Run: "run-1"}})
		fmt.Println("left", id, err)
		<-ctx.Done()
		return "", ctx.Err()
	}, nil)
	agent, err := host.NewAgent("clerk", &host.AgentOptions{Tools: []*host.Tool{tool}, Model: hosttest.NewModel(hosttest.Call("leave", `{}`), hosttest.Say("ok"))})
	if err != nil {
		panic(err)
	}
	h, err := host.New(&host.Options{SingleTenant: true})
	if err != nil {
		panic(err)
	}
	_, err = h.Run(context.Background(), agent, &host.Request{Tenant: "acme", Text: "go"})
	fmt.Println("the run ended", err)
}

// child is a process that runs jobs.
type child struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string
	heard []string // what it has said that nobody has waited for yet
}

func startChild(t *testing.T, path string) *child {
	t.Helper()
	c := &child{t: t, cmd: exec.Command(os.Args[0], "-test.run=^TestGoesOnWithWhatAKilledProcessHeld$"), lines: make(chan string, 100)}
	c.cmd.Env = append(os.Environ(), sharedSocket+"="+path)
	c.cmd.Stderr = os.Stderr
	in, err := c.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.in = in
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.lines)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			c.lines <- lines.Text()
		}
	}()
	t.Cleanup(c.kill)
	c.says("ready")
	return c
}

// kill ends the process as nothing else would. It may be called again.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	for range c.lines { // until it is gone
	}
	_ = c.cmd.Wait()
}

func (c *child) tell(line string) {
	c.t.Helper()
	if _, err := fmt.Fprintln(c.in, line); err != nil {
		c.t.Fatal(err)
	}
}

// says waits until the process has said a line that begins so, and returns the
// rest of it.
func (c *child) says(want string) (rest string) {
	c.t.Helper()
	for i, line := range c.heard {
		if rest, ok := strings.CutPrefix(line, want); ok {
			c.heard = slices.Delete(c.heard, i, i+1)
			return strings.TrimSpace(rest)
		}
	}
	timeout := time.After(sharedWait)
	for {
		select {
		case line, ok := <-c.lines:
			if !ok {
				c.t.Fatalf("the process ended before it said %q; it said %q", want, c.heard)
			}
			if rest, ok := strings.CutPrefix(line, want); ok {
				return strings.TrimSpace(rest)
			}
			c.heard = append(c.heard, line)
		case <-timeout:
			c.t.Fatalf("the process has not said %q after %s, but %q", want, sharedWait, c.heard)
		}
	}
}

func TestGoesOnWithWhatAKilledProcessHeld(t *testing.T) {
	if path := os.Getenv(sharedSocket); path != "" {
		sharedChild(t, path)
		return
	}
	dir, err := os.MkdirTemp("", "q") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	store := sockkv.Share(kv.Group(testdriver.New(t)))
	store.Serve(l)
	t.Cleanup(func() { _ = store.Close() })

	first := startChild(t, path)
	first.tell("leave")
	runs := first.says("left ")
	first.tell("run")
	held, _, _ := strings.Cut(first.says("left "), " ")
	second := startChild(t, path)
	first.kill()
	second.says("runs " + runs)
	second.says("runs " + held)
	second.tell("leave")
	second.says("left ")
	if err := second.in.Close(); err != nil { // it ends by itself
		t.Fatal(err)
	}
	for range second.lines {
	}
	if err := second.cmd.Wait(); err != nil {
		t.Errorf("the second process: %v", err)
	}
	holders, err := store.Scan(t.Context(), "agenthost/queue", kv.Range{Prefix: kv.NewKey("queue", "holder")})
	if err != nil || len(holders.Entries) > 1 { // the one that was killed may have lived a little longer than thought
		t.Errorf("%d processes hold jobs when all have ended, %v", len(holders.Entries), err)
	}
}
