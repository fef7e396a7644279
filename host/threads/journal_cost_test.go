package threads_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/internal/testdriver"
)

// oneCall answers with a call of the tool, and then with text.
func oneCall(_ context.Context, view []*host.Message) ([]host.Part, error) {
	if view[len(view)-1].Role == host.User {
		return []host.Part{&host.ToolCall{ID: "1", Name: "lookup", Arguments: json.RawMessage(`{}`)}}, nil
	}
	return []host.Part{&host.Text{Text: "it is in Lyon"}}, nil
}

func lookupAgent(t testing.TB, opts *host.ToolOptions) *host.Agent {
	return newAgent(t, &host.AgentOptions{Tools: []*host.Tool{
		host.NewTool("lookup", "looks up", func(context.Context, *host.Call, struct{}) (string, error) { return "in Lyon", nil }, opts)}})
}

// What a run of two answers and a call commits. One that is not durable pays
// nothing for those that are.
func TestWhatDurabilityCommits(t *testing.T) {
	for name, c := range map[string]struct {
		durable bool
		opts    *host.ToolOptions
		commits int
	}{
		"not durable": {false, nil, 2},                                    // the thread with the question, the turn
		"durable":     {true, nil, 2 + 7},                                 // beginning, two answers, call begun and done, end, ended
		"may repeat":  {true, &host.ToolOptions{Idempotent: true}, 2 + 6}, // nothing is written before the call
	} {
		t.Run(name, func(t *testing.T) {
			d := &spy{Driver: testdriver.New(t)}
			h, agent := newHost(t, threads.New(d, nil), oneCall), lookupAgent(t, c.opts)
			_, commits, _ := d.measure(func() {
				if _, err := h.Run(t.Context(), agent, &host.Request{Text: "where?", Durable: c.durable}); err != nil {
					t.Fatal(err)
				}
			})
			if commits != c.commits {
				t.Errorf("%d commits, want %d", commits, c.commits)
			}
		})
	}
}

// BenchmarkDurableRun runs two answers and a call on Badger, which syncs each
// commit, alone and many at once.
func BenchmarkDurableRun(b *testing.B) {
	for _, durable := range []bool{false, true} {
		for _, parallel := range []int{1, 32} {
			b.Run(fmt.Sprintf("durable=%v/at once=%d", durable, parallel), func(b *testing.B) {
				d, err := badgerkv.Open(b.TempDir(), nil)
				if err != nil {
					b.Fatal(err)
				}
				defer d.Close()
				h, agent := newHost(b, threads.New(d, nil), oneCall), lookupAgent(b, nil)
				b.SetParallelism(parallel)
				b.ReportAllocs()
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						if _, err := h.Run(b.Context(), agent, &host.Request{Text: "where?", Durable: durable}); err != nil {
							b.Error(err)
							return
						}
					}
				})
			})
		}
	}
}
