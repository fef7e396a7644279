package host_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
)

// badJournal is a journal one of whose methods does not return, heeds nothing, or
// panics.
type badJournal struct {
	host.Journal
	method string
	bad    func(ctx context.Context)
}

func (b *badJournal) at(ctx context.Context, method string) {
	if method == b.method {
		b.bad(ctx)
	}
}

func (b *badJournal) CreateRun(ctx context.Context, rec *host.RunRecord) error {
	b.at(ctx, "CreateRun")
	return b.Journal.CreateRun(ctx, rec)
}

func (b *badJournal) ReadRun(ctx context.Context, tenant, run string) (*host.RunRecord, error) {
	b.at(ctx, "ReadRun")
	return b.Journal.ReadRun(ctx, tenant, run)
}

func (b *badJournal) TakeRun(ctx context.Context, ref host.RunRef, steps int) (int64, error) {
	b.at(ctx, "TakeRun")
	return b.Journal.TakeRun(ctx, ref, steps)
}

func (b *badJournal) AppendSteps(ctx context.Context, ref host.RunRef, at int, steps []json.RawMessage) error {
	b.at(ctx, "AppendSteps")
	return b.Journal.AppendSteps(ctx, ref, at, steps)
}

func (b *badJournal) EndRun(ctx context.Context, ref host.RunRef, status host.RunStatus, rest json.RawMessage) error {
	b.at(ctx, "EndRun")
	return b.Journal.EndRun(ctx, ref, status, rest)
}

// A journal can fail a run, and neither hold it nor end the process.
func TestABadJournalEndsTheRunAndNothingElse(t *testing.T) {
	for _, method := range []string{"CreateRun", "ReadRun", "TakeRun", "AppendSteps", "EndRun"} {
		for how, bad := range map[string]struct {
			fn   func(context.Context)
			code host.Code
		}{
			"waits":   {func(ctx context.Context) { <-ctx.Done(); panic("gave up") }, host.DeadlineExceeded},
			"is deaf": {func(context.Context) { time.Sleep(time.Hour) }, host.DeadlineExceeded},
			"panics":  {func(context.Context) { panic("boom") }, host.Internal},
		} {
			t.Run(method+" "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					journal := hosttest.NewJournal()
					left := &host.RunRecord{Ref: host.RunRef{Run: "r1", Fence: 1}, Target: "clerk", Status: host.RunOpen,
						Steps: []json.RawMessage{json.RawMessage(`{"begin":{"v":1,"state":{},"input":{"id":"m1","role":"user","parts":[{"type":"text","text":"hi"}]}}}`)}}
					if err := journal.CreateRun(t.Context(), left); err != nil {
						t.Fatal(err)
					}
					h := newHost(t, &host.Options{Model: says("done"), Journal: &badJournal{journal, method, bad.fn}})
					req := &host.Request{Text: "hi", Durable: true}
					if method == "ReadRun" || method == "TakeRun" {
						req = &host.Request{Resume: "r1"}
					}
					started := time.Now()
					_, err := h.Run(t.Context(), newAgent(t, nil), req)
					if method == "EndRun" { // the answer is there, and stays
						if err != nil {
							t.Errorf("%v; want the answer", err)
						}
					} else if host.CodeOf(err) != bad.code {
						t.Errorf("%v (%s); want code %s", err, host.CodeOf(err), bad.code)
					} else if bad.code == host.DeadlineExceeded && !strings.Contains(err.Error(), "the journal took longer than the limit") {
						t.Errorf("%v; want the name of the limit", err)
					}
					if took := time.Since(started); took > host.DefaultLimits().CommitTimeout+5*time.Second {
						t.Errorf("the run takes %s", took)
					}
					time.Sleep(2 * time.Hour) // what was left behind ends
				})
			})
		}
	}
}
