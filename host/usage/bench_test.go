package usage_test

import (
	"context"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/usage"
	"github.com/agenthost/agenthost/internal/testhost"
)

// BenchmarkRun times a run on a new thread in memory, without and with a ledger on the same
// store: limits, a reservation and a usage record.
func BenchmarkRun(b *testing.B) {
	for _, with := range []bool{false, true} {
		b.Run(map[bool]string{false: "without", true: "ledger"}[with], func(b *testing.B) {
			store := kv.NewMemory()
			history := testhost.NewHistory(b, threads.New(store, nil))
			opts := &host.Options{History: history, Model: hosttest.ModelFunc(func(context.Context, *llm.Request) hosttest.Reply { return hosttest.Say("Hello.") })}
			if with {
				opts.Ledger = newLedger(b, store, &usage.Options{Default: usage.Plan{Rate: 1_000_000_000}})
			}
			h := testhost.New(b, opts)
			agent := testhost.NewAgent(b, "clerk", nil)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := h.Run(b.Context(), agent, &host.Request{Tenant: "acme", Text: "hi"}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
