package audit_test

// Scenario: a process that appends is killed, and nothing that it acknowledged is lost.

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/agenthost/agenthost/host/audit"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
)

// childVariable names the directory of the process that is killed.
const childVariable = "AGENTHOST_AUDIT_TEST_CHILD"

// appendUntilKilled appends entries, and prints the number of each that was acknowledged.
func appendUntilKilled(dir string) {
	d, err := badgerkv.Open(dir, nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	l := audit.New(d)
	for {
		seq, err := l.Append(context.Background(), &audit.Entry{Actor: "child", Action: "append"})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(seq)
	}
}

func TestKilledProcessLosesNothing(t *testing.T) {
	dir := t.TempDir()
	acknowledged := uint64(0)
	for range 2 {
		child := exec.CommandContext(t.Context(), os.Args[0])
		child.Env = append(os.Environ(), childVariable+"="+dir)
		child.Stderr = os.Stderr
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for range 20 {
			if !lines.Scan() {
				t.Fatalf("the child ended: %v", lines.Err())
			}
			if acknowledged, err = strconv.ParseUint(lines.Text(), 10, 64); err != nil {
				t.Fatal(err)
			}
		}
		if err := child.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = child.Wait() // its error is that it was killed
	}
	d, err := badgerkv.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}()
	head, err := audit.New(d).Verify(t.Context())
	if err != nil || head.Seq < acknowledged || acknowledged < 40 {
		t.Errorf("Verify = %d, %v; %d entries were acknowledged", head.Seq, err, acknowledged)
	}
}
