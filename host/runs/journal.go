package runs

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/cluster"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/runlog"
)

// JournalStore keeps the journal of runs for several hosts, such as a threads.Store.
type JournalStore interface {
	host.Journal
	host.QuestionKeeper
	// RunsOf returns open runs of a tenant whose RunRef.Host is owner, without their
	// steps. There may be more when it returns some.
	RunsOf(ctx context.Context, tenant, owner string) ([]*host.RunRecord, error)
	// Driver returns where the journal is.
	Driver() kv.Driver
}

// Journal is a journal whose open runs belong to a member of a cluster. It is the
// option Journal of the host and of its [Registry]: a run that is in it can be taken
// over by the registry of another member. It is safe for concurrent use.
type Journal struct {
	store  JournalStore
	member *cluster.Member
	index  *cluster.Owners // of open runs
	claims *cluster.Claims // of this member in the index

	mu       sync.Mutex
	open     map[runKey]bool // runs of this member
	released map[runKey]bool // those that write nothing more
}

var (
	_ host.Journal        = (*Journal)(nil)
	_ host.QuestionKeeper = (*Journal)(nil)
)

// runKey names a run.
type runKey struct{ tenant, run string }

// NewJournal returns the journal of a member.
func NewJournal(store JournalStore, member *cluster.Member) *Journal {
	index := cluster.NewOwners(store.Driver(), "runs")
	return &Journal{store: store, member: member, index: index, claims: cluster.NewClaims(member, index), open: map[runKey]bool{}, released: map[runKey]bool{}}
}

// releasedOwner is the owner of runs that a host has handed over.
const releasedOwner = "released"

// CreateRun implements [host.Journal].
func (j *Journal) CreateRun(ctx context.Context, rec *host.RunRecord) error {
	if rec.Status != host.RunOpen {
		return j.store.CreateRun(ctx, rec)
	}
	confirm, err := j.claims.Claim(ctx, rec.Tenant)
	if err != nil {
		return err
	}
	own := *rec
	own.Host = j.member.ID()
	j.setOpen(rec.Ref, true) // before the store has it: see stranded
	if err = j.store.CreateRun(ctx, &own); err == nil {
		err = confirm(ctx)
	}
	if err != nil {
		j.setOpen(rec.Ref, false)
	}
	return err
}

// setOpen notes whether a run is this member's.
func (j *Journal) setOpen(ref host.RunRef, open bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	key := runKey{ref.Tenant, ref.Run}
	delete(j.released, key)
	if open {
		j.open[key] = true
	} else {
		delete(j.open, key)
	}
}

// owns reports whether a run is open and this member's.
func (j *Journal) owns(tenant, run string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.open[runKey{tenant, run}]
}

// ReadRun implements [host.Journal].
func (j *Journal) ReadRun(ctx context.Context, tenant, run string) (*host.RunRecord, error) {
	return j.store.ReadRun(ctx, tenant, run)
}

// TakeRun implements [host.Journal]. The run then belongs to this member.
func (j *Journal) TakeRun(ctx context.Context, ref host.RunRef, steps int) (int64, error) {
	confirm, err := j.claims.Claim(ctx, ref.Tenant)
	if err != nil {
		return 0, err
	}
	ref.Host = j.member.ID()
	j.setOpen(ref, true)
	fence, err := j.store.TakeRun(ctx, ref, steps)
	if err == nil {
		err = confirm(ctx)
	}
	if err != nil {
		j.setOpen(ref, false)
	}
	return fence, err
}

// AppendSteps implements [host.Journal]. It refuses the steps of a run that is being
// handed over: the run stays open.
func (j *Journal) AppendSteps(ctx context.Context, ref host.RunRef, at int, steps []json.RawMessage) error {
	if err := j.checkHeld(ref); err != nil {
		return err
	}
	return j.store.AppendSteps(ctx, ref, at, steps)
}

// EndRun implements [host.Journal].
func (j *Journal) EndRun(ctx context.Context, ref host.RunRef, status host.RunStatus, rest json.RawMessage) error {
	if err := j.checkHeld(ref); err != nil {
		return err
	}
	err := j.store.EndRun(ctx, ref, status, rest)
	j.setOpen(ref, false)
	return err
}

// LeaveRun implements [host.QuestionKeeper].
func (j *Journal) LeaveRun(ctx context.Context, ref host.RunRef, rest json.RawMessage, asks []host.AskedQuestion) error {
	if err := j.checkHeld(ref); err != nil {
		return err
	}
	err := j.store.LeaveRun(ctx, ref, rest, asks)
	j.setOpen(ref, false)
	return err
}

// WaitingRuns implements [host.QuestionKeeper].
func (j *Journal) WaitingRuns(ctx context.Context, tenant string, filter host.WaitingFilter) ([]*host.RunRecord, error) {
	return j.store.WaitingRuns(ctx, tenant, filter)
}

func (j *Journal) checkHeld(ref host.RunRef) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.released[runKey{ref.Tenant, ref.Run}] {
		return errHandedOver(ref.Run)
	}
	return nil
}

func errHandedOver(run string) error {
	return host.Errorf(host.Unavailable, "run %.100q is handed over: its host is being stopped", run).WithHint("read its events through another host")
}

// release keeps a run of this member from writing any more.
func (j *Journal) release(tenant, run string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.released[runKey{tenant, run}] = true
}

// handOver frees a released run, once its goroutine has ended, for any other member. It
// reports whether the run is still open.
func (j *Journal) handOver(ctx context.Context, tenant, run string) (bool, error) {
	rec, err := j.store.ReadRun(ctx, tenant, run)
	if host.CodeOf(err) == host.NotFound || err == nil && (rec.Status != host.RunOpen || rec.Host != j.member.ID()) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := j.index.Add(ctx, releasedOwner, tenant); err != nil {
		return false, err
	}
	ref := rec.Ref
	ref.Host = releasedOwner
	// A step whose commit was given up may still be stored: the next owner reads it.
	if _, err = j.store.TakeRun(ctx, ref, runlog.AnySteps); err != nil {
		return false, err
	}
	return true, j.index.Add(ctx, releasedOwner, tenant) // again: a member that looked in between found no run
}

// owners returns the other members that have, or had, durable runs, with a tenant of these,
// and the tenants whose entries of this member others have removed: while it was paused, or
// with the tenant.
func (j *Journal) owners(ctx context.Context) (others []cluster.Owned, missing map[string]bool, err error) {
	missing = j.claims.Tenants() // read before the index: a later claim is not missing
	found, err := j.index.All(ctx)
	if err != nil {
		return nil, nil, err
	}
	others = slices.DeleteFunc(found, func(e cluster.Owned) bool {
		own := e.Owner == j.member.ID()
		if own {
			delete(missing, e.Tenant)
		}
		return own
	})
	return others, missing, nil
}

// claimAgain adds the entries of tenants of which this member has open runs. A tenant
// without any, which may be one that was erased, is left out.
func (j *Journal) claimAgain(ctx context.Context, tenants map[string]bool) error {
	var failed []error
	for tenant := range tenants {
		records, err := j.store.RunsOf(ctx, tenant, j.member.ID())
		if err == nil && len(records) > 0 {
			err = j.index.Add(ctx, j.member.ID(), tenant)
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// stranded returns the runs that are this member's in the store, and that it does not run:
// their last commits failed.
func (j *Journal) stranded(ctx context.Context) (found []*host.RunRecord, err error) {
	for tenant := range j.claims.Tenants() {
		records, err := j.store.RunsOf(ctx, tenant, j.member.ID())
		if err != nil {
			return nil, err
		}
		for _, rec := range records {
			if !j.owns(rec.Tenant, rec.Run) {
				found = append(found, rec)
			}
		}
	}
	return found, nil
}

// EraseTenant forgets which hosts had runs of a tenant whose partition is being erased,
// and which had other work of it: see [cluster.EraseTenant].
func EraseTenant(ctx context.Context, driver kv.Driver, tenant string) error {
	name, err := host.TenantPartition(tenant)
	if err != nil {
		return err
	}
	return cluster.EraseTenant(ctx, driver, name)
}

// CountTenant returns how many entries name a tenant that EraseTenant removes.
func CountTenant(ctx context.Context, driver kv.Driver, tenant string) (int, error) {
	name, err := host.TenantPartition(tenant)
	if err != nil {
		return 0, err
	}
	return cluster.CountTenant(ctx, driver, name)
}
