package audit

import (
	"context"
	"errors"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/kverror"
	"github.com/agenthost/agenthost/host/kv"
)

// trimBatch is how many entries are removed in one commit.
const trimBatch = 500

// Start returns the head before the first entry that is kept: the zero Head for a log that
// was never trimmed.
func (l *Log) Start(ctx context.Context) (Head, error) {
	h, _, err := readHead(ctx, l.driver, startKey)
	return h, kverror.Wrap(err, "read the start of the audit log")
}

// Trim removes the entries up to a head and the one with its number, and returns how many it
// removed. The head is that of an export, whose file continues to prove what is removed here:
// the chain begins after it from now on. The last entry is always kept. Trim verifies the
// entries before it removes them; a call that was interrupted is made again with the same
// head. It appends no entry: the caller does, before.
//
// Codes: invalid_argument for a head after the end of the log, failed_precondition for one
// that is not the log's, data_loss for entries that do not verify.
func (l *Log) Trim(ctx context.Context, to Head) (removed int, err error) {
	for {
		start, revision, err := readHead(ctx, l.driver, startKey)
		if err != nil {
			return 0, kverror.Wrap(err, "trim the audit log")
		}
		err = l.moveStart(ctx, start, revision, to)
		if err == nil {
			removed, err = l.removeBefore(ctx, max(start.Seq, to.Seq))
			return removed, kverror.Wrap(err, "trim the audit log")
		}
		again, failed := l.Start(ctx)
		if failed != nil {
			return 0, failed
		}
		if again == start { // else another host has trimmed it meanwhile
			return 0, err
		}
	}
}

// moveStart has the log begin after a head, unless it begins after a later one.
func (l *Log) moveStart(ctx context.Context, start Head, revision uint64, to Head) error {
	if to.Seq <= start.Seq {
		return nil
	}
	if err := l.checkTrim(ctx, start, to); err != nil {
		return err
	}
	value, err := kv.EncodeRecord(headRow{V: layout, Head: to})
	if err != nil {
		return err
	}
	tx := kv.Tx{Partition: partition, Conds: []kv.Cond{kv.AtRevision(startKey, revision)}, Writes: []kv.Write{kv.Put(startKey, value)}}
	_, err = kv.Apply(ctx, l.driver, tx)
	return kverror.Wrap(err, "trim the audit log")
}

// checkTrim verifies the entries after the start of the log up to a head that the caller has
// kept.
func (l *Log) checkTrim(ctx context.Context, start, to Head) error {
	end, err := l.Head(ctx)
	if err != nil {
		return err
	}
	if to.Seq >= end.Seq {
		return fault.Errorf(fault.InvalidArgument, "trim the audit log up to entry %d: the last one is %d, and it is kept", to.Seq, end.Seq).
			WithHint("trim up to the head of an earlier export")
	}
	_, err = l.walk(ctx, start, func(h Head, _ *row) error {
		switch {
		case h.Seq < to.Seq:
			return nil
		case h.Sum != to.Sum:
			return fault.Errorf(fault.FailedPrecondition, "trim the audit log up to entry %d: its sum is %s", to.Seq, h.Sum).
				WithHint("export the log, and give the head that the export ends with")
		}
		return errReached
	})
	if errors.Is(err, errReached) {
		return nil
	}
	return err
}

// errReached ends a walk at the head that it was made for.
var errReached = errors.New("the head is reached")

// removeBefore removes the entries up to a number, with their rows in the index of tenants.
func (l *Log) removeBefore(ctx context.Context, last uint64) (removed int, err error) {
	for {
		tx := kv.Tx{Partition: partition}
		entries := 0
		for found, err := range kv.All(ctx, l.driver, partition, kv.Range{Prefix: entryRows, Limit: trimBatch}) {
			if err != nil {
				return removed, err
			}
			rest, _ := found.Key.CutPrefix(entryRows)
			seq, _, ok := rest.CutUint()
			if !ok || seq > last || entries == trimBatch {
				break
			}
			entries++
			tx.Writes = append(tx.Writes, kv.Delete(found.Key))
			if _, e, err := decodeRow(found.Value); err == nil && e.Tenant != "" {
				tx.Writes = append(tx.Writes, kv.Delete(tenantRows.With(e.Tenant).WithUint(seq)))
			}
		}
		if entries == 0 {
			return removed, nil
		}
		if _, err := kv.Apply(ctx, l.driver, tx); err != nil {
			return removed, err
		}
		removed += entries
	}
}

// from returns the head after which reading begins: the start of the log for the zero Head.
// An error names a head before the start, whose following entry is removed.
func (l *Log) from(ctx context.Context, after Head) (Head, error) {
	start, err := l.Start(ctx)
	if err != nil || after == (Head{}) {
		return start, err
	}
	return after, trimmed(after, start)
}

// trimmed returns an error for a head before the start of the log, or with the number of the
// start and another sum.
func trimmed(h, start Head) error {
	switch {
	case h.Seq < start.Seq:
		return fault.Errorf(fault.FailedPrecondition, "the audit log begins after entry %d, and the head is of entry %d", start.Seq, h.Seq).
			WithHint("the entries before it are in the exports that were made before the log was trimmed")
	case h.Seq == start.Seq && h != start:
		return broken(h.Seq, "its sum is not the one that was kept")
	}
	return nil
}
