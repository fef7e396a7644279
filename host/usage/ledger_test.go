package usage_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runevent"
	"github.com/agenthost/agenthost/host/usage"
	"github.com/agenthost/agenthost/internal/testhost"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newLedger(t testing.TB, driver kv.Driver, opts *usage.Options) *usage.Ledger {
	t.Helper()
	if driver == nil {
		driver = kv.NewMemory()
	}
	l, err := usage.New(driver, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close(context.Background()) })
	return l
}

// planOf returns a plan with limits of one window.
func planOf(window usage.Window, amounts map[usage.Resource]int64) usage.Plan {
	p := usage.Plan{Window: window}
	for r, n := range amounts {
		p.Limits = append(p.Limits, usage.Limit{Resource: r, Amount: n})
	}
	return p
}

// ask reserves a call of one token of output and settles nothing.
func ask(ctx context.Context, l *usage.Ledger, tenant, model string) (time.Duration, error) {
	r := l.OpenRun(host.Scope{Tenant: tenant, Run: host.NewID()}, "")
	defer r.Close("", false)
	call := &host.ModelCall{Model: model, MaxOutput: 1}
	err := r.ReserveModel(ctx, call)
	r.SettleModel(call, nil)
	return call.Waited, err
}

// answer reserves a call and settles that many tokens, which may be more than reserved.
func answer(t testing.TB, l *usage.Ledger, tenant string, tokens int) {
	t.Helper()
	r := l.OpenRun(host.Scope{Tenant: tenant, Run: host.NewID()}, "")
	defer r.Close("", false)
	call := &host.ModelCall{Agent: "clerk", Model: "m", MaxOutput: 1}
	if err := r.ReserveModel(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	r.SettleModel(call, &host.Usage{OutputTokens: tokens})
}

func spend(l *usage.Ledger, tenant string, d time.Duration) {
	r := l.OpenRun(host.Scope{Tenant: tenant, Run: host.NewID()}, "")
	defer r.Close("", false)
	r.UseTime(d)
}

func used(t testing.TB, l *usage.Ledger, tenant string, r usage.Resource) usage.Use {
	t.Helper()
	uses, err := l.Used(t.Context(), tenant)
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range uses {
		if u.Limit.Resource == r {
			return u
		}
	}
	t.Fatalf("tenant %s has no limit of %s", tenant, r)
	return usage.Use{}
}

func wantUsedUp(t testing.TB, err error, limit string, says ...string) {
	t.Helper()
	var e *host.Error
	if !errors.As(err, &e) || e.Code != host.ResourceExhausted || !e.Retryable || e.Limit != limit || e.RetryAfter <= 0 {
		t.Fatalf("error %v, want resource_exhausted by %s, to be tried again", err, limit)
	}
	for _, s := range says {
		if !strings.Contains(e.Message+" "+e.Hint, s) {
			t.Errorf("%v (%s) does not say %q", e, e.Hint, s)
		}
	}
}

func TestTokensInAWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(t, nil, &usage.Options{Default: planOf(usage.Every(time.Hour), map[usage.Resource]int64{usage.Tokens: 100})})
		for range 3 {
			answer(t, l, "acme", 40) // the last goes past what is left
			time.Sleep(time.Minute)
		}
		_, err := ask(t.Context(), l, "acme", "m")
		wantUsedUp(t, err, "Tokens", "Tokens of 100 in 1h0m0s", "refilled in 57m0s")
		wantUsedUp(t, l.AdmitRun(t.Context(), "acme", "m"), "Tokens", "refilled in 57m0s")
		if _, err := ask(t.Context(), l, "umbrella", "m"); err != nil {
			t.Errorf("another tenant: %v", err)
		}
		if u := used(t, l, "acme", usage.Tokens); u.Spent != 120 || time.Until(u.Ends) != 57*time.Minute {
			t.Errorf("Used: %+v", u)
		}
		time.Sleep(57 * time.Minute)
		if _, err := ask(t.Context(), l, "acme", "m"); err != nil || used(t, l, "acme", usage.Tokens).Spent != 0 {
			t.Errorf("in the next window: %v, %+v", err, used(t, l, "acme", usage.Tokens))
		}
		if err := l.SetPlan("acme", &usage.Plan{Limits: []usage.Limit{{Resource: usage.Tokens, Amount: 1000}}}); err != nil {
			t.Fatal(err)
		}
		answer(t, l, "acme", 500)
		if _, err := ask(t.Context(), l, "acme", "m"); err != nil {
			t.Errorf("with a plan of its own: %v", err)
		}
	})
}

func TestTimeInAWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(t, nil, &usage.Options{Default: planOf(usage.Every(time.Hour), map[usage.Resource]int64{usage.Time: int64(10 * time.Minute)})})
		spend(l, "acme", 9*time.Minute)
		if _, err := ask(t.Context(), l, "acme", "m"); err != nil {
			t.Fatal(err)
		}
		spend(l, "acme", 2*time.Minute) // past what is left
		_, err := ask(t.Context(), l, "acme", "m")
		wantUsedUp(t, err, "Time", "Time of 10m0s in 1h0m0s", "refilled in 1h0m0s")
		r := l.OpenRun(host.Scope{Tenant: "acme", Run: "tools"}, "")
		wantUsedUp(t, r.ReserveTools(t.Context(), 1), "Time", "Time of 10m0s in 1h0m0s", "refilled in 1h0m0s")
		r.Close("", false)
		if u := used(t, l, "acme", usage.Time); u.Spent != int64(11*time.Minute) || used(t, l, "acme", usage.ToolCalls).Spent != 0 {
			t.Errorf("Used: %+v", u)
		}
		if _, err := ask(t.Context(), l, "umbrella", "m"); err != nil {
			t.Errorf("another tenant: %v", err)
		}
		time.Sleep(time.Hour)
		if _, err := ask(t.Context(), l, "acme", "m"); err != nil || used(t, l, "acme", usage.Time).Spent != 0 {
			t.Errorf("in the next window: %v, %+v", err, used(t, l, "acme", usage.Time))
		}
	})
}

// The time of runs is counted while they work, however they end: models and tools, those of
// agents used as tools once, and none of their waiting.
func TestRunsCountTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plan := planOf(usage.Every(time.Hour), map[usage.Resource]int64{usage.Time: int64(time.Minute)})
		plan.Rate, plan.Burst = 60, 1
		l := newLedger(t, nil, &usage.Options{Default: plan})
		model := hosttest.ModelFunc(func(_ context.Context, req *llm.Request) hosttest.Reply {
			time.Sleep(2 * time.Second)
			if req.Messages[0].Text() == "nap" || len(req.Messages) > 1 {
				return hosttest.Say("done")
			}
			return hosttest.Call("rest", `{"request":"nap"}`).Call("wait", `{}`)
		})
		helper := testhost.NewAgent(t, "rest", &host.AgentOptions{Description: "Rests.", Model: model})
		rest, err := host.NewAgentTool(helper, nil)
		if err != nil {
			t.Fatal(err)
		}
		wait := host.NewTool("wait", "waits", func(context.Context, *host.Call, struct{}) (string, error) {
			time.Sleep(5 * time.Second)
			return "ok", nil
		}, nil)
		agent := testhost.NewAgent(t, "clerk", &host.AgentOptions{Model: model, Tools: []*host.Tool{rest, wait}})
		h := testhost.NewSingle(t, &host.Options{Ledger: l})
		if _, err := h.Run(t.Context(), agent, &host.Request{Tenant: "acme", Text: "go"}); err != nil {
			t.Fatal(err)
		}
		if got := time.Duration(used(t, l, "acme", usage.Time).Spent); got != 9*time.Second { // 2 and 5 and 2; the helper's 2 are in the 5
			t.Errorf("the run has used %s, want 9s", got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := h.Run(ctx, agent, &host.Request{Tenant: "acme", Text: "go"}); err == nil {
			t.Error("the run was not cut short")
		}
		if got := time.Duration(used(t, l, "acme", usage.Time).Spent); got < 10*time.Second || got > 11*time.Second {
			t.Errorf("with a run that was cut short it is %s, want 10s to 11s", got)
		}
		for range 6 {
			_, err = h.Run(t.Context(), agent, &host.Request{Tenant: "acme", Text: "go"})
		}
		wantUsedUp(t, err, "Time", "Time of 1m0s in 1h0m0s", "refilled")
	})
}

func TestToolCallsAreCountedWholeOrNot(t *testing.T) {
	l := newLedger(t, nil, &usage.Options{Tenants: map[string]*usage.Plan{"acme": {Limits: []usage.Limit{{Resource: usage.ToolCalls, Amount: 5}}}}})
	r := l.OpenRun(host.Scope{Tenant: "acme", Run: "r"}, "")
	defer r.Close("", false)
	for _, tt := range []struct {
		n  int
		ok bool
	}{{3, true}, {3, false}, {2, true}, {1, false}} {
		err := r.ReserveTools(t.Context(), tt.n)
		if tt.ok && err != nil {
			t.Errorf("%d calls: %v", tt.n, err)
		}
		if !tt.ok {
			wantUsedUp(t, err, "ToolCalls", "ToolCalls of 5")
		}
	}
	if u := used(t, l, "acme", usage.ToolCalls); u.Spent != 5 {
		t.Errorf("Used: %+v", u)
	}
}

// Calls come all at once: a burst goes through, the rest at the rate, and those that would
// wait too long not at all.
func TestModelsAreAskedEvenly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(t, nil, &usage.Options{Default: usage.Plan{Rate: 60, Burst: 5, MaxWait: 10 * time.Second}})
		began := time.Now()
		var mu sync.Mutex
		var callers sync.WaitGroup
		at, refused := map[time.Duration]int{}, 0
		for range 20 {
			callers.Go(func() {
				waited, err := ask(t.Context(), l, "acme", "m")
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					wantUsedUp(t, err, "ModelCalls", "ModelCalls of 60 a minute", "try again in")
					refused++
					return
				}
				if took := time.Since(began); took != waited {
					t.Errorf("waited %s, says %s", took, waited)
				}
				at[waited]++
			})
		}
		callers.Wait()
		if at[0] != 5 || len(at) != 11 || refused != 5 {
			t.Errorf("calls went at %v, %d were refused; want 5 at once, one each second up to 10, and 5", at, refused)
		}
		if waited, err := ask(t.Context(), l, "acme", "other"); waited != 0 || err != nil {
			t.Errorf("another model: %s, %v", waited, err)
		}
	})
}

func TestAnAbandonedTurnAtAModelIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(t, nil, &usage.Options{Default: usage.Plan{Rate: 60, Burst: 1}})
		if _, err := ask(t.Context(), l, "acme", "m"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if waited, err := ask(ctx, l, "acme", "m"); waited != time.Millisecond || host.CodeOf(err) != host.DeadlineExceeded {
			t.Errorf("ReserveModel: %s, %v", waited, err)
		}
		if waited, err := ask(t.Context(), l, "acme", "m"); waited != time.Second-time.Millisecond || err != nil {
			t.Errorf("the next one waited %s, %v", waited, err)
		}
	})
}

// In no stretch of time are there more calls than the rate and one burst allow.
func TestRateHolds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		burst := rapid.IntRange(1, 5).Draw(rt, "burst")
		pauses := rapid.SliceOfN(rapid.IntRange(0, 3000), 1, 30).Draw(rt, "pauses")
		var times []time.Time
		synctest.Test(t, func(t *testing.T) {
			l := newLedger(t, nil, &usage.Options{Default: usage.Plan{Rate: 60, Burst: burst}})
			for _, p := range pauses {
				time.Sleep(time.Duration(p) * time.Millisecond)
				if _, err := ask(t.Context(), l, "acme", "m"); err == nil {
					times = append(times, time.Now())
				}
			}
		})
		for i := range times {
			for j := i; j < len(times); j++ {
				if most := burst + int(times[j].Sub(times[i])/time.Second); j-i+1 > most {
					rt.Fatalf("%d calls in %s, at most %d", j-i+1, times[j].Sub(times[i]), most)
				}
			}
		}
	})
}

func TestNewRefuses(t *testing.T) {
	limit := func(r usage.Resource, n int64, w usage.Window) usage.Plan {
		return usage.Plan{Limits: []usage.Limit{{Resource: r, Amount: n, Window: w}}}
	}
	window := usage.Plan{Window: usage.Every(-1)}
	for name, opts := range map[string]*usage.Options{
		"negative tokens":             {Default: limit(usage.Tokens, -1, usage.Window{})},
		"a tenant's window":           {Tenants: map[string]*usage.Plan{"acme": &window}},
		"a window of a millisecond":   {Default: limit(usage.Tokens, 1, usage.Every(time.Millisecond))},
		"a window of two months":      {Default: limit(usage.Tokens, 1, usage.Every(62*24*time.Hour))},
		"money without an amount":     {Default: limit(usage.Money, 0, usage.CalendarDay)},
		"an unknown resource":         {Default: limit(99, 1, usage.Window{})},
		"a negative rate":             {Default: usage.Plan{Rate: -1}},
		"a limit that is there twice": {Default: usage.Plan{Limits: []usage.Limit{{Resource: usage.Tokens, Amount: 1}, {Resource: usage.Tokens, Amount: 2}}}},
		"a negative price":            {Prices: &usage.PriceTable{Version: "1", Models: map[string]usage.Price{"m": {Output: -1}}}},
		"prices without a version":    {Prices: &usage.PriceTable{Models: map[string]usage.Price{"m": {Output: 1}}}},
	} {
		if _, err := usage.New(kv.NewMemory(), opts); host.CodeOf(err) != host.InvalidArgument {
			t.Errorf("%s: %v, want invalid_argument", name, err)
		}
	}
	if err := newLedger(t, nil, nil).SetPlan("acme", &usage.Plan{Burst: -1}); host.CodeOf(err) != host.InvalidArgument || !strings.Contains(err.Error(), "acme") {
		t.Errorf("SetPlan: %v", err)
	}
}

func runOnce(t testing.TB, l *usage.Ledger, tenant string, replies ...hosttest.Reply) (throttled int, err error) {
	t.Helper()
	look := host.NewTool("look", "Looks.", func(context.Context, *host.Call, struct{}) (string, error) { return "shipped", nil }, nil)
	agent := testhost.NewAgent(t, "clerk", &host.AgentOptions{Model: hosttest.NewModel(replies...), Tools: []*host.Tool{look}})
	h := testhost.NewSingle(t, &host.Options{Ledger: l})
	for ev, failure := range h.Stream(t.Context(), agent, &host.Request{Tenant: tenant, Text: "hi"}) {
		if d, ok := ev.Data.(*runevent.ModelThrottled); ok && d.WaitUS > 0 && d.Model == "scripted" {
			throttled++
		}
		err = failure
	}
	return throttled, err
}

func TestRunsAreHeldToLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plan := planOf(usage.Window{}, map[usage.Resource]int64{usage.Tokens: 1000, usage.ToolCalls: 3})
		plan.Rate, plan.Burst = 60, 1
		l := newLedger(t, nil, &usage.Options{Default: plan})
		twice := hosttest.Call("look", "{}").Call("look", "{}")
		throttled, err := runOnce(t, l, "acme", twice, hosttest.Say("done"))
		if err != nil || throttled != 1 {
			t.Errorf("the first run: %d waits, %v", throttled, err)
		}
		if calls, tokens := used(t, l, "acme", usage.ToolCalls).Spent, used(t, l, "acme", usage.Tokens).Spent; calls != 2 || tokens != 4 {
			t.Errorf("after it: %d tool calls, %d tokens", calls, tokens)
		}
		_, err = runOnce(t, l, "acme", twice, hosttest.Say("done"))
		wantUsedUp(t, err, "ToolCalls", "ToolCalls of 3")
		if _, err = runOnce(t, l, "umbrella", hosttest.Say("done")); err != nil {
			t.Errorf("another tenant: %v", err)
		}
		time.Sleep(2 * time.Second) // for a turn at the model
		answer(t, l, "acme", 1000)
		_, err = runOnce(t, l, "acme", hosttest.Say("done"))
		wantUsedUp(t, err, "Tokens", "Tokens of 1000")
	})
}

// A ledger without background work forgets tenants too, and keeps what they have used. The
// time that it takes to settle with all of them is no part of the claim.
func TestALedgerWithoutTimersForgetsTenants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(t, nil, &usage.Options{FlushInterval: -1})
		for i := range usage.KeptAccounts + 10 {
			if err := l.Account(fmt.Sprint("t", i)).Payer(nil).Charge(usage.Instructions, 5, time.Now()); err != nil {
				t.Fatalf("tenant %d: %v", i, err)
			}
		}
		if n := l.Accounts(); n > 10 {
			t.Errorf("%d accounts are in memory", n)
		}
		if used, err := l.Used(t.Context(), "t0"); err != nil || usage.SpentOf(used, usage.Instructions) != 5 {
			t.Errorf("the first tenant has used %v, %v", used, err)
		}
	})
}
