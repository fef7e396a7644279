package runs

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
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

// eventStore keeps the events of the durable runs of a registry. All runs share one commit,
// at most every storeEvery, so that a busy host waits for the disk once. It is safe for
// concurrent use.
type eventStore struct {
	driver  kv.Driver
	journal host.Journal
	threads threadKeeper // nil if the journal's store keeps no threads
	host    string       // this member of a cluster, if it is one
	keptFor time.Duration
	logger  *slog.Logger

	storing chan struct{} // full during a commit
	timers  sync.WaitGroup

	mu      sync.Mutex
	logs    map[runKey]*runLog
	expired []*runLog            // to be removed with the next commit
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

// threadKeeper is a journal's store that keeps threads as well, such as a threads.Store.
type threadKeeper interface {
	// ContentOf returns the name of a thread's content, which no later thread of the id has;
	// "" for a thread that does not exist. With the id of an open run, which may be "", it may
	// be the content with which that run has begun.
	ContentOf(ctx context.Context, tenant, thread, run string) (string, error)
}

// threadsOf returns the threads beside a journal; nil if the store keeps no threads.
func threadsOf(journal host.Journal) threadKeeper {
	if j, ok := journal.(*Journal); ok {
		keeper, _ := j.store.(threadKeeper)
		return keeper
	}
	keeper, _ := journal.(threadKeeper)
	return keeper
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
	return &eventStore{driver: kv.Checked(driver), journal: o.Journal, threads: threadsOf(o.Journal), host: member, keptFor: o.KeptFor, logger: o.Logger, storing: make(chan struct{}, 1), logs: map[runKey]*runLog{}, swept: map[string]time.Time{}}
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
	if s.threads != nil && info.Thread != "" {
		l.content, _ = s.threads.ContentOf(ctx, info.Tenant, info.Thread, info.ID)
	}
	if !continued {
		if l.isNew = run.isNew; !l.isNew {
			l.lookForFormer(ctx)
		}
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

// schedule starts the timer of the next commit, at least storeEvery after the last one. s.mu is
// held.
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

// flush commits the events that wait in the logs of all runs, and removes the logs whose time
// is over.
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
	for _, l := range expired {
		if err := removeLog(ctx, s.driver, l.key, kv.Fence(ownerKeys.With(l.key.run), l.owner)); err != nil {
			failed = errors.Join(failed, err)
			s.mu.Lock()
			s.expired = append(s.expired, l)
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
	for _, l := range logs {
		failed = append(failed, l.checkThread(ctx))
	}
	return errors.Join(failed...)
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
	s.expired = slices.DeleteFunc(s.expired, func(l *runLog) bool { return l.key.tenant == partition })
	delete(s.swept, partition)
}

// close commits the events that wait, and ends the store.
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

// flushNow commits the events that wait before other registries take the runs over.
func (s *eventStore) flushNow(ctx context.Context) {
	if s == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	s.flush(ctx)
}
