package tenants

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/changerow"
	"github.com/agenthost/agenthost/host/internal/kverror"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/runs"
	"github.com/agenthost/agenthost/host/usage"
)

const (
	pollTimeout   = 10 * time.Second
	cancelTimeout = 30 * time.Second
	maxAttempts   = 64 // of a change, after other hosts were faster

	// deletedFor is how long a deleted tenant is not admitted without a record: longer than
	// any request that began before the deletion, such as an upload, and than credentials
	// are cached.
	deletedFor  = 15 * time.Minute
	maxDeleted  = 4096 // deletions that are kept in memory
	maxWatchers = 64

	// DefaultListLimit is the limit of a page of tenants that names none, and MaxListLimit
	// the highest one.
	DefaultListLimit = 100
	MaxListLimit     = 1000
)

// Ledger is what a Store sets the budgets of tenants on. *usage.Ledger is one.
type Ledger interface {
	SetPlan(tenant string, p *usage.Plan) error
}

// Plugins is what a Store sets the grants of tenants on. *plugin.Runtime is one.
type Plugins interface {
	SetTenant(id string, t *plugin.Tenant) error // nil is a tenant without plugins
	ResetTenant(id string) error                 // to what it was before SetTenant
}

// Runs is where a Store cancels the runs of suspended tenants. *runs.Registry is one.
type Runs interface {
	List(ctx context.Context, req *runs.ListRequest) (*runs.Page, error)
	Cancel(ctx context.Context, tenant, id string) (*runs.Run, error)
}

var (
	_ Ledger  = (*usage.Ledger)(nil)
	_ Plugins = (*plugin.Runtime)(nil)
	_ Runs    = (*runs.Registry)(nil)
)

// Options are the parts of a host that follow the plans. Each may be nil.
type Options struct {
	Ledger  Ledger
	Plugins Plugins
	Runs    Runs

	// Unregistered admits tenants that have no record, under the settings that the parts
	// have for them: for a host whose configuration names tenants, too. When a record
	// goes, Ledger.SetPlan(nil) and Plugins.ResetTenant give the tenant those settings.
	Unregistered bool

	Logger *slog.Logger // receives changes that could not be read or applied; nil discards
}

// Store keeps tenants. It is safe for concurrent use, and any number of hosts may have one
// on the same driver.
type Store struct {
	driver  kv.Driver
	options Options

	ctx        context.Context // the lifetime: ends with Close
	cancel     context.CancelFunc
	background sync.WaitGroup // the reader of changes, and cancels of runs
	reading    sync.Mutex     // held while records of other hosts are read and applied

	mu       sync.RWMutex
	byID     map[string]*Tenant   // read-only values
	deleted  map[string]time.Time // when the last deletions were, of tenants without a record
	seq      uint64               // of the last change that was read
	watchers []func(*Tenant)
}

// Open returns a Store on a driver, which the caller closes after it. It reads all tenants
// and applies their plans first. Codes are those of the driver.
func Open(ctx context.Context, driver kv.Driver, opts *Options) (*Store, error) {
	s := &Store{driver: kv.Checked(driver), byID: map[string]*Tenant{}, deleted: map[string]time.Time{}}
	if opts != nil {
		s.options = *opts
	}
	s.options.Logger = cmp.Or(s.options.Logger, slog.New(slog.DiscardHandler))
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if err := s.refresh(ctx); err != nil {
		s.cancel()
		s.background.Wait()
		return nil, kverror.Wrap(err, "read the tenants")
	}
	s.background.Go(s.follow)
	return s, nil
}

// Close ends the Store's goroutines. A second call does nothing. The plans that were
// applied stay.
func (s *Store) Close() error {
	s.cancel()
	s.background.Wait()
	return nil
}

// Watch calls fn with each tenant that changes, on any host, within a second: at once for
// changes by this Store. A tenant that is gone has status Deleting and no plan. Calls may
// come twice, and come one at a time; fn must not wait for long and must not call the
// Store's methods that write. Code resource_exhausted for more than 64 functions.
func (s *Store) Watch(fn func(*Tenant)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.watchers) >= maxWatchers {
		return fault.Errorf(fault.ResourceExhausted, "%d functions watch the tenants already", maxWatchers)
	}
	s.watchers = append(s.watchers, fn)
	return nil
}

// Spec says how a tenant is made.
type Spec struct {
	Name string // for people, at most 200 bytes
	Plan Plan
}

// Create makes a tenant. Codes: already_exists, invalid_argument for an id that no tenant
// can have or a plan that makes no sense, resource_exhausted if there are [MaxTenants].
func (s *Store) Create(ctx context.Context, id string, spec *Spec) (*Tenant, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	if spec == nil {
		spec = &Spec{}
	}
	now := time.Now().UTC().Truncate(time.Millisecond)
	t := &Tenant{ID: id, Name: spec.Name, Status: Active, Created: now, Changed: now, Plan: spec.Plan.clone()}
	return s.write(ctx, id, func(present *Tenant) (*Tenant, error) {
		if present != nil {
			return nil, fault.Errorf(fault.AlreadyExists, "there is a tenant %q already", id).WithHint("change it, or choose another id")
		}
		return t, t.check()
	})
}

func checkID(id string) error {
	if id == host.DefaultTenant {
		return invalid("tenant %q is the one of hosts with a single tenant", id).WithHint("give the tenant another id")
	}
	return host.ValidateTenant(id)
}

// Get returns a tenant. Code not_found.
func (s *Store) Get(ctx context.Context, id string) (*Tenant, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	t, _, err := s.read(ctx, id)
	if err != nil {
		return nil, kverror.Wrap(err, "read tenant %q", id)
	}
	if t == nil {
		return nil, errNoTenant(id)
	}
	return t, nil
}

func errNoTenant(id string) error {
	return fault.Errorf(fault.NotFound, "there is no tenant %q", id).WithHint("create it first")
}

// List returns the tenants whose ids are after the given one, in the order of ids, at most
// limit of them (100), and the id to continue after, or "". Code invalid_argument for a
// limit above [MaxListLimit].
func (s *Store) List(ctx context.Context, after string, limit int) (page []*Tenant, next string, err error) {
	if limit = cmp.Or(limit, DefaultListLimit); limit < 0 || limit > MaxListLimit {
		return nil, "", invalid("a page of %d tenants: it has from 1 to %d", limit, MaxListLimit)
	}
	r := kv.Range{Prefix: tenantRows, Limit: limit}
	if after != "" {
		if err := checkID(after); err != nil {
			return nil, "", err
		}
		r.After = tenantRows.With(after)
	}
	page = []*Tenant{}
	for e, err := range kv.All(ctx, s.driver, partition, r) {
		if err != nil {
			return nil, "", kverror.Wrap(err, "list the tenants")
		}
		if len(page) == limit {
			return page, page[limit-1].ID, nil
		}
		t, err := decodeTenant(e)
		if err != nil {
			return nil, "", kverror.Wrap(err, "list the tenants")
		}
		page = append(page, t)
	}
	return page, "", nil
}

// Change changes a tenant: fn changes its name and its plan, and any error of fn is
// returned. fn is called again if another host was faster. The other fields stay. Codes:
// not_found, invalid_argument for a plan that makes no sense, failed_precondition for a
// tenant that is being deleted.
func (s *Store) Change(ctx context.Context, id string, fn func(*Tenant) error) (*Tenant, error) {
	return s.update(ctx, id, func(t *Tenant) error {
		before := *t
		if err := fn(t); err != nil {
			return err
		}
		t.ID, t.Status, t.Reason, t.Created = before.ID, before.Status, before.Reason, before.Created
		return nil
	})
}

// Suspend suspends a tenant: it begins no run, and its live runs are canceled, on this host
// before Suspend returns. Suspending a suspended tenant changes the reason. Codes are
// those of Change.
func (s *Store) Suspend(ctx context.Context, id, reason string) (*Tenant, error) {
	return s.update(ctx, id, func(t *Tenant) error {
		t.Status, t.Reason = Suspended, reason
		return nil
	})
}

// Activate ends the suspension of a tenant. Codes are those of Change.
func (s *Store) Activate(ctx context.Context, id string) (*Tenant, error) {
	return s.update(ctx, id, func(t *Tenant) error {
		t.Status, t.Reason = Active, ""
		return nil
	})
}

// update changes a tenant that exists and is not being deleted.
func (s *Store) update(ctx context.Context, id string, fn func(*Tenant) error) (*Tenant, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	return s.write(ctx, id, func(t *Tenant) (*Tenant, error) {
		switch {
		case t == nil:
			return nil, errNoTenant(id)
		case t.Status == Deleting:
			return nil, fault.Errorf(fault.FailedPrecondition, "tenant %q is being deleted", id)
		}
		if err := fn(t); err != nil {
			return nil, err
		}
		t.Changed = time.Now().UTC().Truncate(time.Millisecond)
		return t, t.check()
	})
}

// write replaces a tenant, nil for a missing one, by the one that fn returns, and applies
// it. fn is called again after a change by another host.
func (s *Store) write(ctx context.Context, id string, fn func(*Tenant) (*Tenant, error)) (*Tenant, error) {
	for range maxAttempts {
		present, revision, err := s.read(ctx, id)
		if err != nil {
			return nil, kverror.Wrap(err, "change tenant %q", id)
		}
		next, err := fn(present)
		if err != nil {
			return nil, err
		}
		grows := 0
		if present == nil {
			grows = 1
		}
		value, err := kv.EncodeRecord(record{V: layout, Tenant: *next})
		if err != nil {
			return nil, kverror.Wrap(err, "change tenant %q", id)
		}
		row := tenantRows.With(id)
		wrote, err := s.commit(ctx, id, grows, kv.AtRevision(row, revision), kv.Put(row, value))
		if errors.Is(err, kv.ErrPrecondition) {
			continue
		}
		if err != nil {
			return nil, kverror.Wrap(err, "change tenant %q", id)
		}
		next.Revision = wrote
		if ended := s.take(ctx, id, next.clone()); ended || next.Status != Active {
			s.cancelRuns(ctx, id)
		}
		return next.clone(), nil
	}
	return nil, fault.Errorf(fault.Unavailable, "other hosts have changed the tenants first, %d times", maxAttempts).WithHint("try again")
}

// commit makes a write of a record together with the row of changes.
func (s *Store) commit(ctx context.Context, id string, grows int, cond kv.Cond, write kv.Write) (uint64, error) {
	c, revision, err := changerow.Read(ctx, s.driver, partition, changesRow)
	if err != nil {
		return 0, err
	}
	if grows > 0 && c.Count >= MaxTenants {
		return 0, fault.Errorf(fault.ResourceExhausted, "there are %d tenants, as many as MaxTenants allows", MaxTenants)
	}
	value, err := kv.EncodeRecord(c.Add(id, grows))
	if err != nil {
		return 0, err
	}
	return kv.Apply(ctx, s.driver, kv.Tx{
		Partition: partition,
		Conds:     []kv.Cond{cond, kv.AtRevision(changesRow, revision)},
		Writes:    []kv.Write{write, kv.Put(changesRow, value)},
	})
}

// read returns a tenant, nil for a missing one, with the revision of its record.
func (s *Store) read(ctx context.Context, id string) (*Tenant, uint64, error) {
	e, err := s.driver.Get(ctx, partition, tenantRows.With(id))
	if errors.Is(err, kv.ErrNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	t, err := decodeTenant(e)
	return t, e.Revision, err
}

func decodeTenant(e kv.Entry) (*Tenant, error) {
	var r record
	if err := decode(e.Value, &r, &r.V); err != nil {
		return nil, err
	}
	r.Revision = e.Revision
	return &r.Tenant, nil
}

// follow reads the changes of other hosts until the Store closes.
func (s *Store) follow() {
	changerow.Follow(s.ctx, s.driver, partition, func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, pollTimeout)
		defer cancel()
		if err := s.refresh(ctx); err != nil && s.ctx.Err() == nil {
			s.options.Logger.WarnContext(ctx, "changes of tenants are not read", "error", err)
		}
	})
}

// refresh reads the records that have changed since the last time.
func (s *Store) refresh(ctx context.Context) error {
	s.reading.Lock()
	defer s.reading.Unlock()
	c, _, err := changerow.Read(ctx, s.driver, partition, changesRow)
	if err != nil {
		return err
	}
	s.mu.RLock()
	seq := s.seq
	s.mu.RUnlock()
	if c.Seq == seq {
		return nil
	}
	ids, complete := c.Since(seq)
	if !complete {
		if err := s.readAll(ctx); err != nil {
			return err
		}
	}
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		t, _, err := s.read(ctx, id)
		if err != nil {
			return err
		}
		s.applyOther(id, t)
	}
	s.mu.Lock()
	s.seq = c.Seq
	s.mu.Unlock()
	return nil
}

// readAll applies every record, and the absence of those that this host has and the store
// has not.
func (s *Store) readAll(ctx context.Context) error {
	s.mu.RLock()
	gone := maps.Clone(s.byID)
	s.mu.RUnlock()
	for e, err := range kv.All(ctx, s.driver, partition, kv.Range{Prefix: tenantRows, Limit: kv.MaxScanLimit}) {
		if err != nil {
			return err
		}
		t, err := decodeTenant(e)
		if err != nil {
			return err
		}
		delete(gone, t.ID)
		s.applyOther(t.ID, t)
	}
	for id := range gone {
		t, _, err := s.read(ctx, id) // it may have been made meanwhile
		if err != nil {
			return err
		}
		s.applyOther(id, t)
	}
	return nil
}

// take applies a tenant that this Store has written, nil for one that it has removed; or
// what another host has made of it since, which refresh may have read already. It reports
// whether the tenant's runs must end.
func (s *Store) take(ctx context.Context, id string, t *Tenant) (ended bool) {
	s.reading.Lock()
	defer s.reading.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pollTimeout) // the caller may have left while this host was held up
	defer cancel()
	if now, _, err := s.read(ctx, id); err == nil {
		t = now
	}
	return s.apply(id, t)
}

// applyOther applies a tenant that another Store has written.
func (s *Store) applyOther(id string, t *Tenant) {
	if s.apply(id, t) {
		s.background.Go(func() { s.cancelRuns(s.ctx, id) })
	}
}

// apply sets a tenant's plan on the parts of the host, and reports whether its runs must
// end; t is nil for a tenant that is gone. s.reading is held.
func (s *Store) apply(id string, t *Tenant) (ended bool) {
	s.mu.Lock()
	old := s.byID[id]
	if old == nil && t == nil || old != nil && t != nil && t.Revision <= old.Revision {
		s.mu.Unlock()
		return false
	}
	if t == nil {
		delete(s.byID, id)
		s.noteDeletion(id)
	} else {
		s.byID[id] = t
		delete(s.deleted, id)
	}
	watchers := slices.Clone(s.watchers)
	s.mu.Unlock()
	if err := s.set(id, t); err != nil {
		s.options.Logger.Error("the plan of a tenant is not applied", "tenant", id, "error", err)
	}
	ended = (t == nil || t.Status != Active) && (old == nil || old.Status == Active)
	if t == nil {
		t = &Tenant{ID: id, Status: Deleting}
	}
	for _, fn := range watchers {
		fn(t.clone())
	}
	return ended
}

// noteDeletion keeps for a time that a tenant was deleted. s.mu is held.
func (s *Store) noteDeletion(id string) {
	now := time.Now()
	maps.DeleteFunc(s.deleted, func(_ string, at time.Time) bool { return now.Sub(at) >= deletedFor })
	if len(s.deleted) >= maxDeleted {
		first := slices.MinFunc(slices.Collect(maps.Keys(s.deleted)), func(a, b string) int { return s.deleted[a].Compare(s.deleted[b]) })
		delete(s.deleted, first)
	}
	s.deleted[id] = now
}

// set sets a tenant's plan on the ledger and on the runtime of plugins.
func (s *Store) set(id string, t *Tenant) error {
	var errs []error
	if s.options.Ledger != nil {
		var plan *usage.Plan
		if t != nil {
			plan = &t.Plan.Usage
		}
		errs = append(errs, s.options.Ledger.SetPlan(id, plan))
	}
	if s.options.Plugins != nil {
		errs = append(errs, s.setPlugins(id, t))
	}
	return errors.Join(errs...)
}

func (s *Store) setPlugins(id string, t *Tenant) error {
	switch {
	case t == nil && s.options.Unregistered:
		return s.options.Plugins.ResetTenant(id)
	case t == nil || t.Status != Active:
		return s.options.Plugins.SetTenant(id, nil)
	}
	return s.options.Plugins.SetTenant(id, t.Plan.tenant())
}

// cancelRuns cancels the live runs of a tenant, on all hosts. A run that begins meanwhile
// on a host that does not know yet is canceled by that host.
func (s *Store) cancelRuns(ctx context.Context, id string) {
	if s.options.Runs == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTimeout)
	defer cancel()
	stop := context.AfterFunc(s.ctx, cancel)
	defer stop()
	req := &runs.ListRequest{Tenant: id, Status: runs.Running, Limit: runs.MaxListLimit}
	for {
		page, err := s.options.Runs.List(ctx, req)
		if err != nil {
			if s.ctx.Err() == nil {
				s.options.Logger.ErrorContext(ctx, "the runs of a tenant that is not active are not canceled", "tenant", id, "error", err)
			}
			return
		}
		for _, r := range page.Runs {
			if _, err := s.options.Runs.Cancel(ctx, id, r.ID); err != nil && fault.CodeOf(err) != fault.NotFound && s.ctx.Err() == nil {
				s.options.Logger.ErrorContext(ctx, "a run of a tenant that is not active is not canceled", "tenant", id, "run", r.ID, "error", err)
			}
		}
		if req.Cursor = page.Next; req.Cursor == "" {
			return
		}
	}
}
