package main

// Scenario: a team moves from one machine to PostgreSQL and adds a second host, with the
// three commands of docs/operate.md; each command is a process of its own.

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/internal/pgkvtest"
	"github.com/agenthost/agenthost/internal/testcode"
)

// commandChildEnv has the arguments of a child's command, in JSON.
const commandChildEnv = "AGENTHOST_TEST_COMMAND_CHILD"

// TestCommandChildProcess is not a test but what the child process runs.
func TestCommandChildProcess(t *testing.T) {
	text := os.Getenv(commandChildEnv)
	if text == "" {
		t.Skip("runs only as a child of the test that starts it")
	}
	var args []string
	if err := json.Unmarshal([]byte(text), &args); err != nil {
		t.Fatal(err)
	}
	os.Args = append([]string{"agenthost"}, args...)
	main()
}

// machine is a computer: its processes have its directories and variables.
type machine struct{ env []string }

func newMachine(t *testing.T, data string) machine {
	t.Helper()
	home, err := os.MkdirTemp("", "m") // short: there are sockets in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	env := append(os.Environ(), "AGENTHOST_CACHE="+testcode.Project(t), "XDG_RUNTIME_DIR="+home, "AGENTHOST_DATA="+data)
	return machine{env}
}

func (m machine) command(args ...string) *exec.Cmd {
	text, _ := json.Marshal(args) // strings always have JSON
	c := exec.Command(os.Args[0], "-test.run=^TestCommandChildProcess$")
	c.Env = append(m.env, commandChildEnv+"="+string(text))
	return c
}

// run runs a command to its end.
func (m machine) run(t *testing.T, want int, args ...string) string {
	t.Helper()
	c := m.command(args...)
	out, _ := c.CombinedOutput()
	if got := c.ProcessState.ExitCode(); got != want {
		t.Fatalf("agenthost %q exits %d, not %d:\n%s", args, got, want, out)
	}
	return string(out)
}

// key makes a key of the tenant acme.
func (m machine) key(t *testing.T) string {
	t.Helper()
	out, err := m.command("key", "create", "--tenant", "acme").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// serve starts a host without a terminal, and waits until it can be reached. stop
// ends it.
func (m machine) serve(t *testing.T, args ...string) (stop func()) {
	t.Helper()
	stop, _ = m.serveProcess(t, args...)
	return stop
}

// serveProcess is serve for a test that sends signals. Use stop or end, which sends one
// and waits.
func (m machine) serveProcess(t *testing.T, args ...string) (stop func(), end func(os.Signal)) {
	t.Helper()
	c := m.command(args...)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		_ = c.Process.Signal(syscall.SIGTERM)
		if err := c.Wait(); err != nil {
			t.Errorf("agenthost %q: %v\n%s", args, err, &out)
		}
	}
	end = func(s os.Signal) {
		stopped = true
		if err := c.Process.Signal(s); err != nil {
			t.Error(err)
		}
		_ = c.Wait() // it was ended
	}
	t.Cleanup(stop)
	for limit := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		said, err := m.command("plugin", "list").CombinedOutput()
		if err == nil {
			return stop, end
		}
		if time.Now().After(limit) {
			t.Fatalf("the host cannot be reached: %s", said)
		}
	}
}

func TestATeamMovesToPostgreSQLAndAddsAHost(t *testing.T) {
	address := pgkvtest.URL(t)
	dir, _ := dataProject(t, "")
	data := filepath.Join(dir, "data")

	one := newMachine(t, data)
	one.run(t, cli.ExitOK, "run", dir, "--thread", "t1", "the secret")

	moved := newMachine(t, address)
	if out := moved.run(t, cli.ExitOK, "data", "copy", data, "env:AGENTHOST_DATA"); !strings.Contains(out, "both are the same") {
		t.Errorf("data copy says\n%s", out)
	}

	// Two hosts serve one database at once. A conversation that one continues is seen and
	// continued by the other.
	two := newMachine(t, address)
	stopFirst := moved.serve(t, "dev", dir)
	stopSecond := two.serve(t, "dev", dir)
	first := moved.run(t, cli.ExitOK, "chat", "the secret")
	session := regexp.MustCompile(`session (\S+);`).FindStringSubmatch(first)
	if session == nil {
		t.Fatalf("a chat with the first host says\n%s", first)
	}
	if out := two.run(t, cli.ExitOK, "chat", "--session", session[1], "the secret again"); !strings.Contains(out, "zebrafinch") {
		t.Errorf("a chat with the second host says\n%s", out)
	}
	stopFirst()
	if out := two.run(t, cli.ExitOK, "run", dir, "--thread", "t1", "the secret, once more"); !strings.Contains(out, "zebrafinch") {
		t.Errorf("the second host goes on with\n%s", out)
	}
	stopSecond()
	for _, at := range []machine{moved, two} {
		if out := at.run(t, cli.ExitOK, "thread", "show", "t1"); !strings.Contains(out, "4 messages") || !strings.Contains(out, "once more") {
			t.Errorf("thread t1 is\n%s", out)
		}
		if out := at.run(t, cli.ExitOK, "thread", "show", session[1]); !strings.Contains(out, "4 messages") {
			t.Errorf("the session's thread is\n%s", out)
		}
	}
	if out := two.run(t, cli.ExitOK, "data", "verify"); !strings.Contains(out, "All of it is what was stored") {
		t.Errorf("data verify says\n%s", out)
	}
}

// A turn in the background of a host that is killed, or stopped with SIGTERM, continues on
// another host of the database.
func TestATurnInTheBackgroundContinuesOnAnotherHost(t *testing.T) {
	for name, signal := range map[string]os.Signal{"killed": os.Kill, "stopped with SIGTERM": syscall.SIGTERM} {
		t.Run(name, func(t *testing.T) {
			address := pgkvtest.URL(t)
			project := newBackgroundHost(t)
			one, two := newMachine(t, address), newMachine(t, address)
			_, end := one.serveProcess(t, "dev", project.dir)
			stop := two.serve(t, "dev", project.dir)
			said := one.run(t, cli.ExitOK, "chat", "--detach", "--session", "s1", "check it")
			<-project.model.asked
			turn := inBackground.FindStringSubmatch(said)
			if turn == nil {
				t.Fatalf("chat --detach says\n%s", said)
			}
			began := time.Now()
			end(signal)
			select {
			case <-project.model.asked:
				t.Logf("the second host asks the model after %s", time.Since(began).Round(time.Millisecond))
			case <-time.After(time.Minute): // longer than the promise, for machines that are slow
				t.Fatal("the turn is not continued by the second host")
			}
			close(project.model.open)
			if out := two.run(t, cli.ExitOK, "session", "wait", turn[1]); !strings.Contains(out, "it is done") {
				t.Errorf("the turn ends with\n%s", out)
			}
			if out := two.run(t, cli.ExitOK, "thread", "show", "s1"); !strings.Contains(out, "2 messages") {
				t.Errorf("the session's thread is\n%s", out)
			}
			stop()
		})
	}
}
