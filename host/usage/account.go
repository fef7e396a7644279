package usage

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agenthost/agenthost/host"
)

// dryTime is how long a host takes the store's word that a limit is used up.
const dryTime = time.Second

// flushRecords is after how many closed records an account is flushed before its time.
const flushRecords = 500

// storeTimeout bounds a call of the store by a caller that has no time limit of its own.
const storeTimeout = 10 * time.Second

// Account counts what one tenant uses on this host, against its leases. Code that uses
// resources charges it through a [Payer]; a run has a record of its own
// ([Ledger.OpenRun]). It is safe for concurrent use.
type Account struct {
	ledger    *Ledger
	tenant    string // as callers name it
	partition string
	lease     string // the name of its lease
	refused   error  // of a tenant that there cannot be

	syncing sync.Mutex // held while the account reads and writes the store

	mu       sync.Mutex
	planAge  uint64
	plan     *plan
	counters []*counter
	of       [resourceCount][]*counter
	held     bool      // the store has a lease of the account
	until    time.Time // the lease may be used
	serial   uint64    // of its last write
	doubt    *change   // the last write, if its outcome is unknown
	beside   *entry    // the use outside runs; nil if nothing was used since the last flush
	runs     int       // records of runs that are open
	closed   []*entry  // records to be settled
	numbers  uint64
	timer    *time.Timer
	rates    rates
	gone     bool // the tenant was removed, or the ledger is closed

	dropped atomic.Bool // the ledger has it no longer
}

// Of reports whether the account is still the one that l returns for its tenant, so that a
// caller may keep it.
func (a *Account) Of(l *Ledger) bool { return a.ledger == l && a.refused == nil && !a.dropped.Load() }

// counter is the use of one limit on this host.
type counter struct {
	limit    Limit
	id       string
	epoch    uint64    // grows with each window
	ends     time.Time // of the window; zero if none has begun
	leased   int64     // covers used and reserved
	used     int64     // and not yet settled
	reserved int64

	dry    time.Time // until then, needs of dryFor and more are refused without asking the store
	dryFor int64
}

// free returns how much may still be used without another lease.
func (c *counter) free() int64 { return c.leased - c.used - c.reserved }

// need is an amount that is about to be used.
type need struct {
	of Resource
	n  int64
}

// reserve calls book with the account locked if all needs are free, leasing what lacks.
func (a *Account) reserve(ctx context.Context, needs []need, book func(now time.Time)) error {
	for range maxAttempts {
		now := a.ledger.now()
		a.mu.Lock()
		a.refresh(now)
		if a.shortOf(needs, now) == nil {
			book(now)
			a.mu.Unlock()
			return nil
		}
		a.mu.Unlock()
		if err := a.cover(ctx, needs...); err != nil {
			return err
		}
	}
	return errBusy(a.tenant)
}

// charge counts n of a resource for a record. The account is locked.
func (a *Account) charge(e *entry, r Resource, n int64) {
	e.rec.add(r, n)
	a.count(e, r, n)
}

// count counts n for the limits of a resource. The account is locked.
func (a *Account) count(e *entry, r Resource, n int64) {
	for _, c := range a.of[r] {
		c.used += n
		e.use(c, n)
	}
	a.schedule()
}

// outsideRuns returns the record of the use outside runs. The account is locked.
func (a *Account) outsideRuns(now time.Time) *entry {
	if a.beside == nil {
		a.beside = &entry{account: a, rec: Record{Began: now.UTC()}}
	}
	return a.beside
}

// short returns a counter that lacks a need, nil if each has enough. The account is locked.
func (a *Account) short(n need, now time.Time) *counter {
	valid := now.Before(a.until)
	for _, c := range a.of[n.of] {
		if !valid || c.ends.IsZero() || c.free() < n.n {
			return c
		}
	}
	return nil
}

func (a *Account) shortOf(needs []need, now time.Time) *counter {
	for _, n := range needs {
		if c := a.short(n, now); c != nil {
			return c
		}
	}
	return nil
}

// cover leases what needs lack. It fails if the tenant's limits do not have it.
func (a *Account) cover(ctx context.Context, needs ...need) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	a.syncing.Lock()
	defer a.syncing.Unlock()
	a.mu.Lock()
	begun := a.ledger.now()
	a.refresh(begun)
	short := a.shortOf(needs, begun)
	err := a.refusedAtOnce(needs, begun)
	a.mu.Unlock()
	if short == nil || err != nil { // nil: another call has leased enough
		return err
	}
	if err := a.sync(ctx, needs, false); err != nil {
		return err
	}
	now := a.ledger.now()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, n := range needs {
		for _, c := range a.of[n.of] {
			if c.free() < n.n {
				c.dry, c.dryFor = now.Add(dryTime), n.n
				return a.exhausted(c, now)
			}
		}
	}
	return nil
}

// refusedAtOnce returns the error of a need that the store did not have just now, so that a
// tenant that asks again and again writes nothing. The account is locked.
func (a *Account) refusedAtOnce(needs []need, now time.Time) error {
	if a.gone {
		return errClosed()
	}
	for _, n := range needs {
		for _, c := range a.of[n.of] {
			if now.Before(c.dry) && !c.ends.IsZero() && n.n >= c.dryFor && c.free() < n.n {
				return a.exhausted(c, now)
			}
		}
	}
	return nil
}

func (a *Account) exhausted(c *counter, now time.Time) error {
	return (&ExhaustedError{Tenant: a.tenant, Resource: c.limit.Resource, Limit: c.limit.Amount, Window: c.limit.Window, Refill: max(c.ends.Sub(now), 1)}).coded()
}

// refresh takes a changed plan over and ends windows that are over. The account is locked.
func (a *Account) refresh(now time.Time) {
	if age := a.ledger.planAge.Load(); a.plan == nil || a.planAge != age {
		a.setPlan(a.ledger.planOf(a.partition))
		a.planAge = age
	}
	for _, c := range a.counters {
		if !c.ends.IsZero() && !now.Before(c.ends) {
			c.endWindow()
		}
	}
}

// endWindow forgets the use of a window: reservations belong to the next.
func (c *counter) endWindow() {
	c.epoch++
	c.ends, c.leased, c.used = time.Time{}, 0, 0
}

// setPlan gives the account the limits of a plan. Limits with the same resource and window
// keep their use.
func (a *Account) setPlan(p *plan) {
	if p == a.plan {
		return
	}
	old := a.counters
	a.plan, a.counters, a.of = p, nil, [resourceCount][]*counter{}
	for _, l := range p.limits {
		c := &counter{limit: l, id: l.id()}
		for _, o := range old {
			if o.id == c.id {
				c = o
				c.limit, c.dry = l, time.Time{}
			}
		}
		a.counters = append(a.counters, c)
		a.of[l.Resource] = append(a.of[l.Resource], c)
	}
	a.until = time.Time{} // the lease is made again, of the present limits
}

// close hands a record over to be settled. The account is locked.
func (a *Account) close(e *entry, now time.Time) {
	e.rec.Ended = now.UTC()
	a.numbers++
	e.n = a.numbers
	a.closed = append(a.closed, e)
	a.schedule()
	if len(a.closed)%flushRecords == 0 && a.timer != nil && !a.gone {
		a.timer.Reset(0)
	}
}

// schedule has the account flushed after a while. The account is locked.
func (a *Account) schedule() {
	if a.timer == nil && !a.gone && a.ledger.flushInterval > 0 {
		a.timer = time.AfterFunc(a.ledger.flushInterval, a.flushLater)
	}
}

// flushLater settles records and renews or returns the lease, and is called again while
// there is something to do.
func (a *Account) flushLater() {
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	err := a.flush(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.timer = nil
	if err != nil {
		a.ledger.logger.WarnContext(ctx, "usage is not settled yet", "tenant", a.tenant, "records", len(a.closed), "error", err)
	}
	if a.held || len(a.closed) > 0 || a.beside != nil {
		a.schedule()
	}
}

// makeRoom settles records of an account that has maxPending: the call that finds it full
// waits for the store, and is refused if the store takes none.
func (a *Account) makeRoom(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	err := a.flush(ctx)
	a.mu.Lock()
	pending := len(a.closed)
	a.mu.Unlock()
	if pending < maxPending {
		return nil
	}
	refusal := host.Errorf(host.Unavailable, "usage of tenant %q: %d records wait for the store", a.tenant, pending).WithHint("look after the store; the records are kept until it answers")
	refusal.Err = err
	return refusal
}

// flush settles all records that are closed, the use outside runs included.
func (a *Account) flush(ctx context.Context) error {
	a.syncing.Lock()
	defer a.syncing.Unlock()
	for {
		a.mu.Lock()
		now := a.ledger.now()
		a.closeBeside(now)
		due := a.due(now)
		a.mu.Unlock()
		if !due {
			return nil
		}
		if err := a.sync(ctx, nil, true); err != nil {
			return err
		}
		a.mu.Lock()
		more := a.settleable(a.ledger.now())
		a.mu.Unlock()
		if !more {
			return nil
		}
	}
}

// closeBeside closes the record of the use outside runs. The account is locked.
func (a *Account) closeBeside(now time.Time) {
	if e := a.beside; e != nil {
		a.beside = nil
		a.close(e, now)
	}
}

// due reports whether a flush has something to write: records, or a lease to be renewed or
// returned.
func (a *Account) due(now time.Time) bool {
	return a.settleable(now) || a.held && (a.idle() || a.until.Sub(now) < LeaseTerm/2)
}

func (a *Account) settleable(now time.Time) bool {
	for _, e := range a.closed {
		if e.stored || !now.Before(e.rides) {
			return true
		}
	}
	return false
}

// idle reports whether nothing is in use or about to be.
func (a *Account) idle() bool {
	if a.runs > 0 || len(a.closed) > 0 || a.beside != nil {
		return false
	}
	for _, c := range a.counters {
		if c.reserved != 0 {
			return false
		}
	}
	return true
}

// forgettable reports whether a new account would do as well.
func (a *Account) forgettable(now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.rates.forget(now)
	return a.idle() && !a.held && a.doubt == nil && len(a.rates) == 0
}
