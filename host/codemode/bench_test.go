package codemode_test

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/codemode"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/nested"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/internal/testhost"
)

// instant is a tool that takes no time of its own.
func instant(b *testing.B) *host.Tool {
	parameters := json.RawMessage(`{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}},"required":["a","b"]}`)
	answer := &host.ToolOutput{Content: json.RawMessage("3")}
	tool, err := host.NewRawTool(llm.ToolSpec{Name: "instant", Description: "Answers.", Parameters: parameters},
		func(context.Context, *host.Call) (*host.ToolOutput, error) { return answer, nil }, nil)
	if err != nil {
		b.Fatal(err)
	}
	return tool
}

// benchAside calls one tool b.N times, beside the tool that runs code, in runs of many calls
// each: a run may keep nested.MaxRunCalls. It reports the time within host operations as well.
func benchAside(b *testing.B, tool string, arguments json.RawMessage) {
	m := newMode(b, nil)
	var operations time.Duration
	m.TimeOperations(func(took time.Duration) { operations += took })
	all, err := m.Tools(add(), instant(b))
	if err != nil {
		b.Fatal(err)
	}
	done := false
	aside := host.NewTool("aside", "", func(ctx context.Context, call *host.Call, _ struct{}) (string, error) {
		for range nested.MaxRunCalls / 2 {
			if !b.Loop() {
				done = true
				break
			}
			answers, err := call.CallTools(ctx, []nested.Call{{Name: tool, Arguments: arguments}})
			if err != nil || answers[0].Kind != nested.Result {
				b.Fatalf("%+v, %v", answers, err)
			}
		}
		return "done", nil
	}, &host.ToolOptions{Calls: []string{nested.EveryTool}})
	agent := testhost.NewAgent(b, "clerk", &host.AgentOptions{Tools: append(all, aside)})
	for !done {
		h := testhost.New(b, &host.Options{
			Limits: host.Limits{MaxToolCalls: 1 << 30, RunInstructions: 1 << 60},
			Model:  hosttest.NewModel(hosttest.Call("aside", "{}"), hosttest.Say("done")),
		})
		if _, err := h.Run(b.Context(), agent, &host.Request{Tenant: "acme", Text: "go"}); err != nil {
			b.Fatal(err)
		}
	}
	if operations > 0 {
		b.ReportMetric(float64(operations.Nanoseconds())/float64(b.N), "host-ns/op")
	}
}

// BenchmarkCode is a call of run_code beside a call of a Go tool, and a code of 1,000 calls, of a
// tool that adds and of one that takes no time: host-ns/op is then what the host takes for the
// calls, without the tool and the instructions of the code.
func BenchmarkCode(b *testing.B) {
	b.Run("go-tool", func(b *testing.B) { benchAside(b, "add", json.RawMessage(`{"a":1,"b":2}`)) })
	b.Run("empty", func(b *testing.B) { benchAside(b, codemode.ToolName, json.RawMessage(`{"code":""}`)) })
	b.Run("instant=1000", func(b *testing.B) {
		benchAside(b, codemode.ToolName, json.RawMessage(`{"code":"await Promise.all(Array.from({length: 1000}, (_, i) => tools.instant({a: i, b: 1})))"}`))
	})
	b.Run("calls=1000", func(b *testing.B) {
		benchAside(b, codemode.ToolName, json.RawMessage(`{"code":"await Promise.all(Array.from({length: 1000}, (_, i) => tools.add({a: i, b: 1})))"}`))
	})
}

// Five hundred codes of as many tenants run at one time, within the memory of a runtime: each
// waits in a tool until all are there.
func TestFiveHundredCodesRunAtOnceInAGibibyte(t *testing.T) {
	const most = 500
	rt := newRuntime(t, plugin.Options{TotalMemoryBytes: 1 << 30})
	m, err := codemode.New(t.Context(), rt, &codemode.Options{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	var arrived atomic.Int64
	all, failed := make(chan struct{}), make(chan struct{})
	fail := sync.OnceFunc(func() { close(failed) }) // the others need not wait
	meet := host.NewTool("meet", "Waits for the others.", func(ctx context.Context, _ *host.Call, _ struct{}) (bool, error) {
		if arrived.Add(1) == most {
			close(all)
		}
		select {
		case <-all:
		case <-failed:
		}
		return true, nil
	}, nil)
	tools, err := m.Tools(meet)
	if err != nil {
		t.Fatal(err)
	}
	agent := testhost.NewAgent(t, "clerk", &host.AgentOptions{Tools: tools})
	var running sync.WaitGroup
	for i := range most {
		running.Go(func() {
			h, err := host.New(&host.Options{Model: hosttest.NewModel(codes(`const l = Array(1000).fill("x"); return [await tools.meet(), l.length]`)...)})
			if err != nil {
				t.Error(err)
				fail()
				return
			}
			r, err := h.Run(t.Context(), agent, &host.Request{Tenant: "t" + strconv.Itoa(i), Text: "go"})
			if err != nil {
				t.Error(err)
				fail()
				return
			}
			if got := answerText(r.Results[0].ToolResults()[0]); got != `{"result":[true,1000]}` {
				t.Errorf("tenant %d reads %s", i, got)
				fail()
			}
		})
	}
	running.Wait()
}
