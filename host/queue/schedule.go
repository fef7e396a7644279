package queue

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/internal/kverror"
	"github.com/agenthost/agenthost/host/kv"
)

// schedule decides which tenant's job runs next: it knows how many jobs each tenant
// has, which of them run here, and when to look for the next ones.
type schedule struct {
	store  *jobStore
	life   *lifetime
	logger *slog.Logger
	most   amount        // of one tenant
	wake   chan struct{} // a job may be due

	mu      sync.Mutex
	tenants map[string]*tenant       // by partition
	loading map[string]chan struct{} // partitions that are being read
	free    int                      // workers
	served  uint64                   // counts the times that a tenant was served
	idle    chan struct{}            // closed, and replaced, whenever a job ends or a search for jobs does
}

// tenant is the state of one tenant's jobs. schedule.mu guards it.
type tenant struct {
	name    string            // of the partition
	amount  amount            // of jobs waiting, held or running
	next    time.Time         // when to look for jobs; zero: not before one is added
	looking bool              // the dispatcher reads the due jobs
	running map[string]string // serials of the jobs that run here, by id
	parked  map[string]bool   // ids of jobs that cannot be read: the next process tries again
	served  uint64            // value of schedule.served when it was served last
	indexed uint64            // revision of its entry in the index when it was read last

	// This process claims neither these serials nor these jobs, by id, for some time.
	blocked map[string]blockedSerial
	foreign map[string]foreignJob
}

// amount is a number of jobs and how many bytes their payloads, names, keys and serials
// have.
type amount struct {
	jobs  int
	bytes int64
}

func (a amount) plus(b amount) amount { return amount{a.jobs + b.jobs, a.bytes + b.bytes} }

// minus does not go below zero: several processes may count the same job as gone.
func (a amount) minus(b amount) amount {
	return amount{max(a.jobs-b.jobs, 0), max(a.bytes-b.bytes, 0)}
}

// blockedSerial is a serial with a job that a live process has claimed. Until then this
// process claims no other job of the serial.
type blockedSerial struct {
	job   string // the id of the claimed one
	until time.Time
}

// foreignJob is a job whose lease is over although its holder lives: the holder has
// until then to renew it.
type foreignJob struct {
	revision uint64 // of the record
	until    time.Time
}

func newSchedule(store *jobStore, life *lifetime, opts *Options) *schedule {
	return &schedule{store: store, life: life, logger: opts.Logger, most: amount{opts.MaxPerTenant, opts.MaxBytes}, wake: make(chan struct{}, 1),
		tenants: map[string]*tenant{}, loading: map[string]chan struct{}{}, free: opts.Workers, idle: make(chan struct{})}
}

// dueAt reports whether a job may be due.
func (t *tenant) dueAt(now time.Time) bool { return !t.next.IsZero() && !t.next.After(now) }

// lookAt sets the next search for jobs, no later than at. schedule.mu is held.
func (t *tenant) lookAt(at time.Time) {
	if t.next.IsZero() || at.Before(t.next) {
		t.next = at
	}
}

// wakeDispatcher lets the dispatcher look for jobs.
func (s *schedule) wakeDispatcher() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// jobDue says that a job of a tenant is due at a time.
func (s *schedule) jobDue(t *tenant, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.lookAt(at)
	s.wakeDispatcher()
}

// announce is jobDue for a job that was just added: if this process runs no jobs,
// the processes that do learn of it from the index.
func (s *schedule) announce(ctx context.Context, t *tenant, at time.Time) {
	s.jobDue(t, at)
	if s.life.runsJobs() {
		return
	}
	if _, err := s.store.index(ctx, t.name); err != nil {
		s.logger.WarnContext(ctx, "who runs jobs is not told of one", "tenant", t.name, "error", err)
	}
}

// tenantNamed returns the state of the tenant that a caller names.
func (s *schedule) tenantNamed(ctx context.Context, name string) (*tenant, error) {
	partition, err := host.TenantPartition(name)
	if err != nil {
		return nil, err
	}
	return s.tenant(ctx, partition, 0)
}

// tenant returns the state of a partition's tenant, read from the store the first time.
// indexed is the revision of the tenant's entry in the index, 0 if it is not known.
func (s *schedule) tenant(ctx context.Context, partition string, indexed uint64) (*tenant, error) {
	for {
		s.mu.Lock()
		if t := s.tenants[partition]; t != nil {
			s.mu.Unlock()
			return t, nil
		}
		wait := s.loading[partition]
		if wait == nil {
			wait = make(chan struct{})
			s.loading[partition] = wait
			s.mu.Unlock()
			return s.readTenant(ctx, partition, indexed, wait)
		}
		s.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, kverror.Wrap(ctx.Err(), "wait for the queue")
		}
	}
}

// readTenant counts the jobs that earlier processes have left of a tenant, and puts the
// tenant into the index.
func (s *schedule) readTenant(ctx context.Context, partition string, indexed uint64, done chan struct{}) (*tenant, error) {
	t := &tenant{name: partition, running: map[string]string{}, parked: map[string]bool{}, indexed: indexed,
		blocked: map[string]blockedSerial{}, foreign: map[string]foreignJob{}}
	due, first, err := s.store.countDue(ctx, partition)
	held := amount{}
	if err == nil {
		held, err = s.store.countHeld(ctx, partition)
	}
	t.amount, t.next = due.plus(held), first
	if err == nil && indexed == 0 {
		t.indexed, err = s.store.index(ctx, partition)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.loading, partition)
	close(done)
	if err != nil {
		return nil, kverror.Wrap(err, "read the queue")
	}
	s.tenants[partition] = t
	if !t.next.IsZero() {
		s.wakeDispatcher()
	}
	return t, nil
}

// forget forgets a tenant without running jobs here. It reports whether it did.
func (s *schedule) forget(partition string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tenants[partition]
	if t == nil {
		return true
	}
	if len(t.running) > 0 || t.looking {
		return false
	}
	delete(s.tenants, partition)
	return true
}

// countNew counts a new job of a tenant. Code resource_exhausted if the tenant has too
// many, or too many bytes.
func (s *schedule) countNew(t *tenant, job amount) error {
	if s.life.isClosed() {
		return errClosed()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	total := t.amount.plus(job)
	switch {
	case total.jobs > s.most.jobs:
		return &host.Error{Code: host.ResourceExhausted, Retryable: true,
			Message: fmt.Sprintf("the queue has as many jobs of the tenant as it takes: %d (MaxPerTenant)", s.most.jobs), Hint: "try again when some are done"}
	case total.bytes > s.most.bytes:
		return &host.Error{Code: host.ResourceExhausted, Retryable: true,
			Message: fmt.Sprintf("the jobs of the tenant in the queue have %d bytes, and with this one %d, more than %d (MaxBytes)", t.amount.bytes, total.bytes, s.most.bytes),
			Hint:    "try again when some are done, or leave jobs the names of what they need, such as artifacts'"}
	}
	t.amount = total
	return nil
}

// countGone counts jobs of a tenant that the queue has no longer.
func (s *schedule) countGone(t *tenant, gone amount) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.amount = t.amount.minus(gone)
}

// amountOf returns how many jobs of a tenant wait, are held or run.
func (s *schedule) amountOf(t *tenant) amount {
	s.mu.Lock()
	defer s.mu.Unlock()
	return t.amount
}

// recount sets which jobs a tenant has after other processes have added some: found
// in the store, where it had before when that was read. It is for a shared store;
// otherwise only the next search is set.
func (s *schedule) recount(t *tenant, found, before amount, shared bool, keepForeign time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if shared {
		t.amount = found.plus(t.amount).minus(before)
	}
	now := time.Now()
	t.lookAt(now)
	maps.DeleteFunc(t.blocked, func(_ string, b blockedSerial) bool { return b.until.Before(now) })
	maps.DeleteFunc(t.foreign, func(_ string, f foreignJob) bool { return now.Sub(f.until) > keepForeign }) // that job is over
	s.wakeDispatcher()
}

// indexChanged reports whether another process has written a tenant's entry in the
// index since this process has read it.
func (s *schedule) indexChanged(t *tenant, revision uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := t.indexed != revision
	t.indexed = revision
	return changed
}

// nextTenant returns the tenant to serve: of those with a job due that have fewer jobs
// running than there are free workers, the one with the fewest, and among equals the
// one that was served the longest ago. With a nil tenant comes the time of the next
// search, if there is one.
func (s *schedule) nextTenant() (best *tenant, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for _, t := range s.tenants {
		switch {
		case t.next.IsZero():
		case t.next.After(now):
			if at.IsZero() || t.next.Before(at) {
				at = t.next
			}
		case len(t.running) >= s.free: // a job that ends wakes the dispatcher
		case best == nil, len(t.running) < len(best.running), len(t.running) == len(best.running) && t.served < best.served:
			best = t
		}
	}
	if best != nil {
		s.served++
		best.served = s.served
	}
	return best, at
}

// lookAhead is how many jobs of a tenant are read beyond those that run, to find one
// whose serial is free.
const lookAhead = 100

// beginSearch starts a search for a job of a tenant, and returns how many entries to
// read.
func (s *schedule) beginSearch(t *tenant) (limit int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.looking = true
	t.next = time.Time{} // a job that is added meanwhile sets it
	return min(len(t.running)+len(t.parked)+lookAhead, kv.MaxScanLimit)
}

// failSearch ends a search whose read failed.
func (s *schedule) failSearch(t *tenant, again time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.looking = false
	t.lookAt(again)
	s.progressed()
}

// waitingJob is the entry of a due job.
type waitingJob struct {
	id, serial string
	key        kv.Key
	revision   uint64 // of the entry
}

// endSearch picks the first job that can run from the entries of a search, and gives it
// a worker. With nil, the next search is set.
func (s *schedule) endSearch(t *tenant, entries []kv.Entry) *waitingJob {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.progressed()
	t.looking = false
	serials := map[string]bool{}
	for _, serial := range t.running {
		serials[serial] = serial != ""
	}
	now := time.Now()
	for _, e := range entries {
		at, rest, _ := cutTimed(e.Key, dueKeys)
		id, _, ok := rest.CutString()
		if !ok {
			continue // not an entry of this package
		}
		if _, runs := t.running[id]; runs || t.parked[id] {
			continue
		}
		if at.After(now) {
			t.lookAt(at)
			return nil
		}
		serial, _, _ := cutPlace(e.Value)
		if serials[serial] || t.leftToOthers(id, serial, now) {
			continue
		}
		t.running[id] = serial
		t.lookAt(now) // there may be more
		s.free--
		return &waitingJob{id: id, serial: serial, key: e.Key, revision: e.Revision}
	}
	return nil // a job that ends sets the next search
}

// leftToOthers reports whether a job, or another one of its serial, is left to another
// process for now. schedule.mu is held.
func (t *tenant) leftToOthers(id, serial string, now time.Time) bool {
	until := t.foreign[id].until
	switch b, blocked := t.blocked[serial]; {
	case !blocked:
	case !b.until.After(now):
		delete(t.blocked, serial)
	case b.job != id && b.until.After(until):
		until = b.until
	}
	if !until.After(now) {
		return false
	}
	t.lookAt(until)
	return true
}

// finish frees the worker of a job. gone is the job if the queue has it no longer.
func (s *schedule) finish(t *tenant, id string, gone amount) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(t.running, id)
	s.free++
	t.amount = t.amount.minus(gone)
	t.lookAt(time.Now())
	s.progressed()
	s.wakeDispatcher()
}

// park leaves a job that cannot be read to the next process.
func (s *schedule) park(t *tenant, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.parked[id] = true
}

// blockSerial has this process claim no job of a serial but the given one until then.
func (s *schedule) blockSerial(t *tenant, serial, job string, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.blocked[serial] = blockedSerial{job: job, until: until}
}

// mayClaim reports whether a job whose lease is over may be claimed. A job whose holder
// lives (held) is left to it for another lease.
func (s *schedule) mayClaim(t *tenant, id string, revision uint64, held bool, lease time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, seen := t.foreign[id]
	switch {
	case !held, seen && f.revision == revision && !f.until.After(time.Now()):
		delete(t.foreign, id)
		return true
	case !seen || f.revision != revision:
		t.foreign[id] = foreignJob{revision: revision, until: time.Now().Add(lease)}
	}
	return false
}

// busy reports whether a job runs or is due, or may be; progress is closed when that
// may have changed.
func (s *schedule) busy() (busy bool, progress <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for _, t := range s.tenants {
		if len(t.running) > 0 || t.looking || t.dueAt(now) {
			return true, s.idle
		}
	}
	return false, s.idle
}

// progressed lets those that wait in Drain look again. The mutex is held.
func (s *schedule) progressed() {
	close(s.idle)
	s.idle = make(chan struct{})
}
