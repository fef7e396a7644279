package quota_test

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
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/quota"
	"github.com/agenthost/agenthost/host/runevent"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newQuotas(t testing.TB, opts *quota.Options) *quota.Quotas {
	t.Helper()
	q, err := quota.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func wantUsedUp(t testing.TB, err error, says ...string) {
	t.Helper()
	var e *host.Error
	if !errors.As(err, &e) || e.Code != host.ResourceExhausted || !e.Retryable {
		t.Fatalf("error %v, want resource_exhausted, to be tried again", err)
	}
	for _, s := range says {
		if !strings.Contains(e.Message+" "+e.Hint, s) {
			t.Errorf("%v (%s) does not say %q", e, e.Hint, s)
		}
	}
}

func TestTokensInAWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuotas(t, &quota.Options{Default: quota.Budget{Tokens: 100, Window: time.Hour}})
		ask := func(tenant string) error {
			_, err := q.AskModel(t.Context(), tenant, "m")
			return err
		}
		for range 3 {
			if err := ask("acme"); err != nil {
				t.Fatal(err)
			}
			q.UseTokens("acme", 40) // the last goes past what is left
			time.Sleep(time.Minute)
		}
		wantUsedUp(t, ask("acme"), "Tokens of 100 in 1h0m0s", "refilled in 57m0s")
		if err := ask("umbrella"); err != nil {
			t.Errorf("another tenant: %v", err)
		}
		if u := q.Used("acme"); u.Tokens != 120 || time.Until(u.Ends) != 57*time.Minute {
			t.Errorf("Used: %+v", u)
		}
		time.Sleep(57 * time.Minute)
		if err := ask("acme"); err != nil || q.Used("acme").Tokens != 0 {
			t.Errorf("in the next window: %v, %+v", err, q.Used("acme"))
		}
		if err := q.Set("acme", quota.Budget{Tokens: 1000}); err != nil {
			t.Fatal(err)
		}
		q.UseTokens("acme", 500)
		if err := ask("acme"); err != nil {
			t.Errorf("with a budget of its own: %v", err)
		}
	})
}

func TestTimeInAWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuotas(t, &quota.Options{Default: quota.Budget{Time: 10 * time.Minute, Window: time.Hour}})
		q.UseTime("acme", 9*time.Minute)
		if _, err := q.AskModel(t.Context(), "acme", "m"); err != nil {
			t.Fatal(err)
		}
		q.UseTime("acme", 2*time.Minute) // past what is left
		_, err := q.AskModel(t.Context(), "acme", "m")
		wantUsedUp(t, err, "Time of 10m0s in 1h0m0s", "refilled in 1h0m0s")
		wantUsedUp(t, q.CallTools(t.Context(), "acme", 1), "Time of 10m0s in 1h0m0s", "refilled in 1h0m0s")
		if u := q.Used("acme"); u.Time != 11*time.Minute || u.ToolCalls != 0 {
			t.Errorf("Used: %+v", u)
		}
		if _, err := q.AskModel(t.Context(), "umbrella", "m"); err != nil {
			t.Errorf("another tenant: %v", err)
		}
		time.Sleep(time.Hour)
		if _, err := q.AskModel(t.Context(), "acme", "m"); err != nil || q.Used("acme").Time != 0 {
			t.Errorf("in the next window: %v, %+v", err, q.Used("acme"))
		}
	})
}

// What runs take is booked while they go on, whatever becomes of them: models and
// tools, those of agents used as tools once, and nothing of what they wait.
func TestRunsBookTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuotas(t, &quota.Options{Default: quota.Budget{Time: time.Minute, Window: time.Hour, ModelCalls: 60, Burst: 1}})
		model := hosttest.ModelFunc(func(_ context.Context, req *llm.Request) hosttest.Reply {
			time.Sleep(2 * time.Second)
			if req.Messages[0].Text() == "nap" || len(req.Messages) > 1 {
				return hosttest.Say("done")
			}
			return hosttest.Call("rest", `{"request":"nap"}`).Call("wait", `{}`)
		})
		helper, err := host.NewAgent("rest", &host.AgentOptions{Description: "Rests.", Model: model})
		if err != nil {
			t.Fatal(err)
		}
		rest, err := host.NewAgentTool(helper, nil)
		if err != nil {
			t.Fatal(err)
		}
		wait := host.NewTool("wait", "waits", func(context.Context, *host.Call, struct{}) (string, error) {
			time.Sleep(5 * time.Second)
			return "ok", nil
		}, nil)
		agent, err := host.NewAgent("clerk", &host.AgentOptions{Model: model, Tools: []*host.Tool{rest, wait}})
		if err != nil {
			t.Fatal(err)
		}
		h, err := host.New(&host.Options{SingleTenant: true, Quota: q})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.Run(t.Context(), agent, &host.Request{Tenant: "acme", Text: "go"}); err != nil {
			t.Fatal(err)
		}
		if got := q.Used("acme").Time; got != 9*time.Second { // 2 and 5 and 2; the helper's 2 are in the 5
			t.Errorf("the run has used %s, want 9s", got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := h.Run(ctx, agent, &host.Request{Tenant: "acme", Text: "go"}); err == nil {
			t.Error("the run was not cut short")
		}
		if got := q.Used("acme").Time; got < 10*time.Second || got > 11*time.Second {
			t.Errorf("with a run that was cut short it is %s, want 10s to 11s", got)
		}
		for range 6 {
			_, err = h.Run(t.Context(), agent, &host.Request{Tenant: "acme", Text: "go"})
		}
		wantUsedUp(t, err, "Time of 1m0s in 1h0m0s", "refilled")
	})
}

func TestToolCallsAreBookedWholeOrNot(t *testing.T) {
	q := newQuotas(t, &quota.Options{Tenants: map[string]quota.Budget{"acme": {ToolCalls: 5}}})
	for _, tt := range []struct {
		n  int
		ok bool
	}{{3, true}, {3, false}, {2, true}, {1, false}} {
		err := q.CallTools(t.Context(), "acme", tt.n)
		if tt.ok && err != nil {
			t.Errorf("%d calls: %v", tt.n, err)
		}
		if !tt.ok {
			wantUsedUp(t, err, "ToolCalls of 5")
		}
	}
	if u := q.Used("acme"); u.ToolCalls != 5 {
		t.Errorf("Used: %+v", u)
	}
}

// TestModelsAreAskedEvenly has calls come all at once: a burst goes through, the
// rest at the rate, and those that would wait too long not at all.
func TestModelsAreAskedEvenly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuotas(t, &quota.Options{Default: quota.Budget{ModelCalls: 60, Burst: 5, MaxWait: 10 * time.Second}})
		began := time.Now()
		var mu sync.Mutex
		var callers sync.WaitGroup
		at, refused := map[time.Duration]int{}, 0
		for range 20 {
			callers.Go(func() {
				waited, err := q.AskModel(t.Context(), "acme", "m")
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					wantUsedUp(t, err, "ModelCalls of 60 a minute", "try again in")
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
		if waited, err := q.AskModel(t.Context(), "acme", "other"); waited != 0 || err != nil {
			t.Errorf("another model: %s, %v", waited, err)
		}
	})
}

func TestATurnThatNobodyTakesIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuotas(t, &quota.Options{Default: quota.Budget{ModelCalls: 60, Burst: 1}})
		if _, err := q.AskModel(t.Context(), "acme", "m"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if waited, err := q.AskModel(ctx, "acme", "m"); waited != time.Millisecond || host.CodeOf(err) != host.DeadlineExceeded {
			t.Errorf("AskModel: %s, %v", waited, err)
		}
		if waited, err := q.AskModel(t.Context(), "acme", "m"); waited != time.Second-time.Millisecond || err != nil {
			t.Errorf("the next one waited %s, %v", waited, err)
		}
	})
}

// TestRateHolds asks at any times: in no stretch of time are there more calls
// than the rate and one burst allow.
func TestRateHolds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		burst := rapid.IntRange(1, 5).Draw(rt, "burst")
		pauses := rapid.SliceOfN(rapid.IntRange(0, 3000), 1, 30).Draw(rt, "pauses")
		var times []time.Time
		synctest.Test(t, func(t *testing.T) {
			q := newQuotas(t, &quota.Options{Default: quota.Budget{ModelCalls: 60, Burst: burst}})
			for _, p := range pauses {
				time.Sleep(time.Duration(p) * time.Millisecond)
				if _, err := q.AskModel(t.Context(), "acme", "m"); err == nil {
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
	for name, opts := range map[string]*quota.Options{
		"negative tokens":   {Default: quota.Budget{Tokens: -1}},
		"a tenant's window": {Tenants: map[string]quota.Budget{"acme": {Window: -1}}},
	} {
		if _, err := quota.New(opts); host.CodeOf(err) != host.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := newQuotas(t, nil).Set("acme", quota.Budget{Burst: -1}); host.CodeOf(err) != host.InvalidArgument || !strings.Contains(err.Error(), "acme") {
		t.Errorf("Set: %v", err)
	}
}

func run(t testing.TB, q *quota.Quotas, tenant string, replies ...hosttest.Reply) (throttled int, err error) {
	t.Helper()
	look := host.NewTool("look", "Looks.", func(context.Context, *host.Call, struct{}) (string, error) { return "shipped", nil }, nil)
	agent, err := host.NewAgent("clerk", &host.AgentOptions{Model: hosttest.NewModel(replies...), Tools: []*host.Tool{look}})
	if err != nil {
		t.Fatal(err)
	}
	h, err := host.New(&host.Options{SingleTenant: true, Quota: q})
	if err != nil {
		t.Fatal(err)
	}
	for ev, failure := range h.Stream(t.Context(), agent, &host.Request{Tenant: tenant, Text: "hi"}) {
		if d, ok := ev.Data.(*runevent.ModelThrottled); ok && d.WaitUS > 0 && d.Model == "scripted" {
			throttled++
		}
		err = failure
	}
	return throttled, err
}

func TestRunsAreHeldToQuotas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuotas(t, &quota.Options{Default: quota.Budget{Tokens: 10, ToolCalls: 3, ModelCalls: 60, Burst: 1}})
		twice := hosttest.Call("look", "{}").Call("look", "{}")
		throttled, err := run(t, q, "acme", twice, hosttest.Say("done"))
		if err != nil || throttled != 1 {
			t.Errorf("the first run: %d waits, %v", throttled, err)
		}
		if u := q.Used("acme"); u.ToolCalls != 2 || u.Tokens != 4 {
			t.Errorf("after it: %+v", u)
		}
		_, err = run(t, q, "acme", twice, hosttest.Say("done"))
		wantUsedUp(t, err, "ToolCalls of 3")
		if _, err = run(t, q, "umbrella", hosttest.Say("done")); err != nil {
			t.Errorf("another tenant: %v", err)
		}
		q.UseTokens("acme", 100)
		_, err = run(t, q, "acme", hosttest.Say("done"))
		wantUsedUp(t, err, "Tokens of 10")
	})
}

func Example() {
	quotas, err := quota.New(&quota.Options{Tenants: map[string]quota.Budget{"acme": {Tokens: 10, Window: time.Hour}}})
	if err != nil {
		panic(err)
	}
	model := hosttest.ModelFunc(func(context.Context, *llm.Request) hosttest.Reply {
		return hosttest.Reply{Text: "Hello!", Usage: host.Usage{InputTokens: 8, OutputTokens: 2}}
	})
	h, err := host.New(&host.Options{SingleTenant: true, Model: model, Quota: quotas})
	if err != nil {
		panic(err)
	}
	agent, err := host.NewAgent("clerk", nil)
	if err != nil {
		panic(err)
	}
	for range 2 {
		result, err := h.Run(context.Background(), agent, &host.Request{Tenant: "acme", Text: "hi"})
		if err != nil {
			fmt.Println("refused:", host.CodeOf(err))
			continue
		}
		fmt.Println(result.Text())
	}
	// Output:
	// Hello!
	// refused: resource_exhausted
}
