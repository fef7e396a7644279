package threads_test

// Scenario: a process with a durable run, whose tool calls others, is killed before or after
// one of these has its effect. Another process continues the run, and none happens twice.

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/nested"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/internal/longtest"
	"github.com/agenthost/agenthost/internal/testchild"
)

// The environment variables of a process that is killed: its directory, and where it stands.
const (
	nestedKillDir = "AGENTHOST_THREADS_NESTED_KILL_DIR"
	nestedKillAt  = "AGENTHOST_THREADS_NESTED_KILL_AT"
)

// nestedPays is how many payments the script makes, in lists of two.
const nestedPays = 6

// payingRun begins or resumes the run r1. Its tool script pays: a payment is a line in a
// file that no crash takes back. Before and after a payment it calls at.
func payingRun(ctx context.Context, dir string, answers []host.Answer, at func(ctx context.Context, paid bool)) (*host.RunResult, error) {
	driver, err := badgerkv.Open(filepath.Join(dir, "store"), nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = driver.Close() }()
	history, err := host.NewHistory(threads.New(driver, nil), nil)
	if err != nil {
		return nil, err
	}
	pay := host.NewTool("pay", "pays", func(ctx context.Context, call *host.Call, _ struct{ N int }) (string, error) {
		at(ctx, false)
		file, err := os.OpenFile(filepath.Join(dir, "paid"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return "", err
		}
		defer func() { _ = file.Close() }()
		if _, err := fmt.Fprintln(file, call.IdempotencyKey); err != nil {
			return "", err
		}
		at(ctx, true)
		return "paid", nil
	}, nil)
	script := host.NewTool("script", "pays", func(ctx context.Context, call *host.Call, _ struct{}) (string, error) {
		paid := 0
		for i := 0; i < nestedPays; i += 2 {
			answers, err := call.CallTools(ctx, []nested.Call{
				{Name: "pay", Arguments: fmt.Appendf(nil, `{"N":%d}`, i)}, {Name: "pay", Arguments: fmt.Appendf(nil, `{"N":%d}`, i+1)}})
			if err != nil {
				return "", err
			}
			for _, a := range answers {
				if string(a.Content) == `"paid"` {
					paid++
				}
			}
		}
		return fmt.Sprint("paid ", paid), nil
	}, &host.ToolOptions{Calls: []string{"pay"}, OnlyCalls: true})
	model := hosttest.ModelFunc(func(_ context.Context, req *llm.Request) hosttest.Reply {
		for _, m := range req.Messages {
			if len(m.ToolResults()) > 0 {
				return hosttest.Say(m.ToolResults()[0].ContentText())
			}
		}
		return hosttest.Call("script", "{}")
	})
	agent, err := host.NewAgent("clerk", &host.AgentOptions{Tools: []*host.Tool{pay, script}})
	if err != nil {
		return nil, err
	}
	h, err := host.New(&host.Options{Model: model, History: history})
	if err != nil {
		return nil, err
	}
	if answers != nil {
		return h.Run(ctx, agent, &host.Request{Tenant: "acme", Resume: "r1", Answers: answers, Durable: true})
	}
	r, err := h.Run(ctx, agent, &host.Request{Tenant: "acme", Resume: "r1"})
	if host.CodeOf(err) == host.NotFound {
		return h.Run(ctx, agent, &host.Request{Tenant: "acme", Thread: "T1", Run: "r1", Text: "pay", Durable: true})
	}
	return r, err
}

// TestNestedPayingProcess pays until it is killed, if it is started for that: it stops at
// its nth payment, before it or after it.
func TestNestedPayingProcess(t *testing.T) {
	dir := os.Getenv(nestedKillDir)
	if dir == "" {
		t.Skip("runs only as a child of the test with kills")
	}
	var last int64
	var after bool
	if _, err := fmt.Sscan(os.Getenv(nestedKillAt), &last, &after); err != nil {
		t.Fatal(err)
	}
	var before, done atomic.Int64
	r, err := payingRun(t.Context(), dir, nil, func(ctx context.Context, paid bool) {
		if paid && done.Add(1) >= last && after || !paid && before.Add(1) >= last && !after {
			fmt.Println("stands")
			<-ctx.Done() // it is killed here
		}
	})
	t.Fatalf("the run has ended: %+v, %v", r, err)
}

// killAt starts a process and kills it when it stands at a payment, or asks about one.
func killAt(t *testing.T, dir string, n int, after bool) {
	t.Helper()
	testchild.Start(t, "TestNestedPayingProcess", nestedKillDir+"="+dir, fmt.Sprintf("%s=%d %v", nestedKillAt, n, after)).KillAt("stands")
}

func TestNestedCallsOfKilledProcessesHaveTheirEffectsOnce(t *testing.T) {
	for round := range longtest.Rounds(4, 24) {
		dir := t.TempDir()
		killAt(t, dir, 1+round%nestedPays, round%2 == 1)
		none := func(context.Context, bool) {}
		r, err := payingRun(t.Context(), dir, nil, none)
		for err == nil && r.FinishReason == chat.FinishInterrupted { // it is not known whether some have paid
			paid := paidIn(t, dir)
			var answers []host.Answer
			for _, q := range r.Questions {
				answer := host.Answer{Question: q.ID, Decision: host.Reply, Value: json.RawMessage(`"paid"`)}
				if q.Kind != host.AskUnknown || q.Tool != "pay" {
					t.Fatalf("round %d: it asks %+v", round, q)
				}
				if paid[keyOfNested(paid, q)] == 0 {
					answer = host.Answer{Question: q.ID, Decision: host.Approve}
				}
				answers = append(answers, answer)
			}
			r, err = payingRun(t.Context(), dir, answers, none)
		}
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if got, want := r.Text(), fmt.Sprint("paid ", nestedPays); got != want {
			t.Errorf("round %d: the run says %q, want %q", round, got, want)
		}
		paid := paidIn(t, dir)
		for key, n := range paid {
			if n != 1 {
				t.Errorf("round %d: %s has paid %d times", round, key, n)
			}
		}
		if len(paid) != nestedPays {
			t.Errorf("round %d: paid by %v, want %d payments", round, paid, nestedPays)
		}
	}
}

// keyOfNested returns the key of the call that a question is about: it ends as its id does.
func keyOfNested(paid map[string]int, q *host.Question) string {
	ending := q.ToolCall[strings.LastIndex(q.ToolCall, "/"):]
	for key := range paid {
		if strings.HasSuffix(key, ending) {
			return key
		}
	}
	return ""
}

// paidIn counts the payments of a directory by their keys.
func paidIn(t *testing.T, dir string) map[string]int {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "paid"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	paid := map[string]int{}
	for _, key := range strings.Fields(string(raw)) {
		paid[key]++
	}
	return paid
}
