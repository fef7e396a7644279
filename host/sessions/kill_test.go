package sessions_test

// Scenario: a process is killed in the middle of a turn, and the next process completes
// the turn.

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/sessions"
	"github.com/agenthost/agenthost/host/threads"
)

// killDir is the variable that makes a test process one to be killed.
const killDir = "AGENTHOST_SESSIONS_KILL_DIR"

// killTarget counts, and then waits for ever in the process that is killed.
func killTarget(wait bool) (*host.Agent, error) {
	m := hosttest.ModelFunc(func(_ context.Context, req *llm.Request) hosttest.Reply {
		switch results(req) {
		case 0:
			return hosttest.Call("count", "{}")
		case 1:
			return hosttest.Call("gate", "{}")
		}
		return hosttest.Say("done")
	})
	none := func(ctx context.Context, _ *host.Call) (*host.ToolOutput, error) {
		if wait {
			fmt.Println("begun")
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return &host.ToolOutput{}, nil
	}
	gate, err := host.NewRawTool(llm.ToolSpec{Name: "gate", Description: "waits"}, none, &host.ToolOptions{Idempotent: true})
	if err != nil {
		return nil, err
	}
	count, err := host.NewRawTool(llm.ToolSpec{Name: "count", Description: "counts"}, func(_ context.Context, call *host.Call) (*host.ToolOutput, error) {
		return &host.ToolOutput{}, host.UpdateState(call.State, func(s *struct{ N int }) error { s.N++; return nil })
	}, nil)
	if err != nil {
		return nil, err
	}
	return host.NewAgent("clerk", &host.AgentOptions{Model: m, Tools: []*host.Tool{count, gate}})
}

func results(req *llm.Request) int {
	n := 0
	for _, m := range req.Messages {
		n += len(m.ToolResults())
	}
	return n
}

// killChild runs a turn in the background until it is killed.
func killChild(dir string) error {
	driver, err := badgerkv.Open(dir, nil)
	if err != nil {
		return err
	}
	target, err := killTarget(true)
	if err != nil {
		return err
	}
	s, err := sessions.New(target, &sessions.Options{Host: host.Options{SingleTenant: true}, Store: threads.New(driver, nil)})
	if err != nil {
		return err
	}
	out, err := s.Run(context.Background(), &request{Session: "s", Text: "go", Detach: true})
	if err != nil {
		return err
	}
	fmt.Println(out.Snapshot)
	time.Sleep(time.Hour) // until it is killed
	return nil
}

// A turn in the background that was acknowledged is there after kill -9, expired,
// and another process goes on with it: no step is done twice.
func TestATurnSurvivesKill(t *testing.T) {
	dir := t.TempDir()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), killDir+"="+dir)
	child.Stderr = os.Stderr
	stdout, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var id string
	lines := bufio.NewScanner(stdout)
	for begun := false; !begun || id == ""; {
		if !lines.Scan() {
			t.Fatalf("the child has ended: %v", child.Wait())
		}
		if text := lines.Text(); text == "begun" {
			begun = true
		} else {
			id = text
		}
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // killed

	driver, err := badgerkv.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer driver.Close()
	target, err := killTarget(false)
	if err != nil {
		t.Fatal(err)
	}
	s := newService(t, target, &sessions.Options{Store: threads.New(driver, nil), Heartbeat: time.Millisecond, Expiry: 2 * time.Millisecond})
	if snap := wait(t, s, id); snap.Status != sessions.Expired {
		t.Errorf("it is %+v, want it expired", snap)
	}
	if n, err := s.Recover(t.Context(), ""); n != 1 || err != nil {
		t.Fatalf("Recover = %d, %v", n, err)
	}
	for {
		snap := wait(t, s, id)
		if snap.Status == sessions.Expired {
			continue // a sign of life was late: the bound is a few milliseconds here
		}
		want := []string{"user: go", "assistant: ", "tool: ", "assistant: ", "tool: ", "assistant: done"}
		if diff := cmp.Diff(want, texts(snap.State.Messages)); diff != "" || snap.Status != sessions.Completed || string(snap.State.Custom) != `{"N":1}` {
			t.Errorf("it is %+v; %s", snap, diff)
		}
		break
	}
	s.Close()
}
