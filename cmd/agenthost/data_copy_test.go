package main

// Scenario: all data is copied from a directory to a database or another directory, also
// by a process that is killed at any moment, and copied back.

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/datadir"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
	"github.com/agenthost/agenthost/internal/longtest"
	"github.com/agenthost/agenthost/internal/pgkvtest"
)

// copyChildEnv has the source and the target, a line each.
const copyChildEnv = "AGENTHOST_TEST_COPY_CHILD"

// maxCopyKills bounds the search for a moment in the middle of a copy.
const maxCopyKills = 100

// TestCopyChildProcess is not a test but what the child process runs.
func TestCopyChildProcess(t *testing.T) {
	from, to, ok := strings.Cut(os.Getenv(copyChildEnv), "\n")
	if !ok {
		t.Skip("runs only as a child of the test that starts it")
	}
	env := &environment{stdin: strings.NewReader(""), stdout: os.Stderr, stderr: os.Stderr, getenv: func(string) string { return "" }}
	os.Stdout.Close() // it begins
	os.Exit(run(context.Background(), []string{"data", "copy", from, to}, env))
}

func TestAKilledCopyIsResumed(t *testing.T) {
	for name, target := range map[string]func(*testing.T) string{
		"into a directory": func(t *testing.T) string { return filepath.Join(t.TempDir(), "to") },
		"into PostgreSQL":  func(t *testing.T) string { return pgkvtest.URL(t) },
	} {
		t.Run(name, func(t *testing.T) {
			dir, exits := dataProject(t, "")
			from, to := filepath.Join(dir, "from"), target(t)
			exits(cli.ExitOK, "zebrafinch", "run", dir, "--data", from, "--thread", "t1", "--tenant", "globex", "the secret")
			addBallast(t, from)
			delay, unfinished, begun := 20*time.Millisecond, 0, false
			kills := 0
			for ; unfinished < longtest.Alone(1, 2); kills++ {
				if kills == maxCopyKills {
					t.Fatalf("%d of %d kills were in the middle of a copy", unfinished, kills)
				}
				killCopy(t, from, to, delay)
				switch state := copyState(t, from, to); {
				case state == copyNotBegun && !begun:
					delay *= 2
				case state == copyNotBegun:
					delay += delay / 3
				case state == copyUnfinished:
					unfinished++
				case state == copyEnded:
					exits(cli.ExitOK, "both are the same", "data", "copy", from, to)
					delay, begun, to = delay/2, true, target(t)
				}
			}
			t.Logf("%d kills, the last after %v", kills, delay)
			exits(cli.ExitOK, "both are the same", "data", "copy", from, to)
			exits(cli.ExitOK, "Read 1 thread of 1 tenant", "data", "verify", "--data", to)
			exits(cli.ExitOK, "the secret", "thread", "show", "t1", "--data", to, "--tenant", "globex")
			exits(cli.ExitOK, "zebrafinch", "run", dir, "--data", to, "--thread", "t1", "--tenant", "globex", "the secret again")

			back := filepath.Join(dir, "back")
			exits(cli.ExitOK, "both are the same", "data", "copy", to, back)
			exits(cli.ExitOK, "4 messages", "thread", "show", "t1", "--data", back, "--tenant", "globex")
			exits(host.FailedPrecondition.ExitCode(), "the target has data", "data", "copy", from, back)
			exits(cli.ExitUsage, "are both", "data", "copy", back, back)
			exits(host.NotFound.ExitCode(), "there is no data", "data", "copy", filepath.Join(dir, "none"), back)
		})
	}
}

// addBallast makes a directory so large that its copy takes a while.
func addBallast(t *testing.T, data string) {
	t.Helper()
	s, err := badgerkv.Open(datadir.StorePath(data), nil)
	if err != nil {
		t.Fatal(err)
	}
	d := kv.Checked(s)
	for i := range 24 {
		tx := kv.Tx{Partition: "acme"}
		for j := range 15 {
			tx.Writes = append(tx.Writes, kv.Put(kv.NewKey("ballast").WithUint(uint64(i)).WithUint(uint64(j)), bytes.Repeat(fmt.Appendf(nil, "%d.%d", i, j), 20_000)))
		}
		if _, err := kv.Apply(t.Context(), d, tx); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// killCopy starts a copy in a process of its own, and kills it after a delay from its
// beginning unless it has ended.
func killCopy(t *testing.T, from, to string, delay time.Duration) {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^TestCopyChildProcess$")
	child.Env = append(os.Environ(), copyChildEnv+"="+from+"\n"+to)
	var out bytes.Buffer
	child.Stderr = &out
	begins, err := child.StdoutPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, begins)
	timer := time.AfterFunc(delay, func() { _ = child.Process.Kill() })
	defer timer.Stop()
	if err := child.Wait(); err != nil && child.ProcessState.Exited() {
		t.Fatalf("the copy fails by itself: %s", &out)
	}
}

// The states that a killed copy leaves its target in.
const (
	copyNotBegun = iota
	copyUnfinished
	copyEnded
)

// copyState returns the state of a target. No host opens one with an unfinished copy.
func copyState(t *testing.T, from, to string) (state int) {
	t.Helper()
	d, err := datadir.Open(t.Context(), to, nil)
	if err != nil {
		if !strings.Contains(err.Error(), "a copy of "+from) || host.CodeOf(err) != host.FailedPrecondition {
			t.Fatalf("a host opens the unfinished copy: %v", err)
		}
		return copyUnfinished
	}
	for _, err := range d.Partitions(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		state = copyEnded
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	return state
}
