package runs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/kv"
)

// logVersion is the version of a [logRecord].
const logVersion = 1

// logRecord describes a run whose events are stored.
type logRecord struct {
	V     int       `json:"v"`
	Run   Run       `json:"run"`
	Host  string    `json:"host,omitempty"`  // the member of a cluster that has the run
	Taken int64     `json:"taken,omitempty"` // number of the first event of the last process that took the run over
	Until time.Time `json:"until,omitzero"`  // when it is removed; zero until the run has ended
}

// runLog is the stored events of a live run.
type runLog struct {
	store    *eventStore
	key      runKey // with the partition of the tenant
	owner    []byte
	describe func() *Run
	began    time.Time
	former   uint64 // revision of the owner of an earlier run of that id
	isNew    bool   // its registry has made the id, so that no earlier run has it; until a commit is refused
	taken    int64  // number of the first event, if an earlier process has begun the run
	content  string // of the run's thread when the run began; "" if the journal's store does not have that

	// Guarded by store.mu.
	pending   []row
	size      int   // bytes of pending
	kept      []row // that are stored, without their events
	owned     bool  // the store names owner
	described bool  // and describes the run
	closed    bool  // takes no further events
	ended     bool  // its run has ended, and not with the process
	recorded  bool  // and the store says so
	detached  bool  // the registry has forgotten the run
	checked   bool  // the thread was there after the first commit, which names it
	dropped   bool  // another registry has it, or its thread or tenant is deleted
}

// row is an entry of events.
type row struct {
	first int64
	count int
	bytes int
	lines []byte
}

// lookForFormer records whether the store has events of an earlier run of that id. Events that
// appear later belong to a process that has taken this run over.
func (l *runLog) lookForFormer(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	if e, err := l.store.driver.Get(ctx, l.key.tenant, ownerKeys.With(l.key.run)); err == nil {
		l.former = e.Revision
	}
}

// takeOver makes the log of a run that another process has begun this registry's, and
// returns the number of the next event: that after the last which is stored.
func (l *runLog) takeOver(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	for {
		next, err := l.tryTakeOver(ctx)
		if err == nil || ctx.Err() != nil {
			return next, err
		}
		select {
		case <-time.After(storeEvery / 4):
		case <-ctx.Done():
			return 0, err
		}
	}
}

func (l *runLog) tryTakeOver(ctx context.Context) (int64, error) {
	put := kv.Tx{Partition: l.key.tenant, Quiet: true, Writes: []kv.Write{kv.Put(ownerKeys.With(l.key.run), l.owner)}}
	if _, err := kv.Apply(ctx, l.store.driver, put); err != nil {
		return 0, err
	}
	rows, err := l.store.rows(ctx, l.key)
	if err != nil {
		return 0, err
	}
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	l.owned, l.kept = true, rows
	if n := len(rows); n > 0 {
		l.taken = rows[n-1].first + int64(rows[n-1].count)
	}
	return l.taken, nil
}

// add has an event stored with the next commit.
func (l *runLog) add(ev host.Event) {
	if l == nil {
		return
	}
	line, err := json.Marshal(ev.ForClient())
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	if l.closed || l.dropped {
		return
	}
	if err != nil || len(line) > MaxStoredEvent {
		return // readers of this number get the error of errNotStored
	}
	l.append(ev.Seq, append(line, '\n'))
	l.store.schedule()
}

// append adds a line to the pending events. store.mu is held.
func (l *runLog) append(number int64, line []byte) {
	last := len(l.pending) - 1
	if last < 0 || l.pending[last].bytes+len(line) > rowBytes || l.pending[last].first+int64(l.pending[last].count) != number {
		l.pending = append(l.pending, row{first: number})
		last++
	}
	r := &l.pending[last]
	r.lines = append(r.lines, line...)
	r.count++
	r.bytes += len(line)
	l.size += len(line)
	for l.size > maxPendingBytes && len(l.pending) > 1 { // the store does not answer, or too slowly
		l.size -= l.pending[0].bytes
		l.pending = l.pending[1:]
	}
}

// stop ends the log of a run that another registry continues: its later events are not part
// of the run.
func (l *runLog) stop() {
	if l == nil {
		return
	}
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	l.closed = true
}

// end ends the log with its run, whose last event is last.
func (l *runLog) end(last *host.Event) {
	if l == nil {
		return
	}
	if last != nil {
		l.add(*last)
	}
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	l.ended = !l.closed
	l.closed = true
	l.store.schedule()
}

// storeEnd stores the end of the log now. Code unavailable if the store does not take it.
func (l *runLog) storeEnd(ctx context.Context) error {
	if l == nil {
		return nil
	}
	l.store.flushNow(ctx)
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	if l.recorded {
		return nil
	}
	return host.Errorf(host.Unavailable, "the end of run %.100q is not stored yet", l.key.run).WithHint("it is tried again when the store answers")
}

// forget ends the log of a run that its registry forgets: the stored events of one that has
// ended are removed with the next commit.
func (l *runLog) forget() {
	if l == nil {
		return
	}
	s := l.store
	s.mu.Lock()
	defer s.mu.Unlock()
	l.detached = true
	if s.logs[l.key] == l && (l.ended || len(l.pending) == 0) {
		delete(s.logs, l.key)
	}
	if l.ended && !l.dropped {
		s.expired = append(s.expired, l)
		s.schedule()
	}
}

// batch is what one commit stores of a run.
type batch struct {
	log   *runLog
	txs   []kv.Tx
	taken []row // from the pending ones
	rows  []row // of these that are stored
	gone  int   // how many of log.kept it removes
	ended bool  // it stores the end of the run
}

// batch returns the transactions that store the pending events of a run.
func (l *runLog) batch(ctx context.Context) (batch, error) {
	s := l.store
	s.mu.Lock()
	rows, owned, described, dropped := slices.Clone(l.pending), l.owned, l.described, l.dropped
	kept, ended := l.kept, l.ended && !l.recorded
	s.mu.Unlock()
	b := batch{log: l, taken: rows, ended: ended}
	if dropped || len(rows) == 0 && !(ended && owned) {
		return b, nil
	}
	first := kv.Tx{Partition: l.key.tenant, Quiet: true}
	if owned {
		first.Conds = []kv.Cond{kv.Fence(ownerKeys.With(l.key.run), l.owner)}
	} else {
		free, err := l.free(ctx)
		if err != nil {
			return b, err
		}
		if first.Conds = []kv.Cond{free}; free.Kind == 0 {
			l.drop()
			return batch{log: l}, nil
		}
		first.Writes = append(first.Writes, kv.Put(ownerKeys.With(l.key.run), l.owner))
	}
	if !described || ended {
		put, err := l.record(ended)
		if err != nil {
			return b, err
		}
		first.Writes = append(first.Writes, put...)
	}
	count, size := 0, 0
	for _, r := range slices.Concat(kept, rows) {
		count, size = count+r.count, size+r.bytes
	}
	tooMany := func(r row) bool {
		if count <= MaxStoredEvents && size <= MaxStoredBytes {
			return false
		}
		count, size = count-r.count, size-r.bytes
		return true
	}
	for b.gone < min(len(kept), maxRemoved) && tooMany(kept[b.gone]) {
		first.Writes = append(first.Writes, kv.Delete(eventKeys.With(l.key.run).WithUint(uint64(kept[b.gone].first))))
		b.gone++
	}
	for len(rows) > 1 && b.gone == len(kept) && tooMany(rows[0]) {
		rows = rows[1:]
	}
	tx := first
	for _, r := range rows {
		if tx.Size()+len(r.lines) > txBytes {
			b.txs = append(b.txs, tx)
			tx = kv.Tx{Partition: l.key.tenant, Quiet: true, Conds: []kv.Cond{kv.Fence(ownerKeys.With(l.key.run), l.owner)}}
		}
		tx.Writes = append(tx.Writes, kv.Put(eventKeys.With(l.key.run).WithUint(uint64(r.first)), r.lines))
	}
	b.txs, b.rows = append(b.txs, tx), rows
	return b, nil
}

// record returns the writes of the description of a run.
func (l *runLog) record(ended bool) ([]kv.Write, error) {
	rec := logRecord{V: logVersion, Run: *l.describe(), Host: l.store.host, Taken: l.taken}
	if rec.Run.Error != nil {
		rec.Run.Error = fault.ForClient(rec.Run.Error, l.key.run)
	}
	if !ended { // also if it has ended here: another process continues it
		rec.Run.Status, rec.Run.Ended, rec.Run.FinishReason, rec.Run.Questions, rec.Run.Error = Running, time.Time{}, "", nil, nil
	} else {
		rec.Until = time.Now().Add(l.store.keptFor).UTC()
	}
	raw, err := kv.EncodeRecord(&rec)
	if err != nil {
		return nil, err
	}
	writes := []kv.Write{kv.Put(logKeys.With(l.key.run), raw)}
	if rec.Run.Thread != "" {
		writes = append(writes, kv.Put(threadKeys.With(rec.Run.Thread, l.key.run), nil))
	}
	return writes, nil
}

// free returns the condition under which a run that has just begun has the events of its
// id: none are there, or those of a run that has ended, which it removes, or it has them
// already by a commit whose outcome was unknown. The zero condition means that another
// registry has them.
func (l *runLog) free(ctx context.Context) (kv.Cond, error) {
	s, at := l.store, ownerKeys.With(l.key.run)
	if l.isNew {
		return kv.Absent(at), nil
	}
	e, err := s.driver.Get(ctx, l.key.tenant, at)
	switch {
	case errors.Is(err, kv.ErrNotFound):
		return kv.Absent(at), nil
	case err != nil:
		return kv.Cond{}, err
	case bytes.Equal(e.Value, l.owner):
		return kv.Fence(at, l.owner), nil
	case bytes.HasPrefix(e.Value, []byte(removerMark)): // of an earlier run, maybe by a process that has ended
		return l.freeAt(ctx, kv.AtRevision(at, e.Revision))
	case e.Revision != l.former:
		return kv.Cond{}, nil
	}
	rec, err := s.read(ctx, l.key)
	if err != nil || rec.Until.IsZero() || rec.Run.Ended.After(l.began) {
		return kv.Cond{}, err
	}
	return l.freeAt(ctx, kv.AtRevision(at, e.Revision))
}

// freeAt removes the events of an earlier run while a condition holds, and returns that.
func (l *runLog) freeAt(ctx context.Context, cond kv.Cond) (kv.Cond, error) {
	return cond, removeEvents(ctx, l.store.driver, l.key, cond)
}

// stored takes over the outcome of a commit.
func (l *runLog) stored(b *batch, results []kv.Result) error {
	s := l.store
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range results {
		switch {
		case errors.Is(r.Err, kv.ErrPrecondition) && l.isNew && !l.owned:
			l.isNew = false // by an earlier commit whose outcome was unknown, or another registry has the run
			return r.Err
		case errors.Is(r.Err, kv.ErrPrecondition):
			l.dropped, l.pending, l.size = true, nil, 0
			return nil
		case r.Err != nil:
			return r.Err // all of it is stored again: the entries are the same
		}
	}
	l.owned, l.described = true, true
	l.kept = slices.Clone(l.kept[b.gone:])
	for _, r := range b.rows {
		l.kept = append(l.kept, row{first: r.first, count: r.count, bytes: r.bytes})
	}
	l.takeStored(b.taken)
	l.recorded = l.recorded || b.ended
	if l.detached && len(l.pending) == 0 && s.logs[l.key] == l {
		delete(s.logs, l.key)
	}
	return nil
}

// takeStored removes events that are stored from the pending ones, of which the last entry
// may have grown meanwhile. store.mu is held.
func (l *runLog) takeStored(rows []row) {
	for _, r := range rows {
		for len(l.pending) > 0 && l.pending[0].first <= r.first {
			p := &l.pending[0]
			if p.first == r.first && p.count > r.count {
				*p = row{first: r.first + int64(r.count), count: p.count - r.count, bytes: p.bytes - r.bytes, lines: p.lines[r.bytes:]}
				l.size -= r.bytes
				break
			}
			l.size -= p.bytes
			l.pending = l.pending[1:]
		}
	}
}

// checkThread removes what the first commit has stored if the run's thread was deleted
// before: that deletion did not find it. A later one does.
func (l *runLog) checkThread(ctx context.Context) error {
	s := l.store
	s.mu.Lock()
	due := l.described && !l.checked && !l.dropped
	s.mu.Unlock()
	if !due {
		return nil
	}
	if l.content != "" {
		info := l.describe()
		content, err := s.threads.ContentOf(ctx, info.Tenant, info.Thread, "")
		if err == nil && content != l.content {
			l.drop()
			err = removeLog(ctx, s.driver, l.key, kv.Fence(ownerKeys.With(l.key.run), l.owner))
		}
		if err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l.checked = true
	return nil
}

// drop has the log take and store nothing more.
func (l *runLog) drop() {
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	l.dropped, l.pending, l.size = true, nil, 0
}
