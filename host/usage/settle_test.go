package usage_test

// Scenario: records are settled and leases are kept by several ledgers on one store, which
// end, crash and come back.

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/usage"
	"github.com/agenthost/agenthost/internal/testhost"
)

// billOf returns what a tenant is billed for yesterday and today: a test may run over midnight.
func billOf(t testing.TB, l *usage.Ledger, tenant string) *usage.Bill {
	t.Helper()
	now, sum := time.Now(), &usage.Bill{Tenant: tenant}
	for _, day := range []time.Time{now.AddDate(0, 0, -1), now} {
		b, err := l.BillOf(t.Context(), tenant, usage.DayOf(day))
		if err != nil {
			t.Fatal(err)
		}
		sum.Items = append(sum.Items, b.Items...)
		sum.Total.Add(&b.Total)
	}
	return sum
}

// monthLong is a window of 31 days that begins with its first use, not at a date.
var monthLong = usage.Every(31 * 24 * time.Hour)

// The hosts reserve and settle at once; whatever they do, what they have used together stays
// within the limit, and the bill has all of it.
func TestHostsTogetherStayWithinALimit(t *testing.T) {
	const limit, each = 5_000, 30
	store := kv.NewMemory()
	opts := &usage.Options{Default: planOf(monthLong, map[usage.Resource]int64{usage.Tokens: limit})}
	var spent atomic.Int64
	var hosts sync.WaitGroup
	var ledgers []*usage.Ledger
	for n := range 4 {
		l := newLedger(t, store, opts)
		ledgers = append(ledgers, l)
		for range 3 {
			hosts.Go(func() {
				for i := 0; ; i++ {
					r := l.OpenRun(host.Scope{Tenant: "acme", Run: host.NewID()}, fmt.Sprint("key ", n))
					call := &host.ModelCall{Agent: "clerk", Model: "m", Input: 5, MaxOutput: each}
					err := r.ReserveModel(t.Context(), call)
					if err != nil {
						r.Close("", false)
						var used *usage.ExhaustedError
						if !errors.As(err, &used) || used.Resource != usage.Tokens {
							t.Errorf("host %d: %v", n, err)
						}
						return
					}
					tokens := 5 + each - i%7
					r.SettleModel(call, &host.Usage{InputTokens: 5, OutputTokens: tokens - 5})
					spent.Add(int64(tokens))
					r.Close("", false)
				}
			})
		}
	}
	hosts.Wait()
	if got := spent.Load(); got > limit || got < limit-12*(5+each)-4*limit/100 {
		t.Errorf("the hosts have used %d of %d: want the limit, but for their last calls and leases", got, limit)
	}
	for _, l := range ledgers {
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	l := newLedger(t, store, opts)
	bill := billOf(t, l, "acme")
	if got := bill.Total.InputTokens + bill.Total.OutputTokens; got != spent.Load() {
		t.Errorf("the bill has %d tokens, %d were used", got, spent.Load())
	}
	if u := used(t, l, "acme", usage.Tokens); u.Spent != spent.Load() || u.Leased != 0 {
		t.Errorf("the window has %+v, want %d spent and nothing leased", u, spent.Load())
	}
	var records, runs int64
	for after, more := uint64(0), true; more; {
		var page []usage.Record
		var err error
		if page, more, err = l.Export(t.Context(), "acme", "", after, 50); err != nil {
			t.Fatal(err)
		}
		for _, r := range page {
			if records++; r.Seq != uint64(records) || r.Run == "" || r.Key == "" {
				t.Fatalf("record %d is %+v", records, r)
			}
			after = r.Seq
		}
	}
	for _, i := range bill.Items {
		runs += i.Runs
	}
	if records != runs {
		t.Errorf("%d records are exported, and the bill has %d runs", records, runs)
	}
}

// returning is a driver that calls meanwhile before the next commit of a tenant's windows.
type returning struct {
	kv.Driver
	meanwhile func()
}

func (d *returning) Commit(ctx context.Context, txs ...kv.Tx) []kv.Result {
	if fn := d.meanwhile; fn != nil {
		d.meanwhile = nil
		fn()
	}
	return d.Driver.Commit(ctx, txs...)
}

// What a host returns of its lease is not used by a call that comes while it is returned:
// another host may have it by then.
func TestALeaseThatIsReturnedIsNotUsed(t *testing.T) {
	store := kv.NewMemory()
	of := &returning{Driver: store}
	opts := &usage.Options{FlushInterval: -1, Default: planOf(usage.CalendarMonth, map[usage.Resource]int64{usage.Tokens: 1000})}
	l, other := newLedger(t, of, opts), newLedger(t, store, opts)
	reserve := func(l *usage.Ledger, input int) error {
		call := &host.ModelCall{Agent: "clerk", Model: "m", Input: input, MaxOutput: 1}
		return l.OpenRun(host.Scope{Tenant: "acme", Run: host.NewID()}, "").ReserveModel(t.Context(), call)
	}
	answer(t, l, "acme", 1) // the host has a lease of more
	reserved := make(chan error, 1)
	of.meanwhile = func() {
		go func() { reserved <- reserve(l, 4) }()
		select { // it waits until the lease is returned, and takes another one
		case err := <-reserved:
			reserved <- err
		case <-time.After(100 * time.Millisecond):
		}
	}
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-reserved; err != nil {
		t.Fatal(err)
	}
	wantUsedUp(t, reserve(other, 998), "Tokens") // of 999, of which the host has reserved 5
}

// A host whose store fails keeps the lease that it was about to return.
func TestALeaseThatIsNotReturnedIsUsed(t *testing.T) {
	store := kv.NewMemory()
	of := &failing{Driver: store}
	l := newLedger(t, of, &usage.Options{FlushInterval: -1, Default: planOf(usage.CalendarMonth, map[usage.Resource]int64{usage.Tokens: 1000})})
	answer(t, l, "acme", 1)
	of.fails = true
	if err := l.Flush(t.Context()); err == nil {
		t.Fatal("Flush reports no error of the store")
	}
	answer(t, l, "acme", 1)
	of.fails = false
}

// failing is a driver whose commits fail while a test wants that.
type failing struct {
	kv.Driver
	fails bool
}

func (d *failing) Commit(ctx context.Context, txs ...kv.Tx) []kv.Result {
	if !d.fails {
		return d.Driver.Commit(ctx, txs...)
	}
	results := make([]kv.Result, len(txs))
	for i := range results {
		results[i].Err = kv.ErrNoSpace
	}
	return results
}

// The record of a run is in the store when its turn is: a host that ends without settling
// anything loses its lease for a while, and no use.
func TestUseOfAHostThatIsGoneIsSettledByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := kv.NewMemory()
		opts := &usage.Options{FlushInterval: 24 * time.Hour, Default: planOf(usage.CalendarMonth, map[usage.Resource]int64{usage.Tokens: 100_000})}
		gone, err := usage.New(store, opts) // and never closed
		if err != nil {
			t.Fatal(err)
		}
		history := testhost.NewHistory(t, threads.New(store, nil))
		agent := testhost.NewAgent(t, "clerk", nil)
		h := testhost.New(t, &host.Options{Model: hosttest.ModelFunc(func(context.Context, *llm.Request) hosttest.Reply { return hosttest.Say("one") }), History: history, Ledger: gone})
		tokens := int64(0)
		const runs = 100 // which another host settles with one change
		for range runs {
			r, err := h.Run(t.Context(), agent, &host.Request{Tenant: "acme", Key: "website", Thread: "t1", Text: "hi"})
			if err != nil {
				t.Fatal(err)
			}
			tokens += int64(r.Usage.Total())
		}
		l := newLedger(t, store, opts)
		if u := used(t, l, "acme", usage.Tokens); u.Spent+u.Leased < tokens || u.Leased > 6_000 {
			t.Errorf("while the lease holds: %+v, want at least the %d tokens used to count", u, tokens)
		}
		time.Sleep(usage.LeaseTerm + usage.MaxClockSkew + time.Second)
		answer(t, l, "acme", 1)
		bill := billOf(t, l, "acme")
		if got := bill.Total.InputTokens + bill.Total.OutputTokens; got != tokens+1 || bill.Total.Runs != runs+1 {
			t.Errorf("the bill has %d tokens of %d runs, want %d of %d", got, bill.Total.Runs, tokens+1, runs+1)
		}
		if u := used(t, l, "acme", usage.Tokens); u.Spent != tokens+1 || u.Leased != 0 {
			t.Errorf("after the lease: %+v, want %d spent and nothing leased", u, tokens+1)
		}
	})
}

// A window is in the store with its use: a restart changes nothing.
func TestARestartKeepsWindowsAndUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := kv.NewMemory()
		opts := &usage.Options{Default: planOf(usage.Every(time.Hour), map[usage.Resource]int64{usage.Tokens: 100})}
		first := newLedger(t, store, opts)
		answer(t, first, "acme", 100)
		time.Sleep(10 * time.Minute)
		if err := first.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		l := newLedger(t, store, opts)
		_, err := ask(t.Context(), l, "acme", "m")
		wantUsedUp(t, err, "Tokens", "refilled in 50m0s")
		wantUsedUp(t, l.AdmitRun(t.Context(), "acme", "m"), "Tokens", "refilled in 50m0s")
		if err := l.Remove(t.Context(), "acme"); err != nil {
			t.Fatal(err)
		}
		if _, err := ask(t.Context(), l, "acme", "m"); err != nil || billOf(t, l, "acme").Total.Calls != 0 {
			t.Errorf("after its usage was removed: %v, %+v", err, billOf(t, l, "acme"))
		}
	})
}

// Admission writes nothing, whatever is left.
func TestAdmissionWritesNothing(t *testing.T) {
	store := &countingDriver{Driver: kv.NewMemory()}
	l := newLedger(t, store, &usage.Options{Default: planOf(usage.CalendarDay, map[usage.Resource]int64{usage.Tokens: 10})})
	admit := func(when string, refused bool) {
		before := store.written.Load()
		if err := l.AdmitRun(t.Context(), "acme", "m"); (err != nil) != refused {
			t.Errorf("%s: %v", when, err)
		}
		if n := store.written.Load() - before; n != 0 {
			t.Errorf("%s: admission made %d commits", when, n)
		}
	}
	admit("at first", false)
	answer(t, l, "acme", 10)
	admit("when all is used", true)
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	admit("when all is used and settled", true)
}

type countingDriver struct {
	kv.Driver
	written atomic.Int64
}

func (d *countingDriver) Commit(ctx context.Context, txs ...kv.Tx) []kv.Result {
	d.written.Add(int64(len(txs)))
	return d.Driver.Commit(ctx, txs...)
}

// A call gets the least of what the price table, the plan and the rest of the limits allow.
func TestACallWithoutAMaximumGetsOne(t *testing.T) {
	prices := &usage.PriceTable{Version: "1", Models: map[string]usage.Price{"priced": {Input: usage.Units(1), Output: usage.Units(10), MaxOutput: 2000}, "cheap": {Input: 1, Output: 1}}}
	l := newLedger(t, nil, &usage.Options{Prices: prices, Tenants: map[string]*usage.Plan{
		"small":  {Limits: []usage.Limit{{Resource: usage.Tokens, Amount: 500}}},
		"modest": {MaxOutput: 300},
		"poor":   {Limits: []usage.Limit{{Resource: usage.Money, Amount: usage.Units(0.0011)}}}, // 100 of input and 100 of output
	}})
	for _, row := range []struct {
		tenant, model string
		asked, want   int
	}{
		{"any", "unpriced", 0, usage.DefaultMaxOutput}, {"any", "priced", 0, 2000}, {"any", "priced", 5000, 5000},
		{"modest", "priced", 0, 300}, {"small", "priced", 0, 400}, {"poor", "priced", 0, 100}, {"poor", "cheap", 0, usage.DefaultMaxOutput},
	} {
		r := l.OpenRun(host.Scope{Tenant: row.tenant, Run: "r"}, "")
		call := &host.ModelCall{Model: row.model, Input: 100, MaxOutput: row.asked}
		if err := r.ReserveModel(t.Context(), call); err != nil || call.MaxOutput != row.want {
			t.Errorf("%s asks %s: %d of output, %v; want %d", row.tenant, row.model, call.MaxOutput, err, row.want)
		}
		r.Close("", false)
	}
	r := l.OpenRun(host.Scope{Tenant: "small", Run: "r"}, "")
	wantUsedUp(t, r.ReserveModel(t.Context(), &host.ModelCall{Model: "priced", Input: 100, MaxOutput: 401}), "Tokens")
	r.Close("", false)
	for doing, err := range map[string]error{"admission": l.AdmitRun(t.Context(), "poor", "unpriced"), "a call": func() error { _, err := ask(t.Context(), l, "poor", "unpriced"); return err }()} {
		if e := (*host.Error)(nil); !errors.As(err, &e) || e.Code != host.FailedPrecondition || e.Message != `model "unpriced" has no price, and the tenant has a budget of money` {
			t.Errorf("%s of a model without a price: %v, want failed_precondition that names it", doing, err)
		}
	}
}

// Many short runs fill no queue: records are settled before their time when there are many.
// The bill of another ledger has what is in the store.
func TestManyRecordsAreSettledEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := kv.NewMemory()
		opts := &usage.Options{FlushInterval: time.Hour, Default: usage.Plan{Rate: 1_000_000_000}}
		l, reader := newLedger(t, store, opts), newLedger(t, store, opts)
		for runs := int64(usage.FlushRecords); runs <= 4*usage.FlushRecords; runs += usage.FlushRecords {
			for range usage.FlushRecords {
				answer(t, l, "acme", 1)
			}
			time.Sleep(time.Millisecond)
			synctest.Wait()
			if got := billOf(t, reader, "acme").Total; got.Runs != runs || got.OutputTokens != runs {
				t.Fatalf("the store has %d runs and %d tokens, want %d of each", got.Runs, got.OutputTokens, runs)
			}
		}
	})
}
