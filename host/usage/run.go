package usage

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/agenthost/agenthost/host"
)

var (
	_ host.Ledger      = (*Ledger)(nil)
	_ host.UsageRecord = (*runRecord)(nil)
)

// rideTime is how long a closed record may still be stored by the commit of its turn. It
// is longer than a host waits for that commit.
const rideTime = 2 * time.Minute

// AdmitRun implements [host.Ledger]: it fails when the tenant's Tokens, Money, ModelCalls or
// Time are used up, when the model has no price under a budget of money, or when the model
// has been asked so often that a call would have to wait for more than the plan's MaxWait.
// Tool calls that are used up refuse no run, for not every run calls a tool. It reads the
// store if this host has no lease, and writes nothing.
func (l *Ledger) AdmitRun(ctx context.Context, tenant, model string) error {
	a := l.Account(tenant)
	if a.refused != nil {
		return a.refused
	}
	now := l.now()
	a.mu.Lock()
	a.refresh(now)
	if model != "" {
		if err := a.priced(model); err != nil {
			a.mu.Unlock()
			return err
		}
		if wait := a.rates.wait(model, a.plan, now); wait > a.plan.maxWait {
			p := a.plan
			a.mu.Unlock()
			return tooOften(p, wait)
		}
	}
	leased := a.shortOf(admissionNeeds, now) == nil
	a.mu.Unlock()
	if leased {
		return nil
	}
	w, _, err := readWindows(ctx, l.driver, a.partition, now)
	if err != nil {
		return storeError(err, tenant)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, n := range admissionNeeds {
		for _, c := range a.of[n.of] {
			if left, ends := a.left(w, c); left <= 0 && !ends.IsZero() {
				return (&ExhaustedError{Tenant: tenant, Resource: n.of, Limit: c.limit.Amount, Window: c.limit.Window, Refill: max(ends.Sub(now), 1)}).coded()
			}
		}
	}
	return nil
}

// admissionNeeds must be left for a run to begin.
var admissionNeeds = []need{{Tokens, 1}, {Money, 1}, {ModelCalls, 1}, {Time, 1}}

// OpenRun implements [host.Ledger].
func (l *Ledger) OpenRun(scope host.Scope, key string) host.UsageRecord {
	a := l.Account(scope.Tenant)
	e := &entry{account: a, rec: Record{Run: scope.Run, Key: clip(key), Network: clip(scope.Network), Thread: scope.Thread, Began: l.now().UTC()}}
	if a.refused == nil {
		a.mu.Lock()
		a.runs++
		a.mu.Unlock()
	}
	return &runRecord{entry: e}
}

// runRecord is the record of a run that is open.
type runRecord struct {
	entry *entry
	held  []*reservation // not settled; guarded by the account's mutex
}

// reservation is what a call of a model may use.
type reservation struct {
	pieces []piece
	inline [6]piece
}

func (r *reservation) add(c *counter, n int64) {
	if r.pieces == nil {
		r.pieces = r.inline[:0]
	}
	c.reserved += n
	r.pieces = append(r.pieces, piece{counter: c, n: n})
}

// release gives the reservation back. The account is locked.
func (r *reservation) release() {
	for _, p := range r.pieces {
		p.counter.reserved -= p.n
	}
	r.pieces = nil
}

// ReserveModel implements [host.UsageRecord].
func (r *runRecord) ReserveModel(ctx context.Context, call *host.ModelCall) error {
	a := r.entry.account
	if a.refused != nil {
		return a.refused
	}
	if err := r.reserveModel(ctx, call); err != nil {
		return err
	}
	waited, err := a.awaitTurn(ctx, call.Model)
	call.Waited = waited
	if err != nil {
		r.SettleModel(call, nil)
	}
	return err
}

// reserveModel reserves the tokens and the money of a call. If the call has no maximum of
// its own, it gets one, and a smaller one if that is all that is left.
func (r *runRecord) reserveModel(ctx context.Context, call *host.ModelCall) error {
	a := r.entry.account
	prices := a.ledger.prices.Load()
	a.mu.Lock()
	a.refresh(a.ledger.now())
	err, most := a.priced(call.Model), prices.maxOutput(call.Model)
	if a.plan.maxOutput > 0 {
		most = min(most, a.plan.maxOutput)
	}
	full := len(a.closed) >= maxPending
	a.mu.Unlock()
	if err != nil {
		return err
	}
	if full {
		if err := a.makeRoom(ctx); err != nil {
			return err
		}
	}
	asked := call.MaxOutput
	for range 3 {
		if call.MaxOutput = asked; asked == 0 {
			call.MaxOutput = most
		}
		err = r.reserveOnce(ctx, call, prices)
		var used *ExhaustedError
		if err == nil || asked > 0 || !errors.As(err, &used) || used.Resource != Tokens && used.Resource != Money {
			return err
		}
		if most = a.outputLeft(call, prices); most < 1 {
			return err
		}
	}
	return err
}

func (r *runRecord) reserveOnce(ctx context.Context, call *host.ModelCall, prices *PriceTable) error {
	a := r.entry.account
	tokens := int64(call.Input) + int64(call.MaxOutput)
	money := prices.worst(call.Model, call.Input, call.MaxOutput)
	var list [4]need
	needs := append(list[:0], need{Time, 1}, need{Tokens, tokens}, need{ModelCalls, 1}, need{Money, money})
	return a.reserve(ctx, needs, func(time.Time) {
		held := &reservation{}
		for _, n := range needs[1:] {
			for _, c := range a.of[n.of] {
				held.add(c, n.n)
			}
		}
		call.Reservation, r.held = held, append(r.held, held)
		a.schedule()
	})
}

// outputLeft returns how many tokens of output the limits have left for a call.
func (a *Account) outputLeft(call *host.ModelCall, prices *PriceTable) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	left := int64(call.MaxOutput) - 1
	for _, c := range a.of[Tokens] {
		left = min(left, c.free()-int64(call.Input))
	}
	p := prices.Models[call.Model]
	input, each := millionths(call.Input, max(p.Input, p.Cached)), max(p.Output, p.Reasoning)
	for _, c := range a.of[Money] {
		if rest := c.free() - input; each > 0 {
			left = min(left, int64(float64(rest)*1_000_000/float64(each)))
		}
	}
	return int(max(left, 0))
}

// worst returns the most that a call can cost.
func (t *PriceTable) worst(model string, input, output int) int64 {
	p := t.Models[model]
	return addUp(millionths(input, max(p.Input, p.Cached)), millionths(min(output, math.MaxInt32), max(p.Output, p.Reasoning)))
}

// SettleModel implements [host.UsageRecord].
func (r *runRecord) SettleModel(call *host.ModelCall, used *host.Usage) {
	a := r.entry.account
	held, ok := call.Reservation.(*reservation)
	if a.refused != nil || !ok {
		return
	}
	call.Reservation = nil
	now, prices := a.ledger.now(), a.ledger.prices.Load()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refresh(now)
	held.release()
	r.held = slices.DeleteFunc(r.held, func(h *reservation) bool { return h == held })
	if used == nil {
		return
	}
	u := used.Bounded()
	money := prices.of(call.Model, u)
	e := Payer{a, r.entry}.record(now)
	e.addCall(prices, call.Agent, call.Model, u, money)
	a.count(e, Tokens, int64(u.Total()))
	a.count(e, ModelCalls, 1)
	a.count(e, Money, money)
}

// ReserveTools implements [host.UsageRecord].
func (r *runRecord) ReserveTools(ctx context.Context, n int) error {
	a := r.entry.account
	if a.refused != nil {
		return a.refused
	}
	return a.reserve(ctx, []need{{ToolCalls, int64(n)}, {Time, 1}}, func(now time.Time) {
		a.charge(Payer{a, r.entry}.record(now), ToolCalls, int64(n))
	})
}

// UseTime implements [host.UsageRecord].
func (r *runRecord) UseTime(d time.Duration) {
	a := r.entry.account
	if a.refused != nil || d <= 0 {
		return
	}
	now := a.ledger.now()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refresh(now)
	a.charge(Payer{a, r.entry}.record(now), Time, int64(d))
}

// Close implements [host.UsageRecord].
func (r *runRecord) Close(thread string, rides bool) []host.TurnEntry {
	e := r.entry
	a := e.account
	if a.refused != nil {
		return nil
	}
	now := a.ledger.now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if e.n != 0 {
		return nil
	}
	a.runs = max(a.runs-1, 0)
	for _, held := range r.held { // of calls that panicked
		held.release()
	}
	r.held = nil
	e.rec.Thread = thread
	if e.rec.isZero() {
		e.n = math.MaxUint64 // closed, and nothing to settle
		return nil
	}
	a.close(e, now)
	if !rides {
		return nil
	}
	raw, err := encode(&e.rec)
	if err != nil {
		return nil
	}
	e.offered, e.rides = true, now.Add(rideTime)
	return []host.TurnEntry{{Store: a.ledger.store, Key: string(openKey(a.lease, e.n)), Value: raw, Stored: e.wasStored}}
}

// wasStored notes that a record was stored by the commit of its turn.
func (e *entry) wasStored() {
	e.account.mu.Lock()
	defer e.account.mu.Unlock()
	e.stored = true
}
