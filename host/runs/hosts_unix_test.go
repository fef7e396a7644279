//go:build unix

package runs_test

// Scenario: processes share one PostgreSQL; one of them is killed or stopped.

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/cluster"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runs"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/usage"
	"github.com/agenthost/agenthost/internal/pgkvtest"
	"github.com/agenthost/agenthost/internal/testchild"
)

// The environment of a child: the address of the store, and the name of the host.
const (
	storeEnv = "RUNS_TEST_STORE"
	hostEnv  = "RUNS_TEST_HOST"
)

// TestHostProcess is a host, if it is started as one: it reads commands from its standard
// input, a line each, and answers each with a line.
func TestHostProcess(t *testing.T) {
	address := os.Getenv(storeEnv)
	if address == "" {
		t.Skip("runs only as a child of the tests with several hosts")
	}
	driver, err := pgkvtest.OpenAt(t.Context(), address, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = driver.Close() }()
	p := &process{name: os.Getenv(hostEnv), released: make(chan struct{})}
	if err := p.serve(t.Context(), kv.Group(driver)); err != nil {
		t.Fatal(err)
	}
	fmt.Println("ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		words := strings.Fields(in.Text())
		fmt.Println(strings.ReplaceAll(p.do(words[0], words[1:]), "\n", " "))
	}
	_ = p.registry.Close()
	_ = p.ledger.Close(context.WithoutCancel(t.Context()))
	_ = p.member.Close()
}

// process is the host of a child.
type process struct {
	name     string
	released chan struct{} // closed when the model may answer
	paid     atomic.Int64
	agent    *host.Agent
	member   *cluster.Member
	registry *runs.Registry
	ledger   *usage.Ledger
}

func (p *process) serve(ctx context.Context, driver kv.Driver) error {
	store := threads.New(driver, nil)
	history, err := host.NewHistory(store, nil)
	if err != nil {
		return err
	}
	model := hosttest.ModelFunc(func(ctx context.Context, req *llm.Request) hosttest.Reply {
		if last := req.Messages[len(req.Messages)-1]; len(last.ToolResults()) == 0 {
			return hosttest.Call("pay", `{}`)
		}
		select {
		case <-p.released:
			return hosttest.Say("done by " + p.name)
		case <-ctx.Done():
			return hosttest.Fail(ctx.Err())
		}
	})
	pay := host.NewTool("pay", "Pays.", func(context.Context, *host.Call, struct{}) (string, error) {
		p.paid.Add(1)
		return "paid", nil
	}, nil)
	if p.agent, err = host.NewAgent("clerk", &host.AgentOptions{Model: model, Tools: []*host.Tool{pay}}); err != nil {
		return err
	}
	identity, err := cluster.NewIdentity()
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if p.member, err = cluster.New(driver, &cluster.Options{ID: p.name, Address: listener.Addr().String(), Identity: identity}); err != nil {
		return err
	}
	journal := runs.NewJournal(store, p.member)
	if p.ledger, err = usage.New(driver, &usage.Options{Default: usage.Plan{Rate: 1_000_000}}); err != nil {
		return err
	}
	h, err := host.New(&host.Options{History: history, Journal: journal, Ledger: p.ledger})
	if err != nil {
		return err
	}
	p.registry, err = runs.New(h, &runs.Options{Journal: journal, Target: func(string) (host.Target, error) { return p.agent, nil }})
	if err != nil {
		return err
	}
	if err := p.registry.ServePeers(listener); err != nil {
		return err
	}
	return p.registry.Join(ctx)
}

// do does one command.
func (p *process) do(command string, args []string) string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	switch command {
	case "start", "start-durable":
		run, err := p.registry.Start(ctx, p.agent, &host.Request{Tenant: "acme", Run: args[0], Thread: args[1], Text: "go", Durable: command == "start-durable"}, nil)
		if err != nil {
			return "start: " + err.Error()
		}
		for p.paid.Load() == 0 || run.Events < 10 { // the tool's result is written down
			time.Sleep(time.Millisecond)
			if run, err = p.registry.Get(ctx, "acme", args[0]); err != nil {
				return "start: " + err.Error()
			}
		}
		return "started"
	case "get":
		run, err := p.registry.Get(ctx, "acme", args[0])
		if err != nil {
			return string(host.CodeOf(err))
		}
		return string(run.Status)
	case "cancel":
		run, err := p.registry.Cancel(ctx, "acme", args[0])
		if err != nil {
			return string(host.CodeOf(err))
		}
		return string(run.Status)
	case "wait":
		run, err := p.registry.Wait(ctx, "acme", args[0])
		if run == nil {
			return string(host.CodeOf(err))
		}
		return strings.TrimSpace(string(run.Status) + " " + string(host.CodeOf(err)))
	case "release":
		close(p.released)
		return "released"
	case "load":
		clients, err := strconv.Atoi(args[0])
		if err != nil {
			return err.Error()
		}
		delay, err := time.ParseDuration(args[1])
		if err != nil {
			return err.Error()
		}
		completed, took, err := p.load(clients, delay)
		if err != nil {
			return err.Error()
		}
		return fmt.Sprint(completed, int64(took))
	case "paid":
		return fmt.Sprint(p.paid.Load())
	case "drain":
		return fmt.Sprint(p.registry.Drain(ctx))
	}
	return "unknown command"
}

// childHost is a host in a process of its own.
type childHost struct {
	t       testing.TB
	process *testchild.Process
}

func startHost(t testing.TB, address, name string) *childHost {
	t.Helper()
	c := &childHost{t, testchild.Start(t, "TestHostProcess", storeEnv+"="+address, hostEnv+"="+name)}
	if got := c.process.Line(); got != "ready" {
		t.Fatalf("host %s says %q, not that it is ready", name, got)
	}
	return c
}

func (c *childHost) do(command string) string {
	c.t.Helper()
	c.process.Tell(command)
	return c.process.Line()
}

// kill ends the process at once. It may be called twice.
func (c *childHost) kill() {
	c.process.Kill()
	_ = c.process.Cmd.Wait()
}

func (c *childHost) signal(s syscall.Signal) {
	c.t.Helper()
	if err := c.process.Cmd.Process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
}

// wants fails the test unless a command is answered as wanted.
func (c *childHost) wants(command, want string) {
	c.t.Helper()
	if got := c.do(command); got != want {
		c.t.Errorf("%s: %q, want %q", command, got, want)
	}
}

// takeoverLimit is how long a test waits for a takeover: longer than the promise, for
// machines that are slow. The measured time is logged.
const takeoverLimit = time.Minute

// runsElsewhere waits until a host has a run, after the one that had it has ended.
func (c *childHost) runsElsewhere(run string, since time.Time) {
	c.t.Helper()
	for time.Since(since) < takeoverLimit {
		if c.do("get "+run) == string(runs.Running) {
			c.t.Logf("taken over after %s", time.Since(since).Round(time.Millisecond))
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	c.t.Fatalf("run %s is not taken over within %s", run, takeoverLimit)
}

// waitForOwner waits until a run is a host's in the store. The host says that it runs before.
func waitForOwner(t *testing.T, address, run, owner string) {
	t.Helper()
	driver, err := pgkvtest.OpenAt(t.Context(), address, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = driver.Close() }()
	journal := threads.New(driver, nil)
	for began := time.Now(); time.Since(began) < takeoverLimit; time.Sleep(20 * time.Millisecond) {
		rec, err := journal.ReadRun(t.Context(), "acme", run)
		if err != nil {
			t.Fatal(err)
		}
		if rec.Host == owner {
			return
		}
	}
	t.Fatalf("run %s is not taken over within %s", run, takeoverLimit)
}

// answersIn returns the texts of a thread's answers.
func answersIn(t *testing.T, address, thread string) (out []string) {
	t.Helper()
	driver, err := pgkvtest.OpenAt(t.Context(), address, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = driver.Close() }()
	for m, err := range threads.New(driver, nil).For("acme").Messages(t.Context(), thread, threads.At{}) {
		if err != nil {
			t.Fatal(err)
		}
		if m.Role == chat.Assistant && m.Text() != "" {
			out = append(out, m.Text())
		}
	}
	return out
}

func TestAKilledHostsRunIsTakenOverByAnotherProcess(t *testing.T) {
	address := pgkvtest.Address(t)
	a, b := startHost(t, address, "a"), startHost(t, address, "b")
	a.wants("start-durable r1 t1", "started")
	b.wants("get r1", "running")
	killed := time.Now()
	a.kill()
	b.runsElsewhere("r1", killed)
	b.wants("release", "released")
	b.wants("wait r1", "completed")
	b.wants("paid", "0")
	if got := answersIn(t, address, "t1"); len(got) != 1 || got[0] != "done by b" {
		t.Errorf("the thread's answers are %q, want the one of b", got)
	}
}

func TestAStoppedHostThatContinuesWritesNothing(t *testing.T) {
	address := pgkvtest.Address(t)
	a, b := startHost(t, address, "a"), startHost(t, address, "b")
	a.wants("start-durable r1 t1", "started")
	stopped := time.Now()
	a.signal(syscall.SIGSTOP)
	waitForOwner(t, address, "r1", "b")
	t.Logf("taken over after %s", time.Since(stopped).Round(time.Millisecond))
	a.signal(syscall.SIGCONT)
	a.wants("release", "released") // and answers now
	b.wants("release", "released")
	b.wants("wait r1", "completed")
	if got := answersIn(t, address, "t1"); len(got) != 1 || got[0] != "done by b" {
		t.Errorf("the thread's answers are %q, want the one of b", got)
	}
	b.wants("paid", "0")
	for began := time.Now(); a.do("get r1") != string(runs.Completed); time.Sleep(20 * time.Millisecond) { // through b
		if time.Since(began) > takeoverLimit {
			t.Fatalf("the host that was stopped says that the run is %s", a.do("get r1"))
		}
	}
}

func TestARunIsCanceledThroughAnotherProcess(t *testing.T) {
	address := pgkvtest.Address(t)
	a, b := startHost(t, address, "a"), startHost(t, address, "b")
	a.wants("start r1 t1", "started")
	asked := time.Now()
	if got := b.do("cancel r1"); got != string(runs.Running) && got != string(runs.Canceled) { // it may have ended at that moment
		t.Errorf("cancel: %s", got)
	}
	a.wants("wait r1", "canceled canceled")
	t.Logf("canceled after %s", time.Since(asked).Round(time.Millisecond))
	b.wants("get r1", "canceled")
}

func TestADrainedHostHandsItsRunOver(t *testing.T) {
	address := pgkvtest.Address(t)
	a, b := startHost(t, address, "a"), startHost(t, address, "b")
	a.wants("start-durable r1 t1", "started")
	drained := time.Now()
	a.wants("drain", "<nil>")
	b.runsElsewhere("r1", drained)
	b.wants("release", "released")
	b.wants("wait r1", "completed")
	if got := answersIn(t, address, "t1"); len(got) != 1 || got[0] != "done by b" {
		t.Errorf("the thread's answers are %q, want the one of b", got)
	}
}
