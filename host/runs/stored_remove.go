package runs

import (
	"context"
	"errors"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/internal/kverror"
	"github.com/agenthost/agenthost/host/kv"
)

// Removing the stored events of durable runs.

// sweepAgain is how long the logs that earlier processes have left of a tenant are not
// looked for again.
const sweepAgain = time.Minute

// maxSwept bounds how many tenants a registry remembers to have swept.
const maxSwept = 10_000

// removerMark begins the name of an owner that removes the events of a run.
const removerMark = "remover "

// removeLog removes the stored events of a run if a condition on its entries holds: another
// registry may have begun a run of the same id there, whose events stay. The caller removes
// them all, also those that another registry is about to add, which owns them no longer.
func removeLog(ctx context.Context, driver kv.Driver, key runKey, cond kv.Cond) error {
	err := takeAndRemove(ctx, driver, key, cond)
	if errors.Is(err, kv.ErrPrecondition) {
		err = nil
	}
	return kverror.Wrap(err, "remove the events of run %q", key.run)
}

func takeAndRemove(ctx context.Context, driver kv.Driver, key runKey, cond kv.Cond) error {
	owner := ownerKeys.With(key.run)
	remover := append([]byte(removerMark), host.NewID()...)
	_, err := kv.Apply(ctx, driver, kv.Tx{Partition: key.tenant, Quiet: true, Conds: []kv.Cond{cond}, Writes: []kv.Write{kv.Put(owner, remover)}})
	if err != nil {
		return err
	}
	own := kv.Fence(owner, remover)
	if err := removeEvents(ctx, driver, key, own); err != nil {
		return err
	}
	last := kv.Tx{Partition: key.tenant, Quiet: true, Conds: []kv.Cond{own}, Writes: []kv.Write{kv.Delete(owner), kv.Delete(logKeys.With(key.run))}}
	var rec logRecord
	e, err := driver.Get(ctx, key.tenant, logKeys.With(key.run))
	if err == nil && kv.DecodeRecord(e.Value, &rec) == nil && rec.Run.Thread != "" {
		last.Writes = append(last.Writes, kv.Delete(threadKeys.With(rec.Run.Thread, key.run)))
	}
	_, err = kv.Apply(ctx, driver, last)
	return err
}

// removeEvents removes the events of a run while a condition holds.
func removeEvents(ctx context.Context, driver kv.Driver, key runKey, cond kv.Cond) error {
	where := kv.Range{Prefix: eventKeys.With(key.run), Limit: min(kv.MaxScanLimit, kv.MaxTxWrites)}
	for {
		page, err := kv.Unchecked(driver).Scan(ctx, key.tenant, where) // damaged entries go as well
		if damaged := (*kv.EntryError)(nil); errors.As(err, &damaged) {
			page, err = kv.Page{Entries: []kv.Entry{{Key: damaged.Key}}}, nil
		}
		if err != nil || len(page.Entries) == 0 {
			return err
		}
		tx := kv.Tx{Partition: key.tenant, Quiet: true, Conds: []kv.Cond{cond}}
		for _, e := range page.Entries {
			tx.Writes = append(tx.Writes, kv.Delete(e.Key))
		}
		if _, err := kv.Apply(ctx, driver, tx); err != nil {
			return err
		}
	}
}

// EraseThread removes the events of a deleted thread's durable runs from the store of a
// journal: see threads.Options.Deleted. Codes are those of the driver.
func EraseThread(ctx context.Context, driver kv.Driver, tenant, thread string) error {
	partition, err := host.TenantPartition(tenant)
	if err != nil {
		return err
	}
	driver = kv.Checked(driver)
	prefix := threadKeys.With(thread)
	for e, err := range kv.All(ctx, driver, partition, kv.Range{Prefix: prefix}) {
		if err != nil {
			return kverror.Wrap(err, "remove the events of the runs of thread %q", thread)
		}
		rest, _ := e.Key.CutPrefix(prefix)
		run, _, ok := rest.CutString()
		if !ok {
			continue
		}
		err := removeLogOf(ctx, driver, runKey{partition, run}, thread)
		if err == nil {
			_, err = kv.Apply(ctx, driver, kv.Tx{Partition: partition, Quiet: true, Writes: []kv.Write{kv.Delete(e.Key)}})
		}
		if err != nil {
			return kverror.Wrap(err, "remove the events of the runs of thread %q", thread)
		}
	}
	return nil
}

// removeLogOf removes the stored events of a run if it is one of a thread, whichever registry
// adds to them.
func removeLogOf(ctx context.Context, driver kv.Driver, key runKey, thread string) error {
	at := logKeys.With(key.run)
	for {
		e, err := kv.Unchecked(driver).Get(ctx, key.tenant, at)
		if errors.Is(err, kv.ErrNotFound) {
			return nil
		}
		if err == nil {
			var rec logRecord
			whole, damaged := kv.CheckEntry(key.tenant, e)
			if damaged == nil && kv.DecodeRecord(whole.Value, &rec) == nil && rec.Run.Thread != thread {
				return nil // a later run of that id
			}
			err = takeAndRemove(ctx, driver, key, kv.AtRevision(at, e.Revision))
		}
		if !errors.Is(err, kv.ErrPrecondition) {
			return err
		} // a registry has described the run again
	}
}

// toSweep returns the tenants whose logs of earlier processes are looked for now: those of
// which this registry has runs. s.mu is held.
func (s *eventStore) toSweep(now time.Time) (tenants []string) {
	for key := range s.logs {
		if now.Sub(s.swept[key.tenant]) < sweepAgain {
			continue
		}
		if len(s.swept) >= maxSwept {
			clear(s.swept)
		}
		s.swept[key.tenant] = now
		tenants = append(tenants, key.tenant)
	}
	return tenants
}

// sweep removes the logs of a tenant that no registry removes: their processes have ended.
// It returns how many a member has left there whose time is not over.
func (s *eventStore) sweep(ctx context.Context, partition, member string) (left int, err error) {
	now := time.Now()
	for e, err := range kv.All(ctx, s.driver, partition, kv.Range{Prefix: logKeys}) {
		if err != nil {
			return left, kverror.Wrap(err, "look for events of runs that have ended")
		}
		rest, _ := e.Key.CutPrefix(logKeys)
		run, _, ok := rest.CutString()
		key := runKey{partition, run}
		if !ok || s.has(key) {
			continue
		}
		var rec logRecord
		over := kv.DecodeRecord(e.Value, &rec) != nil
		if !over {
			over, err = s.isOver(ctx, e, &rec, now)
		}
		if err != nil {
			return left, err
		}
		if !over {
			if rec.Host == member {
				left++
			}
			continue
		}
		if err := removeLog(ctx, s.driver, key, kv.AtRevision(e.Key, e.Revision)); err != nil {
			return left, err
		}
	}
	return left, nil
}

func (s *eventStore) has(key runKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logs[key] != nil
}

// isOver reports whether nothing needs the log of a run any more. One without an end whose
// run the journal does not have gets a time: its host was killed before it stored the end,
// or is about to.
func (s *eventStore) isOver(ctx context.Context, e kv.Entry, rec *logRecord, now time.Time) (bool, error) {
	if !rec.Until.IsZero() {
		return now.After(rec.Until), nil
	}
	if _, err := s.journal.ReadRun(ctx, rec.Run.Tenant, rec.Run.ID); host.CodeOf(err) != host.NotFound {
		return false, err
	}
	rec.Until = now.Add(s.keptFor).UTC()
	raw, err := kv.EncodeRecord(rec)
	if err != nil {
		return false, err
	}
	partition, err := host.TenantPartition(rec.Run.Tenant)
	if err != nil {
		return false, err
	}
	_, err = kv.Apply(ctx, s.driver, kv.Tx{Partition: partition, Quiet: true, Conds: []kv.Cond{kv.AtRevision(e.Key, e.Revision)}, Writes: []kv.Write{kv.Put(e.Key, raw)}})
	if errors.Is(err, kv.ErrPrecondition) {
		err = nil
	}
	return false, kverror.Wrap(err, "note the end of run %q", rec.Run.ID)
}

// sweepOf is sweep of a tenant by name, for a store that may be nil.
func (s *eventStore) sweepOf(ctx context.Context, tenant, member string) (left int, err error) {
	if s == nil {
		return 0, nil
	}
	partition, err := host.TenantPartition(tenant)
	if err != nil {
		return 0, err
	}
	return s.sweep(ctx, partition, member)
}
