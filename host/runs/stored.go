package runs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/runevent"
)

// The events of durable runs are in the tenant's partition of the journal's store, so that
// they are encrypted, erased and proved to be erased with it:
//
//	runs/owner/<run>            the registry that adds to the events of the run
//	runs/log/<run>              the description of the run
//	runs/event/<run>/<n>        events from number n on, one JSON document a line
//	runs/thread/<thread>/<run>  empty; the runs of a thread that have events
//
// A commit that adds events names the owner: another registry that takes the run over
// replaces it, and the earlier one adds nothing more.
var (
	ownerKeys  = kv.NewKey("runs", "owner")
	logKeys    = kv.NewKey("runs", "log")
	eventKeys  = kv.NewKey("runs", "event")
	threadKeys = kv.NewKey("runs", "thread")
)

// The bounds of the events of a durable run that are in the store.
const (
	MaxStoredEvents = 10_000    // of one run; the oldest are removed beyond
	MaxStoredBytes  = 8 << 20   // of one run; likewise
	MaxStoredEvent  = 256 << 10 // bytes of one event; a longer one is left out
	maxPendingBytes = 4 << 20   // of one run's events between two commits; the oldest are left out beyond
)

const (
	storeEvery   = time.Second      // the least time between two commits of events of one registry
	storeTimeout = 10 * time.Second // of such a commit
	claimTimeout = 10 * time.Second // for the numbers of a run that is taken over
	rowBytes     = 256 << 10        // of events in one entry, about
	txBytes      = 1 << 20          // of entries in one transaction, about
	maxRemoved   = 512              // entries that one commit removes; later ones remove the rest
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

// eventStore keeps the events of the durable runs of a registry. All runs share one commit,
// at most every storeEvery, so that a busy host waits for the disk once. It is safe for
// concurrent use.
type eventStore struct {
	driver  kv.Driver
	journal host.Journal
	host    string // this member of a cluster, if it is one
	keptFor time.Duration
	logger  *slog.Logger

	storing chan struct{} // full during a commit
	timers  sync.WaitGroup

	mu      sync.Mutex
	logs    map[runKey]*runLog
	expired []runKey             // to be removed with the next commit
	swept   map[string]time.Time // when the logs of a tenant that earlier processes left were removed
	timer   *time.Timer          // of the next commit; nil if nothing waits for one
	last    time.Time            // when the last commit began
	closed  bool
}

// journalDriver returns where a journal's store is; nil if it does not say.
func journalDriver(journal host.Journal) kv.Driver {
	switch j := journal.(type) {
	case *Journal:
		return j.store.Driver()
	case interface{ Driver() kv.Driver }:
		return j.Driver()
	}
	return nil
}

// newEventStore returns the store of a registry, nil if its journal has no driver.
func newEventStore(o *Options) *eventStore {
	driver := journalDriver(o.Journal)
	if driver == nil {
		return nil
	}
	member := ""
	if shared, ok := o.Journal.(*Journal); ok {
		member = shared.member.ID()
	}
	return &eventStore{driver: kv.Checked(driver), journal: o.Journal, host: member, keptFor: o.KeptFor, logger: o.Logger, storing: make(chan struct{}, 1), logs: map[runKey]*runLog{}, swept: map[string]time.Time{}}
}

// runLog is the stored events of a live run.
type runLog struct {
	store    *eventStore
	key      runKey // with the partition of the tenant
	owner    []byte
	describe func() *Run
	began    time.Time
	former   uint64 // revision of the owner of an earlier run of that id
	taken    int64  // number of the first event, if an earlier process has begun the run

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
	dropped   bool  // another registry has it, or its thread or tenant is deleted
}

// row is an entry of events.
type row struct {
	first int64
	count int
	bytes int
	lines []byte
}

// begin begins the log of a run whose first event has come, and returns the number of that
// event: 0, or the one after the last that an earlier process has stored. Both results are
// zero for a run that is not durable, and for a store that is nil.
func (s *eventStore) begin(ctx context.Context, run *liveRun, shared *Journal, continued bool) (*runLog, int64) {
	info := run.snapshot()
	if s == nil || !info.Durable && (shared == nil || !shared.owns(info.Tenant, info.ID)) {
		return nil, 0
	}
	l, err := s.open(info, run.snapshot)
	if err != nil {
		return nil, 0
	}
	if !continued {
		l.lookForFormer(ctx)
		return l, 0
	}
	first, err := l.takeOver(ctx)
	if err != nil {
		s.logger.WarnContext(ctx, "the events of a run begin with number 0 again, and are not stored", "run", info.ID, "tenant", info.Tenant, "error", err)
		l.drop()
	}
	return l, first
}

// open begins the log of a run.
func (s *eventStore) open(info *Run, describe func() *Run) (*runLog, error) {
	partition, err := host.TenantPartition(info.Tenant)
	if err != nil {
		return nil, err
	}
	l := &runLog{store: s, key: runKey{partition, info.ID}, owner: []byte(host.NewID()), describe: describe, began: info.Started}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logs[l.key] = l
	return l, nil
}

// lookForFormer notes whether the store has the events of an earlier run of that id. What is
// there later is of a process that has taken this run over.
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

// rows returns the entries of a run without their events.
func (s *eventStore) rows(ctx context.Context, key runKey) (out []row, err error) {
	prefix := eventKeys.With(key.run)
	for e, err := range kv.All(ctx, s.driver, key.tenant, kv.Range{Prefix: prefix}) {
		if err != nil {
			return nil, err
		}
		rest, _ := e.Key.CutPrefix(prefix)
		if first, _, ok := rest.CutUint(); ok {
			out = append(out, row{first: int64(first), count: bytes.Count(e.Value, []byte{'\n'}), bytes: len(e.Value)})
		}
	}
	return out, nil
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
		return // its number is missing in the store, which a reader is told
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

// stop ends the log of a run that another registry continues: what comes after is not part
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
		s.expired = append(s.expired, l.key)
		s.schedule()
	}
}

// schedule has what is pending stored when storeEvery is over. s.mu is held.
func (s *eventStore) schedule() {
	if s.timer != nil || s.closed {
		return
	}
	s.timers.Add(1)
	s.timer = time.AfterFunc(max(storeEvery-time.Since(s.last), storeEvery/10), func() {
		defer s.timers.Done()
		ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
		defer cancel()
		s.flush(ctx)
	})
}

// flush stores what is pending.
func (s *eventStore) flush(ctx context.Context) {
	s.storing <- struct{}{}
	defer func() { <-s.storing }()
	s.mu.Lock()
	if s.timer != nil && s.timer.Stop() {
		s.timers.Done()
	}
	s.timer, s.last = nil, time.Now()
	logs, expired, sweep := slices.Collect(maps.Values(s.logs)), s.expired, s.toSweep(s.last)
	s.expired = nil
	s.mu.Unlock()
	failed := s.commit(ctx, logs)
	for _, key := range expired {
		if s.has(key) { // a run of that id has begun again
			continue
		}
		if err := removeLog(ctx, s.driver, key); err != nil {
			failed = errors.Join(failed, err)
			s.mu.Lock()
			s.expired = append(s.expired, key)
			s.mu.Unlock()
		}
	}
	for _, tenant := range sweep {
		if _, err := s.sweep(ctx, tenant, ""); err != nil {
			failed = errors.Join(failed, err)
		}
	}
	if failed != nil {
		s.logger.WarnContext(ctx, "events of durable runs are not stored yet: a reader of another host may miss them", "error", failed)
		s.mu.Lock()
		s.schedule()
		s.mu.Unlock()
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

// commit stores the pending events of logs in one commit of the driver.
func (s *eventStore) commit(ctx context.Context, logs []*runLog) error {
	var batches []batch
	var all []kv.Tx
	var failed []error
	for _, l := range logs {
		b, err := l.batch(ctx)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		if len(b.txs) > 0 {
			batches, all = append(batches, b), append(all, b.txs...)
		}
	}
	var results []kv.Result
	for some := range slices.Chunk(all, kv.MaxCommitTxs) {
		results = append(results, s.driver.Commit(ctx, some...)...)
	}
	for _, b := range batches {
		failed = append(failed, b.log.stored(&b, results[:len(b.txs)]))
		results = results[len(b.txs):]
	}
	return errors.Join(failed...)
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
	e, err := s.driver.Get(ctx, l.key.tenant, at)
	switch {
	case errors.Is(err, kv.ErrNotFound):
		return kv.Absent(at), nil
	case err != nil:
		return kv.Cond{}, err
	case bytes.Equal(e.Value, l.owner):
		return kv.Fence(at, l.owner), nil
	case e.Revision != l.former:
		return kv.Cond{}, nil
	}
	rec, err := s.read(ctx, l.key)
	if err != nil || rec.Until.IsZero() || rec.Run.Ended.After(l.began) {
		return kv.Cond{}, err
	}
	if err := kv.Remove(ctx, s.driver, l.key.tenant, eventKeys.With(l.key.run)); err != nil {
		return kv.Cond{}, err
	}
	return kv.AtRevision(at, e.Revision), nil
}

// stored takes over the outcome of a commit.
func (l *runLog) stored(b *batch, results []kv.Result) error {
	s := l.store
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range results {
		switch {
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

// drop has the log take and store nothing more.
func (l *runLog) drop() {
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	l.dropped, l.pending, l.size = true, nil, 0
}

// dropTenant forgets the events of a tenant that is being erased. Its runs have ended.
func (s *eventStore) dropTenant(tenant string) {
	if s == nil {
		return
	}
	partition, err := host.TenantPartition(tenant)
	if err != nil {
		return
	}
	s.storing <- struct{}{} // no commit is under way, and none of the tenant follows
	defer func() { <-s.storing }()
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, l := range s.logs {
		if key.tenant == partition {
			l.dropped, l.pending, l.size = true, nil, 0
			delete(s.logs, key)
		}
	}
	s.expired = slices.DeleteFunc(s.expired, func(key runKey) bool { return key.tenant == partition })
	delete(s.swept, partition)
}

// close stores what is pending and ends the store.
func (s *eventStore) close(ctx context.Context) {
	if s == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	s.mu.Lock()
	again := s.closed
	s.closed = true
	s.mu.Unlock()
	if !again {
		s.flush(ctx)
	}
	s.timers.Wait()
}

// isEnd reports whether an event is the last of its run.
func isEnd(ev host.Event) bool {
	_, ended := ev.Data.(*runevent.RunFinished)
	return ended
}

// flushNow stores what is pending before other registries take the runs over.
func (s *eventStore) flushNow(ctx context.Context) {
	if s == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	s.flush(ctx)
}
