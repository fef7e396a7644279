package host_test

import (
	"context"
	"encoding/json"
	"iter"
	"strconv"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runevent"
)

// callsOnce is a model that calls a tool and then says that it is done.
type callsOnce struct{ tool string }

func (callsOnce) Name() string { return "calls once" }

func (m callsOnce) Generate(_ context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	resp := &llm.Response{Parts: []host.Part{&host.ToolCall{ID: "1", Name: m.tool, Arguments: json.RawMessage(`{}`)}}}
	if len(req.Messages[len(req.Messages)-1].ToolResults()) > 0 {
		resp.Parts = []host.Part{&host.Text{Text: "done"}}
	}
	return func(yield func(llm.Chunk, error) bool) { yield(llm.Chunk{Response: resp}, nil) }
}

// busy is a tool that changes the state more often than one patch may, all in
// one call, and the state to begin with.
type busy struct {
	tool  *host.Tool
	state json.RawMessage
}

func busyTools() map[string]busy {
	changes := func(state string, times int, op func(i int) host.PatchOp) busy {
		tool := host.NewTool("busy", "", func(_ context.Context, call *host.Call, _ struct{}) (struct{}, error) {
			for i := range times {
				if err := call.State.Patch([]host.PatchOp{op(i)}); err != nil {
					return struct{}{}, err
				}
			}
			return struct{}{}, nil
		}, &host.ToolOptions{Idempotent: true})
		return busy{tool, json.RawMessage(state)}
	}
	large := strings.Repeat("x", 100_000)
	return map[string]busy{
		"more operations": changes(`{"n":0}`, 10_001, func(i int) host.PatchOp {
			return host.PatchOp{Op: "replace", Path: "/n", Value: json.RawMessage(strconv.Itoa(i))}
		}),
		"more work": changes(`{"l":[0`+strings.Repeat(",0", 99_999)+`]}`, 50, func(i int) host.PatchOp {
			return host.PatchOp{Op: "add", Path: "/l/0", Value: json.RawMessage(strconv.Itoa(i))}
		}),
		"more bytes": changes(`{"n":0}`, 40, func(i int) host.PatchOp {
			return host.PatchOp{Op: "replace", Path: "/n", Value: json.RawMessage(`"` + large + strconv.Itoa(i) + `"`)}
		}),
	}
}

// A run whose tool has changed the state more often than one patch may goes on
// after a crash, wherever that is.
func TestStatesThatChangeOftenComeBack(t *testing.T) {
	for name, c := range busyTools() {
		t.Run(name, func(t *testing.T) {
			agent := newAgent(t, &host.AgentOptions{Model: callsOnce{"busy"}, Tools: []*host.Tool{c.tool}})
			process := func(journal *hosttest.Journal, history *hosttest.History, lives int, req *host.Request) (*host.RunResult, error) {
				return newHost(t, &host.Options{History: newHistory(t, history), Journal: &mortal{journal, lives}}).Run(t.Context(), agent, req)
			}
			begin := func() *host.Request { return &host.Request{Thread: "T", Text: "go", State: c.state, Durable: true} }
			whole, err := process(hosttest.NewJournal(), hosttest.NewHistory(), 1000, begin())
			if err != nil || whole.Results[0].ToolResults()[0].IsError {
				t.Fatalf("Run: %v; the tool must not fail", err)
			}
			crashes := 0
			for lives := 1; ; lives++ {
				journal, history := hosttest.NewJournal(), hosttest.NewHistory()
				if _, err := process(journal, history, lives, begin()); err == nil {
					break
				}
				crashes++
				r, err := process(journal, history, 1000, &host.Request{Resume: journal.Runs()[0].Run})
				if err != nil {
					t.Fatalf("resumed after %d commits: %v", lives, err)
				}
				if r.Text() != "done" || string(r.State) != string(whole.State) {
					t.Errorf("resumed after %d commits it says %q; the state has %d bytes, want %d", lives, r.Text(), len(r.State), len(whole.State))
				}
			}
			if crashes < 2 {
				t.Errorf("it crashed %d times", crashes)
			}
		})
	}
}

// What a reader of the events is told of it has bounds, and leads to the state.
func TestChangesThatAreToldHaveBounds(t *testing.T) {
	for name, c := range busyTools() {
		t.Run(name, func(t *testing.T) {
			agent := newAgent(t, &host.AgentOptions{Model: callsOnce{"busy"}, Tools: []*host.Tool{c.tool}})
			events, err := collect(t, newHost(t, nil), agent, &host.Request{Text: "go", State: c.state})
			if err != nil {
				t.Fatal(err)
			}
			follower := newState(t, `{}`)
			for _, ev := range events {
				switch d := ev.Data.(type) {
				case *runevent.StatePatched:
					bytes := 0
					for _, op := range d.Ops {
						bytes += len(op.Value)
						if err := follower.Patch([]host.PatchOp{op}); err != nil {
							t.Fatalf("event %d does not apply: %v", ev.Seq, err)
						}
					}
					if bytes > 2<<20 || len(d.Ops) > 10_000 {
						t.Errorf("event %d has %d operations of %d bytes", ev.Seq, len(d.Ops), bytes)
					}
				case *runevent.RunFinished:
					if got := string(follower.JSON()); got != string(d.Result.State) {
						t.Errorf("the events lead to a state of %d bytes, want that of %d", len(got), len(d.Result.State))
					}
				}
			}
		})
	}
}
