package runledger_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runledger"
)

// calls is a ledger that lets all tenants together ask models a number of times.
type calls struct{ left atomic.Int64 }

func (c *calls) AdmitRun(context.Context, string, string) error { return nil }

func (c *calls) OpenRun(llm.Scope, string) runledger.Record { return c }

func (c *calls) ReserveModel(_ context.Context, call *runledger.ModelCall) error {
	if c.left.Add(-1) < 0 {
		return fault.Errorf(fault.ResourceExhausted, "model %q has been asked as often as it may", call.Model)
	}
	return nil
}

func (c *calls) SettleModel(*runledger.ModelCall, *chat.Usage) {}
func (c *calls) ReserveTools(context.Context, int) error       { return nil }
func (c *calls) UseTime(time.Duration)                         {}
func (c *calls) Close(string, bool) []runledger.Entry          { return nil }

// A ledger is given to a host as its option Ledger, which asks it as this example does.
func Example() {
	var ledger runledger.Ledger = &calls{}
	ledger.(*calls).left.Store(1)
	record := ledger.OpenRun(llm.Scope{Tenant: "acme", Run: "1"}, "")
	defer record.Close("thread", false)
	for range 2 {
		fmt.Println(record.ReserveModel(context.Background(), &runledger.ModelCall{Agent: "clerk", Model: "small", Input: 120}))
	}
	// Output:
	// <nil>
	// model "small" has been asked as often as it may
}
