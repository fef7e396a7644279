package codemode_test

// Scenario: a process whose model runs code is killed when the code has paid, or is about to.
// Another process continues the run: the code has the clock and the random numbers that it had, and
// no payment is made twice.

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/codemode"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/internal/longtest"
	"github.com/agenthost/agenthost/internal/testchild"
)

// The environment variables of a process that is killed: its directory, and the payment, from 1,
// that it stands at.
const (
	killDir = "AGENTHOST_CODEMODE_KILL_DIR"
	killAt  = "AGENTHOST_CODEMODE_KILL_AT"
)

const payments = 4

// payingCode pays by the clock and by chance.
const payingCode = `
	const at = new Date().toISOString(), paid = [];
	for (let n = 0; n < 4; n++) paid.push(await tools.pay({text: [n, at, Math.random()].join(" ")}));
	return paid.join()`

// payByCode begins or resumes the run r1, whose model runs payingCode. A payment is a line in a
// file that no crash takes back; at is called before it.
func payByCode(ctx context.Context, m *codemode.Mode, dir string, at func(ctx context.Context)) (*host.RunResult, error) {
	driver, err := badgerkv.Open(filepath.Join(dir, "store"), nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = driver.Close() }()
	history, err := host.NewHistory(threads.New(driver, nil), nil)
	if err != nil {
		return nil, err
	}
	pay := host.NewTool("pay", "Pays.", func(ctx context.Context, call *host.Call, in struct {
		Text string `json:"text"`
	}) (string, error) {
		at(ctx)
		file, err := os.OpenFile(filepath.Join(dir, "paid"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return "", err
		}
		_, err = fmt.Fprintln(file, in.Text)
		if err2 := file.Close(); err == nil {
			err = err2
		}
		return "paid", err
	}, &host.ToolOptions{Idempotent: true}) // a process that is killed before it pays asks no person
	tools, err := m.Tools(pay)
	if err != nil {
		return nil, err
	}
	model := hosttest.ModelFunc(func(_ context.Context, req *llm.Request) hosttest.Reply {
		for _, m := range req.Messages {
			if results := m.ToolResults(); len(results) > 0 {
				return hosttest.Say(results[0].ContentText())
			}
		}
		return codes(payingCode)[0]
	})
	agent, err := host.NewAgent("clerk", &host.AgentOptions{Tools: tools, Model: model})
	if err != nil {
		return nil, err
	}
	h, err := host.New(&host.Options{History: history})
	if err != nil {
		return nil, err
	}
	r, err := h.Run(ctx, agent, &host.Request{Tenant: "acme", Resume: "r1"})
	if host.CodeOf(err) == host.NotFound {
		return h.Run(ctx, agent, &host.Request{Tenant: "acme", Thread: "T1", Run: "r1", Text: "pay", Durable: true})
	}
	return r, err
}

// TestCodePayingProcess pays until it is killed, if it is started for that.
func TestCodePayingProcess(t *testing.T) {
	dir := os.Getenv(killDir)
	if dir == "" {
		t.Skip("runs only as a child of the test with kills")
	}
	var last int64
	if _, err := fmt.Sscan(os.Getenv(killAt), &last); err != nil {
		t.Fatal(err)
	}
	var begun atomic.Int64
	r, err := payByCode(t.Context(), newMode(t, nil), dir, func(ctx context.Context) {
		if begun.Add(1) == last {
			fmt.Println("stands")
			<-ctx.Done() // it is killed here
		}
	})
	t.Fatalf("the run has ended: %+v, %v", r, err)
}

func TestCodeOfAKilledProcessHasItsClockAndItsRandomNumbers(t *testing.T) {
	m := newMode(t, nil)
	for round := range longtest.Rounds(2, 12) {
		dir, at := t.TempDir(), 2+round%(payments-1)
		testchild.Start(t, "TestCodePayingProcess", killDir+"="+dir, fmt.Sprint(killAt, "=", at)).KillAt("stands")
		r, err := payByCode(t.Context(), m, dir, func(context.Context) {})
		if err != nil {
			t.Fatalf("killed at payment %d: %v", at, err)
		}
		if got, want := r.Text(), `{"result":"paid,paid,paid,paid"}`; got != want {
			t.Errorf("killed at payment %d: the code answers %s, want %s", at, got, want)
		}
		raw, err := os.ReadFile(filepath.Join(dir, "paid"))
		if err != nil {
			t.Fatal(err)
		}
		times, rolls := map[string]bool{}, map[string]bool{}
		lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
		for n, line := range lines {
			words := strings.Fields(line)
			if words[0] != fmt.Sprint(n) {
				t.Errorf("killed at payment %d: line %d is %q", at, n, line)
			}
			times[words[1]], rolls[words[2]] = true, true
		}
		if len(lines) != payments || len(times) != 1 || len(rolls) != payments {
			t.Errorf("killed at payment %d: paid\n%s", at, raw)
		}
	}
}
