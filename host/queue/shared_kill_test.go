package queue_test

// Scenario: one of two processes on a store is killed, and the other continues its jobs.

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
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
	"github.com/agenthost/agenthost/internal/testchild"
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
	*testchild.Process
	t     *testing.T
	lines chan string
	heard []string // what it has said that nobody has waited for yet
}

func startChild(t *testing.T, path string) *child {
	t.Helper()
	c := &child{Process: testchild.Start(t, "TestGoesOnWithWhatAKilledProcessHeld", sharedSocket+"="+path), t: t, lines: make(chan string, 100)}
	go func() {
		defer close(c.lines)
		for line := range c.Lines() {
			c.lines <- line
		}
	}()
	t.Cleanup(c.kill)
	c.says("ready")
	return c
}

// kill ends the process as nothing else would. It may be called again.
func (c *child) kill() {
	c.Kill()
	for range c.lines { // until it is gone
	}
	_ = c.Cmd.Wait()
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
	first.Tell("leave")
	runs := first.says("left ")
	first.Tell("run")
	held, _, _ := strings.Cut(first.says("left "), " ")
	second := startChild(t, path)
	first.kill()
	second.says("runs " + runs)
	second.says("runs " + held)
	second.Tell("leave")
	second.says("left ")
	second.Hangup() // it ends by itself
	for range second.lines {
	}
	if err := second.Cmd.Wait(); err != nil {
		t.Errorf("the second process: %v", err)
	}
	holders, err := store.Scan(t.Context(), "agenthost/queue", kv.Range{Prefix: kv.NewKey("queue", "holder")})
	if err != nil || len(holders.Entries) > 1 { // the one that was killed may have lived a little longer than thought
		t.Errorf("%d processes hold jobs when all have ended, %v", len(holders.Entries), err)
	}
}
