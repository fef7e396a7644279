package usage

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/internal/kverror"
	"github.com/agenthost/agenthost/host/kv"
)

// The defaults and bounds of a ledger.
const (
	defaultFlushInterval = 10 * time.Second
	keptAccounts         = 10_000  // before those without use are forgotten
	maxAccounts          = 100_000 // at once, on one host
	maxPending           = 10_000  // records of a tenant that wait to be settled
)

// Options are the optional parts of a ledger.
type Options struct {
	Default Plan             // of tenants without a plan of their own
	Tenants map[string]*Plan // by tenant
	Prices  *PriceTable      // nil: nothing is priced

	// FlushInterval is how long closed records wait to be settled, and so how late bills
	// of other hosts have them (10 s). With a negative one nothing is done in the
	// background: records are settled by [Ledger.Flush], [Ledger.Close] and the methods
	// that read them.
	FlushInterval time.Duration

	Logger *slog.Logger // default: discards
}

// Ledger keeps the use of all tenants. It is a host's Ledger, and safe for concurrent use by
// any number of hosts.
type Ledger struct {
	driver        kv.Driver // checked
	store         any       // the driver below
	flushInterval time.Duration
	logger        *slog.Logger
	prices        atomic.Pointer[PriceTable]
	planAge       atomic.Uint64 // grows with each change of a plan

	plansMu  sync.RWMutex
	standard *plan
	plans    map[string]*plan // by partition

	mu       sync.Mutex
	accounts map[string]*Account
	sweepAt  int
	closed   bool
}

// New returns a ledger that keeps its records in driver; nil keeps them in memory. Code invalid_argument for plans and
// prices that make no sense; the error names the tenant. Close it to settle its records.
func New(driver kv.Driver, opts *Options) (*Ledger, error) {
	if opts == nil {
		opts = &Options{}
	}
	if driver == nil {
		driver = kv.NewMemory()
	}
	l := &Ledger{driver: kv.Checked(driver), flushInterval: cmp.Or(opts.FlushInterval, defaultFlushInterval), logger: opts.Logger,
		plans: map[string]*plan{}, accounts: map[string]*Account{}, sweepAt: keptAccounts}
	l.store = kv.Unchecked(l.driver)
	if l.logger == nil {
		l.logger = slog.New(slog.DiscardHandler)
	}
	var err error
	if l.standard, err = opts.Default.compile(); err != nil {
		return nil, host.Errorf(host.CodeOf(err), "plan of any tenant: %w", err)
	}
	if err := l.SetPrices(opts.Prices); err != nil {
		return nil, err
	}
	for tenant, p := range opts.Tenants {
		if err := l.SetPlan(tenant, p); err != nil {
			return nil, err
		}
	}
	return l, nil
}

func (l *Ledger) now() time.Time { return time.Now() }

// SetPlan gives a tenant a plan of its own from now on; nil is that of any tenant. The use
// of present windows stays, of limits with the same resource and window. Code
// invalid_argument for a plan that makes no sense.
func (l *Ledger) SetPlan(tenant string, p *Plan) error {
	partition, err := host.TenantPartition(tenant)
	if err != nil {
		return err
	}
	c, err := p.compile()
	if err != nil {
		return host.Errorf(host.CodeOf(err), "plan of tenant %q: %w", tenant, err)
	}
	l.plansMu.Lock()
	defer l.plansMu.Unlock()
	if l.plans[partition] = c; p == nil {
		delete(l.plans, partition)
	}
	l.planAge.Add(1)
	return nil
}

// SetPrices sets the prices of calls from now on; nil prices nothing. Code invalid_argument
// for a negative price and for a table without a version.
func (l *Ledger) SetPrices(t *PriceTable) error {
	c, err := t.clone()
	if err != nil {
		return err
	}
	l.prices.Store(c)
	return nil
}

func (l *Ledger) planOf(partition string) *plan {
	l.plansMu.RLock()
	defer l.plansMu.RUnlock()
	if p := l.plans[partition]; p != nil {
		return p
	}
	return l.standard
}

// Account returns the account of a tenant. The methods of the account of a tenant that
// there cannot be fail with the error of [host.ValidateTenant].
func (l *Ledger) Account(tenant string) *Account {
	partition, err := host.TenantPartition(tenant)
	if err != nil {
		return &Account{ledger: l, tenant: tenant, refused: err}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.accounts[partition]; a != nil {
		return a
	}
	if l.closed {
		return &Account{ledger: l, tenant: tenant, refused: errClosed()}
	}
	if len(l.accounts) >= l.sweepAt {
		l.sweep()
	}
	if len(l.accounts) >= maxAccounts {
		return &Account{ledger: l, tenant: tenant, refused: host.Errorf(host.Unavailable, "more than %d tenants are in use at once", maxAccounts).WithHint("try again, or add a host")}
	}
	a := &Account{ledger: l, tenant: partition, partition: partition, lease: host.NewID(), rates: rates{}}
	l.accounts[partition] = a
	return a
}

// sweep forgets accounts without use. l.mu is held.
func (l *Ledger) sweep() {
	if l.flushInterval < 0 { // nothing else returns leases
		ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
		defer cancel()
		for _, a := range l.accounts {
			_ = a.flush(ctx) // an account that is not settled stays
		}
	}
	now := l.now()
	maps.DeleteFunc(l.accounts, func(_ string, a *Account) bool {
		if !a.forgettable(now) {
			return false
		}
		a.dropped.Store(true)
		return true
	})
	l.sweepAt = max(keptAccounts, 2*len(l.accounts))
}

// all returns the accounts in memory.
func (l *Ledger) all() []*Account {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]*Account, 0, len(l.accounts))
	for _, a := range l.accounts {
		out = append(out, a)
	}
	return out
}

// Flush settles the records of all tenants that are closed. Code unavailable if the store
// does not answer; the records stay.
func (l *Ledger) Flush(ctx context.Context) error {
	var errs []error
	for _, a := range l.all() {
		errs = append(errs, a.flush(ctx))
	}
	return errors.Join(errs...)
}

// Close settles all records and returns the leases. Records of runs that are still open are
// lost, so it is called after the hosts have ended. A second call does nothing.
func (l *Ledger) Close(ctx context.Context) error {
	l.mu.Lock()
	closed := l.closed
	l.closed = true
	l.mu.Unlock()
	if closed {
		return nil
	}
	var errs []error
	for _, a := range l.all() {
		a.stop()
		errs = append(errs, a.flush(ctx))
	}
	return errors.Join(errs...)
}

func errClosed() error { return host.Errorf(host.Unavailable, "the ledger of usage is closed") }

// stop ends the timer of an account and lets no record wait for a commit any more.
func (a *Account) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.gone = true
	a.dropped.Store(true)
	if a.timer != nil {
		a.timer.Stop()
	}
	a.runs = 0
	for _, e := range a.closed {
		e.rides = time.Time{}
	}
}

// Remove removes all usage of a tenant: its records, sums, windows and leases. Other hosts
// must not use the tenant meanwhile. The tenant's plan stays.
func (l *Ledger) Remove(ctx context.Context, tenant string) error {
	partition, err := host.TenantPartition(tenant)
	if err != nil {
		return err
	}
	l.forget(partition)
	return kverror.Wrap(kv.Remove(ctx, l.driver, partition, allKeys), "remove the usage of tenant %q", tenant)
}

// forget drops the account of a tenant and all that it has not settled.
func (l *Ledger) forget(partition string) {
	l.mu.Lock()
	a := l.accounts[partition]
	delete(l.accounts, partition)
	l.mu.Unlock()
	if a == nil {
		return
	}
	a.stop()
	a.syncing.Lock()
	defer a.syncing.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed, a.beside, a.held = nil, nil, false
}

func storeError(err error, tenant string) error {
	return kverror.Wrap(err, "keep the usage of tenant %q", tenant)
}
