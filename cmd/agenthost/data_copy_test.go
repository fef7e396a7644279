package main

// Scenario: all data is copied from a directory to a database or another directory, also
// by a process that is killed at any moment, and copied back.

import (
	"bytes"
	"context"
	"fmt"
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
	"github.com/agenthost/agenthost/internal/pgkvtest"
)

// copyChildEnv has the source and the target, a line each.
const copyChildEnv = "AGENTHOST_TEST_COPY_CHILD"

// TestCopyChildProcess is not a test but what the child process runs.
func TestCopyChildProcess(t *testing.T) {
	from, to, ok := strings.Cut(os.Getenv(copyChildEnv), "\n")
	if !ok {
		t.Skip("runs only as a child of the test that starts it")
	}
	env := &environment{stdin: strings.NewReader(""), stdout: os.Stdout, stderr: os.Stderr, getenv: func(string) string { return "" }}
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
			unfinished := 0
			for delay := 20 * time.Millisecond; unfinished < 2 && delay < 5*time.Second; delay += delay / 3 {
				if finished := killedCopy(t, from, to, delay); finished {
					t.Fatalf("the copy ended in %s before it was killed twice in its middle", delay)
				}
				d, err := datadir.Open(t.Context(), to, nil)
				if err == nil {
					err = d.Close() // it was killed before it began
				} else if unfinished++; !strings.Contains(err.Error(), "a copy of "+from) || host.CodeOf(err) != host.FailedPrecondition {
					t.Fatalf("a host opens the unfinished copy: %v", err)
				} else {
					err = nil
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if unfinished < 2 {
				t.Fatalf("%d kills were in the middle of a copy", unfinished)
			}
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

// killedCopy starts a copy in a process of its own, and kills it after a delay. It reports
// whether the copy had ended.
func killedCopy(t *testing.T, from, to string, delay time.Duration) (finished bool) {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^TestCopyChildProcess$")
	child.Env = append(os.Environ(), copyChildEnv+"="+from+"\n"+to)
	var out bytes.Buffer
	child.Stdout, child.Stderr = &out, &out
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(delay, func() { _ = child.Process.Kill() })
	defer timer.Stop()
	err := child.Wait()
	if err != nil && child.ProcessState.Exited() {
		t.Fatalf("the copy fails by itself: %s", &out)
	}
	return err == nil
}
