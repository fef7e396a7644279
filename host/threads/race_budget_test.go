package threads_test

// Scenario: a tenant's budget is used up by the turn that runs on a thread, before
// another turn gets the thread or a branch of it.

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/internal/testdriver"
)

// writtenDriver counts the transactions with writes.
type writtenDriver struct {
	kv.Driver
	written atomic.Int64
}

func (d *writtenDriver) Commit(ctx context.Context, txs ...kv.Tx) []kv.Result {
	for _, tx := range txs {
		if len(tx.Writes) > 0 {
			d.written.Add(1)
		}
	}
	return d.Driver.Commit(ctx, txs...)
}

// usedUp is a ledger that admits a run once and has nothing left after that.
type usedUp struct {
	asked    atomic.Int64
	admitted chan struct{} // closed at the first admission
}

func (u *usedUp) AdmitRun(context.Context, string, string) error {
	if u.asked.Add(1) == 1 {
		close(u.admitted)
		return nil
	}
	return &host.Error{Code: host.ResourceExhausted, Limit: "Tokens", RetryAfter: time.Minute, Message: "the budget is used up"}
}

func (u *usedUp) OpenRun(host.Scope, string) host.UsageRecord {
	return new(hosttest.Ledger).OpenRun(host.Scope{}, "")
}

// Decision 41: a refused run leaves nothing.
func TestATurnRefusedInARaceWritesNothing(t *testing.T) {
	for _, racing := range []host.Racing{host.RaceBranch, host.RaceWait} {
		t.Run(string(racing), func(t *testing.T) {
			driver := &writtenDriver{Driver: testdriver.New(t)}
			s := threads.New(driver, nil)
			if _, err := newHost(t, s, echo).Run(t.Context(), newAgent(t, nil), &host.Request{Thread: "t1", Text: "first"}); err != nil {
				t.Fatal(err)
			}
			unlock, err := s.LockThread(t.Context(), &host.HistoryRequest{Tenant: host.DefaultTenant, Thread: "t1", Run: "another"})
			if err != nil {
				t.Fatal(err)
			}
			defer unlock()
			ledger := &usedUp{admitted: make(chan struct{})}
			if racing == host.RaceWait {
				go func() {
					<-ledger.admitted
					unlock()
				}()
			}
			history, err := host.NewHistory(s, nil)
			if err != nil {
				t.Fatal(err)
			}
			h, err := host.New(&host.Options{SingleTenant: true, History: history, Model: model(echo), Ledger: ledger})
			if err != nil {
				t.Fatal(err)
			}
			before, events := driver.written.Load(), 0
			for _, runErr := range h.Stream(t.Context(), newAgent(t, nil), &host.Request{Thread: "t1", Text: "second", Racing: racing}) {
				if err = runErr; err == nil {
					events++
				}
			}
			if e := fault.AsError(err); err == nil || e.Code != host.ResourceExhausted || e.Limit != "Tokens" || e.RetryAfter != time.Minute || events > 0 {
				t.Errorf("%d events, %v; want the ledger's refusal alone", events, err)
			}
			if wrote := driver.written.Load() - before; wrote > 0 {
				t.Errorf("a refused turn wrote %d transactions", wrote)
			}
		})
	}
}
