package sessions

import (
	"context"
	"errors"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/internal/kverror"
	"github.com/agenthost/agenthost/host/kv"
)

// What the store keeps of background turns:
//
//	sessions/run/<run id>       a background turn, until its snapshot is stored
//	sessions/order/<session>    the session's background turns that have not ended, in order
//
// The process that runs a turn writes heartbeats into its record; a process that
// aborts one changes the status there.

// recordVersion is the version of both.
const recordVersion = 1

var (
	recordKeys = kv.NewKey("sessions", "run")
	orderKeys  = kv.NewKey("sessions", "order")
)

func recordKey(run string) kv.Key    { return recordKeys.With(run) }
func orderKey(session string) kv.Key { return orderKeys.With(session) }

// record is the stored form of a background turn.
type record struct {
	V       int    `json:"v"`
	Run     string `json:"run"`
	Session string `json:"session"`
	Agent   string `json:"agent"`
	Parent  string `json:"parent,omitempty"` // the run it continues from
	At      string `json:"at,omitempty"`     // the same, if the request named it
	Status  Status `json:"status"`
	// Error is why a turn ended without a snapshot.
	Error   *host.Error `json:"error,omitempty"`
	Created time.Time   `json:"created"`
	// Thread is when the session's thread was made. A later thread of the same id is
	// another session.
	Thread time.Time `json:"thread,omitzero"`
	// Heartbeat is the last one. Released says that the process has given the turn up,
	// and any other may take it over at once.
	Heartbeat time.Time `json:"heartbeat"`
	Released  bool      `json:"released,omitempty"`
	// Host is the member of the cluster that runs it; empty for a process that is none, and
	// in records of earlier versions.
	Host     string        `json:"host,omitempty"`
	Attempts int           `json:"attempts"`      // processes that have run it
	Key      string        `json:"key,omitempty"` // the caller's credential: see [Request].Key
	Input    *host.Message `json:"input,omitempty"`
	Retry    bool          `json:"retry,omitempty"`
}

// orderRecord is the stored form of a session's order.
type orderRecord struct {
	V    int      `json:"v"`
	Runs []string `json:"runs"`
}

// records are the stored background turns of an agent.
type records struct {
	driver kv.Driver
	agent  string
	expiry time.Duration // after the last heartbeat, where hosts does not know
	hosts  *hosts        // nil without a member
	// logError logs a damaged record of a run that is passed over.
	logError func(what, run string, err error)
}

// readUndamaged is read for a turn that another one comes after: a damaged record is
// logged and counts as none. Its turn cannot be run any more, and must not stop the
// others.
func (r *records) readUndamaged(ctx context.Context, tenant, run string) (*record, uint64, error) {
	p, revision, err := r.read(ctx, tenant, run)
	if host.CodeOf(err) == host.DataLoss {
		r.logError("the damaged record of a turn in the background is passed over; remove it with: agenthost thread repair", run, err)
		return nil, 0, nil
	}
	return p, revision, err
}

// read returns the record of a background turn, nil if it has no record.
func (r *records) read(ctx context.Context, tenant, run string) (*record, uint64, error) {
	e, err := r.driver.Get(ctx, tenant, recordKey(run))
	if errors.Is(err, kv.ErrNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, kverror.Wrap(err, "read turn %q", run)
	}
	p, err := decodeTurnRecord(e.Value, run)
	return p, e.Revision, err
}

// InBackground reports whether a run is a turn in the background that has not ended, of any
// service on a driver. Codes are those of the driver, and data_loss for a damaged record.
func InBackground(ctx context.Context, driver kv.Driver, tenant, run string) (bool, error) {
	partition, err := host.TenantPartition(tenant)
	if err != nil {
		return false, err
	}
	p, _, err := (&records{driver: driver}).read(ctx, partition, run)
	return p != nil && !p.Status.Settled(), err
}

func decodeTurnRecord(value []byte, run string) (*record, error) {
	p := &record{}
	if err := kv.DecodeRecord(value, p); err != nil {
		return nil, host.Errorf(host.DataLoss, "the record of turn %q is damaged", run).WithHint("restore it from a backup")
	}
	if p.V != recordVersion {
		return nil, host.Errorf(host.FailedPrecondition, "the record of turn %q has version %d, which is not known here", run, p.V).
			WithHint("use it with the version that wrote it, or a newer one; nothing was changed")
	}
	return p, nil
}

// storedTurn is a record with its revision, or the reason why it cannot be read.
type storedTurn struct {
	run      string
	record   *record
	revision uint64
	damaged  error
}

// all yields the records of the agent's turns, the oldest first, and those that
// cannot be read.
func (r *records) all(ctx context.Context, tenant string) iter.Seq2[storedTurn, error] {
	return func(yield func(storedTurn, error) bool) {
		for turn, err := range eachTurn(ctx, r.driver, tenant) {
			if err == nil && turn.damaged == nil && turn.record.Agent != r.agent {
				continue
			}
			if !yield(turn, err) {
				return
			}
		}
	}
}

// eachTurn yields the records of all agents' turns, and those that cannot be read. An
// error of the driver comes last.
func eachTurn(ctx context.Context, driver kv.Driver, tenant string) iter.Seq2[storedTurn, error] {
	return func(yield func(storedTurn, error) bool) {
		for e, err := range kv.EachEntry(ctx, driver, tenant, recordKeys) {
			if err != nil && e.Key == "" {
				yield(storedTurn{}, kverror.Wrap(err, "list turns in the background"))
				return
			}
			rest, _ := e.Key.CutPrefix(recordKeys)
			run, _, _ := rest.CutString()
			turn := storedTurn{run: run, revision: e.Revision}
			if err != nil {
				turn.damaged = kverror.Wrap(err, "read turn %q", run)
			} else {
				turn.record, turn.damaged = decodeTurnRecord(e.Value, run)
			}
			if !yield(turn, nil) {
				return
			}
		}
	}
}

// write stores a record if it is still at revision; code conflict otherwise. A
// record of a turn that has ended leaves the order of its session.
func (r *records) write(ctx context.Context, tenant string, p *record, revision uint64) error {
	return r.writeInOrder(ctx, tenant, p, revision, nil)
}

// writeInOrder is write with a change of the order of the record's session. A nil
// change removes the run if the turn has ended.
func (r *records) writeInOrder(ctx context.Context, tenant string, p *record, revision uint64, change func([]string) ([]string, error)) error {
	value, err := kv.EncodeRecord(p)
	if err != nil {
		return host.Errorf(host.Internal, "write turn %q: %w", p.Run, err)
	}
	tx := kv.Tx{Partition: tenant,
		Conds: []kv.Cond{kv.AtRevision(recordKey(p.Run), revision)}, Writes: []kv.Write{kv.Put(recordKey(p.Run), value)}}
	if change == nil && p.Status.Settled() {
		change = removeFromOrder(p.Run)
	}
	if change != nil {
		err = r.applyInOrder(ctx, tenant, p.Session, tx, change)
	} else {
		_, err = kv.Apply(ctx, r.driver, tx)
	}
	return kverror.Wrap(err, "write turn %q", p.Run)
}

// has reports whether a record is stored as it was just written.
func (r *records) has(ctx context.Context, tenant string, p *record) bool {
	e, err := kv.ReadBack(ctx, r.driver, tenant, recordKey(p.Run))
	if err != nil {
		return false
	}
	stored, err := decodeTurnRecord(e.Value, p.Run)
	return err == nil && stored.Host == p.Host && stored.Attempts == p.Attempts && stored.Heartbeat.Equal(p.Heartbeat)
}

// remove deletes the record of a turn.
func (r *records) remove(ctx context.Context, tenant, session, run string) error {
	tx := kv.Tx{Partition: tenant, Writes: []kv.Write{kv.Delete(recordKey(run))}}
	return kverror.Wrap(r.applyInOrder(ctx, tenant, session, tx, removeFromOrder(run)), "forget turn %q", run)
}

// update changes the record of one attempt of a turn, again when other writers were
// faster. The record of another attempt stays unchanged.
func (r *records) update(ctx context.Context, tenant, run string, attempt int, fn func(*record)) error {
	for {
		p, revision, err := r.read(ctx, tenant, run)
		if err == nil && p != nil && p.Attempts == attempt {
			fn(p)
			err = r.write(ctx, tenant, p, revision)
		}
		if host.CodeOf(err) != host.Conflict {
			return err
		}
	}
}

// order returns the background turns of a session, in order. If the order is damaged,
// it is that of the records of the session's turns, by when they were acknowledged; the
// next change of the order stores it.
func (r *records) order(ctx context.Context, tenant, session string) (runs []string, revision uint64, err error) {
	runs, revision, err = readOrder(ctx, r.driver, tenant, session)
	if host.CodeOf(err) != host.DataLoss {
		return runs, revision, err
	}
	r.logError("the order of the background turns of a session is damaged; it is made again of their records", session, err)
	return orderFromRecords(ctx, r.driver, tenant, session)
}

// anyRevision is the revision of an order whose entry cannot be read at all: a change
// replaces it without a condition.
const anyRevision = math.MaxUint64

// orderFromRecords returns the order of a session whose order is damaged.
func orderFromRecords(ctx context.Context, driver kv.Driver, tenant, session string) (runs []string, revision uint64, err error) {
	revision = anyRevision
	if e, err := kv.Unchecked(driver).Get(ctx, tenant, orderKey(session)); err == nil {
		revision = e.Revision
	}
	var open []*record
	for turn, err := range eachTurn(ctx, driver, tenant) {
		if err != nil {
			return nil, 0, err
		}
		if p := turn.record; turn.damaged == nil && p.Session == session && !p.Status.Settled() {
			open = append(open, p)
		}
	}
	slices.SortStableFunc(open, func(a, b *record) int { return a.Created.Compare(b.Created) })
	for _, p := range open {
		runs = append(runs, p.Run)
	}
	return runs, revision, nil
}

// readOrder reads the stored order of a session.
func readOrder(ctx context.Context, driver kv.Driver, tenant, session string) (runs []string, revision uint64, err error) {
	e, err := driver.Get(ctx, tenant, orderKey(session))
	if errors.Is(err, kv.ErrNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, kverror.Wrap(err, "read the order of session %q", session)
	}
	var o orderRecord
	if err := kv.DecodeRecord(e.Value, &o); err != nil {
		return nil, 0, host.Errorf(host.DataLoss, "the order of session %q is damaged", session).WithHint("restore it from a backup")
	}
	if o.V != recordVersion {
		return nil, 0, host.Errorf(host.FailedPrecondition, "the order of session %q has version %d, which is not known here", session, o.V).
			WithHint("use it with the version that wrote it, or a newer one; nothing was changed")
	}
	return o.Runs, e.Revision, nil
}

// maxOrderTries is how often a change of an order is tried when other writers are
// faster.
const maxOrderTries = 100

// applyInOrder commits tx with a change of a session's order. Code conflict if a
// condition of tx does not hold.
func (r *records) applyInOrder(ctx context.Context, tenant, session string, tx kv.Tx, change func([]string) ([]string, error)) error {
	own, failed := tx, error(nil)
	failedAt, changed := uint64(0), false
	for range maxOrderTries {
		runs, revision, err := r.order(ctx, tenant, session)
		if err != nil {
			return err
		}
		if failed != nil && revision == failedAt && !(changed && revision == 0) { // an absent order may have come and gone
			return failed // not the order has changed: a condition of tx does not hold
		}
		next, err := change(slices.Clone(runs))
		if err != nil {
			return err
		}
		tx.Conds, tx.Writes = slices.Clip(own.Conds), slices.Clip(own.Writes)
		if changed = !slices.Equal(next, runs); changed {
			if revision != anyRevision {
				tx.Conds = append(tx.Conds, kv.AtRevision(orderKey(session), revision))
			}
			w, err := writeOrder(session, next)
			if err != nil {
				return err
			}
			tx.Writes = append(tx.Writes, w)
		}
		_, err = kv.Apply(ctx, r.driver, tx)
		if !errors.Is(err, kv.ErrPrecondition) {
			return err
		}
		failed, failedAt = err, revision
	}
	return failed
}

// writeOrder stores the order of a session; an empty one is deleted.
func writeOrder(session string, runs []string) (kv.Write, error) {
	if len(runs) == 0 {
		return kv.Delete(orderKey(session)), nil
	}
	value, err := kv.EncodeRecord(&orderRecord{V: recordVersion, Runs: runs})
	if err != nil {
		return kv.Write{}, host.Errorf(host.Internal, "write the order of session %q: %w", session, err)
	}
	return kv.Put(orderKey(session), value), nil
}

// addToOrder puts a run at the end of an order.
func addToOrder(session, run string) func([]string) ([]string, error) {
	return func(runs []string) ([]string, error) {
		if len(runs) >= MaxBackgroundOfSession {
			e := host.Errorf(host.ResourceExhausted, "session %.100q has %d turns in the background, as many as the limit MaxBackgroundOfSession allows", session, len(runs)).
				WithHint("try again when one has ended")
			e.Limit, e.RetryAfter = "MaxBackgroundOfSession", retryBackground
			return nil, e
		}
		return append(runs, run), nil
	}
}

// removeFromOrder takes a run out of an order.
func removeFromOrder(run string) func([]string) ([]string, error) {
	return func(runs []string) ([]string, error) {
		return slices.DeleteFunc(runs, func(r string) bool { return r == run }), nil
	}
}

// expired reports whether the process of a turn has ended without its result.
func (r *records) expired(ctx context.Context, p *record) bool {
	switch gone, known := r.hosts.gone(ctx, p); {
	case p.Status.Settled():
		return false
	case p.Released:
		return true
	case known:
		return gone
	}
	return distance(p.Heartbeat) > r.expiry
}

// distance is the time between a stored time and now. After the clock was set back a
// heartbeat lies in the future: its process is not alive because of that.
func distance(t time.Time) time.Duration { return time.Since(t).Abs() }

// snapshot is a record as clients see it.
func (r *records) snapshot(ctx context.Context, p *record) *Snapshot {
	out := &Snapshot{
		ID: SnapshotID(p.Session, p.Run), Session: p.Session, Parent: SnapshotID(p.Session, p.Parent), Agent: p.Agent,
		Status: p.Status, Error: p.Error, Created: p.Created, Heartbeat: p.Heartbeat,
	}
	switch {
	case r.expired(ctx, p):
		out.Status = Expired
	case p.Status == Failed:
		out.FinishReason = chat.FinishFailed
	case p.Status == Aborted:
		out.FinishReason = chat.FinishCanceled
	}
	return out
}

// notResumable is the error for a turn that continues from a background turn that
// has left no snapshot (yet).
func (r *records) notResumable(ctx context.Context, p *record) error {
	id := SnapshotID(p.Session, p.Run)
	switch snap := r.snapshot(ctx, p); snap.Status {
	case Expired:
		return host.Errorf(host.FailedPrecondition, "snapshot %.300q has expired: who ran it is gone", id).
			WithHint("go on from its parent %q, or let a host recover it", snap.Parent)
	case Failed, Aborted:
		return host.Errorf(host.FailedPrecondition, "snapshot %.300q is of a turn that left nothing", id).WithHint("go on from its parent %q", snap.Parent)
	default:
		return host.Errorf(host.FailedPrecondition, "snapshot %.300q is %s", id, snap.Status).WithHint("wait for it, or abort it")
	}
}
