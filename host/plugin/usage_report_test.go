package plugin

// These tests are inside the package for its assembler and its counters.

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/usage"
)

// lineItem returns the line of a report; the zero one if the report has none.
func lineItem(b *UsageReport, tenant, plugin, export string) LineItem {
	for _, c := range b.Items {
		if c.Tenant == tenant && c.Plugin == plugin && c.Export == export && !c.Owned {
			return c
		}
	}
	return LineItem{}
}

func TestUsageReportSumsWhatCallsReport(t *testing.T) {
	ctx := context.Background()
	rt := startRuntime(t, nil)
	p, err := rt.Load(ctx, "p", asking(t, "emit", `{"kind":"k","data":1}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	var sum host.Cost
	for i := range 10 {
		r, err := p.Call(ctx, "a", "tool", make([]byte, i), nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.Cost.InputBytes != i {
			t.Errorf("a call with %d bytes costs %+v", i, r.Cost)
		}
		sum.Add(r.Cost)
	}
	before := rt.UsageReport()
	if _, err := p.Call(ctx, "b", "route", nil, nil); err != nil {
		t.Fatal(err)
	}
	p.Close()
	report := rt.UsageReport()
	if got := []int{report.Prices, report.Since(before).Prices, report.Sum(true, false, false).Prices}; got[0] != PriceVersion || got[1] != PriceVersion || got[2] != PriceVersion {
		t.Errorf("the versions of the prices of a report, of a later part and of a sum are %d, want %d", got, PriceVersion)
	}
	c := lineItem(report, "a", "p", "tool")
	if c.Calls() != 10 || c.Outcomes[OutcomeOK] != 10 || c.Errors() != 0 || c.Latency.Count() != 10 {
		t.Errorf("10 calls are %+v", c)
	}
	if c.Instructions != sum.Instructions || c.HostCalls != 10 || c.InputBytes != 45 || c.OutputBytes != int64(sum.OutputBytes) || c.PeakMemory != sum.PeakMemory {
		t.Errorf("the report is %+v, the calls cost %+v", c, sum)
	}
	if took := c.Duration.Microseconds(); took < sum.DurationUS || took > sum.DurationUS+10 {
		t.Errorf("the report says %d us, the calls took %d", took, sum.DurationUS)
	}
	if b := lineItem(report, "b", "p", "route"); b.Calls() != 1 {
		t.Errorf("the report of b is %+v, want one call", b)
	}
	since := report.Since(before)
	if len(since.Items) != 1 || since.Items[0].Tenant != "b" || !since.From.Equal(before.To) {
		t.Errorf("since the last report: %+v, want the call of b", since)
	}
	if sum := report.Sum(false, true, false); len(sum.Items) != 1 || sum.Items[0].Calls() != 11 || sum.Items[0].Plugin != "p" {
		t.Errorf("by plugin: %+v, want one line of 11 calls", sum)
	}
	if raw, err := json.Marshal(report); err != nil || !strings.Contains(string(raw), `"plugin":"p","export":"tool","outcomes":[10,`) {
		t.Errorf("as JSON: %s, %v", raw, err)
	}
}

func TestUsageReportTellsHowCallsEnd(t *testing.T) {
	ctx := context.Background()
	left, leave := context.WithCancel(ctx)
	leave()
	for _, row := range []struct {
		name   string
		ctx    context.Context
		code   string
		limits Limits
		input  int
		want   Outcome
	}{
		{"ok", ctx, `i32.const 0`, Limits{}, 0, OutcomeOK},
		{"an error object", ctx, `i32.const 1`, Limits{}, 0, OutcomeError},
		{"a trap", ctx, `unreachable`, Limits{}, 0, OutcomeTrap},
		{"a code that is not", ctx, `i32.const 7`, Limits{}, 0, OutcomeTrap},
		{"a budget", ctx, `loop br 0 end unreachable`, Limits{Instructions: 1000}, 0, OutcomeLimit},
		{"a deadline", ctx, `loop br 0 end unreachable`, Limits{Timeout: time.Millisecond, Instructions: long}, 0, OutcomeTimeout},
		{"a start that traps", ctx, `
			func $init _initialize
				unreachable
			---
			i32.const 0`, Limits{}, 0, OutcomeTrap},
		{"too large an input", ctx, `i32.const 0`, Limits{InputBytes: 1}, 2, OutcomeRefused},
		{"a caller that has left", left, `loop br 0 end unreachable`, Limits{Instructions: long}, 0, OutcomeCanceled},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := loadHand(t, row.code, row.limits)
			_, _ = p.Call(row.ctx, "a", "tool", make([]byte, row.input), nil) // what it returns is other tests' concern
			c := lineItem(p.runtime.UsageReport(), "a", "hand", "tool")
			if c.Calls() != 1 || c.Outcomes[row.want] != 1 {
				t.Errorf("the report is %+v, want one call that ended %s", c.Outcomes, row.want)
			}
			if began := row.want != OutcomeRefused; (c.Latency.Count() == 1) != began {
				t.Errorf("%d calls have a latency", c.Latency.Count())
			}
		})
	}
}

func TestUsageReportCountsTheWait(t *testing.T) {
	ctx := context.Background()
	rt := startRuntime(t, nil)
	s := newSlot(t, rt, blocking(t), &SlotOptions{LoadOptions: LoadOptions{Limits: Limits{Instances: 1}}})
	b := beginCall(t, ctx, s)
	done := make(chan *CallResult)
	go func() {
		r, _ := s.Call(ctx, "t", "tool", nil, nil)
		done <- r
	}()
	for waiting := false; !waiting; { // until it is in line
		waiting = s.Current().instances.Count().Calls == 2
	}
	time.AfterFunc(2*time.Millisecond, b.release)
	r := <-done
	if err := <-b.done; err != nil {
		t.Error(err)
	}
	c := lineItem(rt.UsageReport(), "t", "p", "tool")
	if r.Cost.WaitUS < 1000 || c.Wait < time.Millisecond {
		t.Errorf("the call waited %d us, and the report says %s, want 2 ms", r.Cost.WaitUS, c.Wait)
	}
}

// TestUsageReportCountsThrottling lets a call wait for the only turn, which another
// tenant's endless one has.
func TestUsageReportCountsThrottling(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	rt := startRuntime(t, &Options{Running: 1})
	s := newSlot(t, rt, blocking(t), nil)
	endless, err := rt.Load(ctx, "endless", handWritten(t, `loop br 0 end unreachable`), &LoadOptions{Limits: Limits{Instructions: long, Timeout: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	calls := make([]*blocked, 5)
	for i := range calls {
		calls[i] = beginCall(t, ctx, s) // it has no turn while it is blocked
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = endless.Call(ctx, "e", "tool", nil, nil) // ends with the test
	}()
	for busy := false; !busy; { // until that has the turn
		busy = rt.scheduler.Stats().Free == 0
	}
	for _, c := range calls {
		c.end(t)
	}
	stop()
	<-done
	if c := lineItem(rt.UsageReport(), "t", "p", "tool"); c.Throttled <= 0 || c.Throttled > c.Duration {
		t.Errorf("5 calls that waited for their turn were throttled for %s of %s", c.Throttled, c.Duration)
	}
}

func TestUsageReportIsBounded(t *testing.T) {
	ctx := context.Background()
	rt := startRuntime(t, &Options{ReportedTenants: 2})
	p, err := rt.Load(ctx, "p", asking(t, "", ""), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		if _, err := p.Call(ctx, fmt.Sprint(i), "tool", nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	report := rt.UsageReport()
	if c := lineItem(report, OtherTenants, "p", "tool"); c.Calls() != 8 || len(report.Items) != 6 { // calls and starts of each
		t.Errorf("the report is %+v, want 2 tenants and 8 calls of others", report.Items)
	}
	if _, err := NewRuntime(ctx, &Options{ReportedTenants: -1}); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("a negative bound: %v, want invalid_argument", err)
	}
}

func TestUsageReportSurvivesVersionsAndRaces(t *testing.T) {
	ctx := context.Background()
	rt := startRuntime(t, nil)
	s := newSlot(t, rt, numbered(t, 0), nil)
	const callers, calls = 8, 200
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for range calls {
				if _, err := callTool(ctx, s, fmt.Sprint(i%3)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range 5 {
		replace(t, s, numbered(t, i+1))
	}
	wg.Wait()
	sum := rt.UsageReport().Sum(false, true, true)
	if c := lineItem(sum, "", "p", "tool"); c.Calls() != callers*calls {
		t.Errorf("the report has %d calls, want %d", c.Calls(), callers*calls)
	}
}

// A bill must not differ from the budget that was charged: the starts of instances are in
// both, also those of instances that are thrown away.
func TestTheReportHasTheInstructionsOfTheBudget(t *testing.T) {
	ctx := context.Background()
	rt := startRuntime(t, nil)
	good, err := rt.Load(ctx, "good", asking(t, "emit", `{"kind":"k","data":1}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	bad, err := rt.Load(ctx, "bad", handWritten(t, `unreachable`), nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if _, err := good.Call(ctx, "acme", "tool", []byte("in"), nil); err != nil {
			t.Fatal(err)
		}
		if _, err := bad.Call(ctx, "acme", "tool", nil, nil); err == nil {
			t.Fatal("a plugin that traps has answered")
		}
	}
	sum := rt.UsageReport().Sum(true, false, false)
	budget := spentBy(t, rt, "acme", usage.Instructions)
	if i := slices.IndexFunc(sum.Items, func(i LineItem) bool { return i.Tenant == "acme" }); i < 0 || sum.Items[i].Instructions != budget || budget < 5*instancePrice {
		t.Errorf("the report says %+v, the budget is charged %d instructions", sum.Items, budget)
	}
}
