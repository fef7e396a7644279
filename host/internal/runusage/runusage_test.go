package runusage_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/report"
	"github.com/agenthost/agenthost/host/internal/runusage"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runevent"
	"github.com/agenthost/agenthost/host/runledger"
	"github.com/agenthost/agenthost/host/runlimit"
)

// record is a ledger of one run that keeps its calls.
type record struct {
	waits, worked time.Duration
	settled       []*chat.Usage
	refuses       error
}

func (r *record) AdmitRun(context.Context, string, string) error { return nil }
func (r *record) OpenRun(llm.Scope, string) runledger.Record     { return r }
func (r *record) ReserveTools(context.Context, int) error        { return r.refuses }
func (r *record) UseTime(d time.Duration)                        { r.worked += d }
func (r *record) SettleModel(_ *runledger.ModelCall, used *chat.Usage) {
	r.settled = append(r.settled, used)
}

func (r *record) ReserveModel(_ context.Context, call *runledger.ModelCall) error {
	time.Sleep(r.waits)
	call.Waited, call.MaxOutput = r.waits, 50
	return r.refuses
}

func (r *record) Close(thread string, _ bool) []runledger.Entry {
	return []runledger.Entry{{Key: thread}}
}

type model struct{}

func (model) Name() string                                                       { return "small" }
func (model) Generate(context.Context, *llm.Request) iter.Seq2[llm.Chunk, error] { return nil }

// counterOf returns the counter of a run; l may be nil.
func counterOf(l runledger.Ledger, limits runlimit.Limits, events *[]runevent.Data) *runusage.Counter {
	limits = limits.WithDefaults()
	scope := &llm.Scope{Tenant: "acme", Thread: "t", Run: "r"}
	c := &runusage.Counter{Limits: &limits, Total: &runusage.Total{}, Events: &report.Reporter{Scope: scope, Yield: func(ev runevent.Event, _ error) bool {
		*events = append(*events, ev.Data)
		return true
	}}}
	c.Open(l, *scope, "")
	return c
}

func TestWaitingForAModelIsNoTimeOfTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events []runevent.Data
		r := &record{waits: time.Minute}
		c := counterOf(r, runlimit.Limits{}, &events)
		time.Sleep(3 * time.Second)
		asked := &llm.Request{}
		req, call, err := c.ReserveModel(t.Context(), model{}, asked)
		if err != nil {
			t.Fatal(err)
		}
		if req.MaxOutputTokens != 50 || asked.MaxOutputTokens != 0 {
			t.Errorf("the request has at most %d tokens of output and the caller's %d, want 50 and none", req.MaxOutputTokens, asked.MaxOutputTokens)
		}
		c.BookTokens(call, chat.Usage{InputTokens: 7})
		time.Sleep(2 * time.Second)
		if got := c.Close(true); len(got) != 1 || got[0].Key != "t" {
			t.Errorf("Close: %+v, want the record's entry for the thread", got)
		}
		if r.worked != 5*time.Second || len(r.settled) != 1 || r.settled[0].InputTokens != 7 {
			t.Errorf("the record has %s and %d settled calls, want 5s and one", r.worked, len(r.settled))
		}
		if e, ok := events[0].(*runevent.ModelThrottled); !ok || e.WaitUS != time.Minute.Microseconds() {
			t.Errorf("the first event is %#v, want the wait", events[0])
		}
	})
}

func TestLimitsOfARunAreSharedByItsBranches(t *testing.T) {
	var events []runevent.Data
	c := counterOf(nil, runlimit.Limits{RunTokens: 10, MaxToolCalls: 2, RunInstructions: 100, RunArtifacts: 1}, &events)
	c.Artifacts, c.Usage = []chat.Artifact{{Name: "plan"}}, chat.Usage{InputTokens: 1}
	b := c.Branch()
	if len(b.Artifacts) > 0 || b.Usage != (chat.Usage{}) || !slices.EqualFunc(b.MadeBefore(), c.Artifacts, func(x, y chat.Artifact) bool { return x.Name == y.Name }) {
		t.Errorf("the branch begins with %+v, want nothing of its own behind the run's artifact", b)
	}
	refused := func(what string, err error) {
		t.Helper()
		if fault.CodeOf(err) != fault.ResourceExhausted {
			t.Errorf("%s: %v, want code resource_exhausted", what, err)
		}
	}
	if err := b.AdmitToolCalls(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	refused("two more calls of nested tools", c.AdmitNestedCalls(t.Context(), 2))
	if err := c.AdmitNestedCalls(t.Context(), 1); err != nil {
		t.Errorf("one more call of a tool: %v", err)
	}
	if err := b.Total.CountArtifact(5, b.Limits); err != nil {
		t.Errorf("the first artifact: %v", err)
	}
	refused("the second artifact", c.Total.CountArtifact(5, c.Limits))
	if err := c.CheckLeft(); err != nil {
		t.Errorf("before anything is used up: %v", err)
	}
	b.AddCost(&chat.Cost{Instructions: 100})
	refused("instructions of the branch", c.CheckLeft())
	if c.Cost.Instructions != 0 || b.Cost.Instructions != 100 {
		t.Errorf("the run has %d instructions of its own and the branch %d, want 0 and 100", c.Cost.Instructions, b.Cost.Instructions)
	}
}

func TestUnfinishedAnswersAreBooked(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	req := &llm.Request{Messages: []*chat.Message{chat.UserText(strings.Repeat("word ", 40))}}
	for name, c := range map[string]struct {
		ctx   context.Context
		resp  *llm.Response
		shown int
		want  func(chat.Usage) bool
	}{
		"a count of its own":      {t.Context(), &llm.Response{Usage: chat.Usage{InputTokens: 9}}, 0, func(u chat.Usage) bool { return u.InputTokens == 9 && !u.Estimated }},
		"a part of an answer":     {t.Context(), nil, 400, func(u chat.Usage) bool { return u.InputTokens > 0 && u.OutputTokens > 0 && u.Estimated }},
		"a refusal is free":       {t.Context(), nil, 0, func(u chat.Usage) bool { return u == chat.Usage{} }},
		"a run that ended is not": {ended, nil, 0, func(u chat.Usage) bool { return u.InputTokens > 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			var events []runevent.Data
			r := &record{}
			counter := counterOf(r, runlimit.Limits{}, &events)
			got := counter.BookUnfinished(c.ctx, &runledger.ModelCall{}, req, c.resp, c.shown)
			if !c.want(got) || counter.Usage != got || counter.Total.Tokens.Load() != int64(got.Total()) || len(r.settled) != 1 {
				t.Errorf("booked %+v, the run has %+v and the record %d calls", got, counter.Usage, len(r.settled))
			}
		})
	}
}

func TestARecordThatRefusesEndsNestedCallsWithoutCountingThem(t *testing.T) {
	var events []runevent.Data
	c := counterOf(&record{refuses: errors.New("used up")}, runlimit.Limits{}, &events)
	if err := c.AdmitNestedCalls(t.Context(), 3); err == nil || c.Total.ToolCalls.Load() != 0 {
		t.Errorf("AdmitNestedCalls: %v with %d calls counted, want the record's error and none", err, c.Total.ToolCalls.Load())
	}
}
