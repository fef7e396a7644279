package queue

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/agenthost/agenthost/host/internal/kverror"
	"github.com/agenthost/agenthost/host/kv"
)

// Several processes may have a queue on one store, each a holder: of the jobs that
// its handlers run, and of those that wait for its runs. A holder says every now
// and then that it lives. What one holds that has not said so for its lease is
// everybody's.

// holderRecord says that a holder lives. Every write of it is a sign of life.
type holderRecord struct {
	V     int           `json:"v"`
	Until time.Time     `json:"until"` // by the holder's clock
	Lease time.Duration `json:"lease"`
}

// peer is a holder as this process has seen it.
type peer struct {
	revision uint64 // of its last sign of life
	seen     time.Time
	lease    time.Duration
	lapsed   bool // when it was seen first
}

// lives reports whether a peer has said that it lives no longer ago than its lease.
// What counts is how long this process has waited for the next sign: clocks that
// jump make nobody dead, but for one who was never seen to live.
func (p *peer) lives(now time.Time) bool { return !p.lapsed && now.Sub(p.seen) <= p.lease }

// beAHolder writes that this process is a holder, the first time that it holds
// something, and has it written again until the queue is closed.
func (q *Queue) beAHolder(ctx context.Context) error {
	q.holding.Lock()
	defer q.holding.Unlock()
	if q.holder {
		return nil
	}
	if err := q.beat(ctx); err != nil {
		return kverror.Wrap(err, "register with the queue")
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return errClosed() // and the sign of life lapses
	}
	q.holder = true
	q.workers.Go(q.keepBeating)
	return nil
}

// beat is a sign of life.
func (q *Queue) beat(ctx context.Context) error {
	raw, err := kv.EncodeRecord(&holderRecord{V: layout, Until: time.Now().Add(q.opts.Lease).UTC(), Lease: q.opts.Lease})
	if err != nil {
		return err
	}
	_, err = kv.Apply(ctx, q.driver, kv.Tx{Partition: indexPartition, Writes: []kv.Write{kv.Put(holderKeys.With(q.id), raw)}})
	return err
}

// keepBeating gives signs of life, and takes the last one back at the end.
func (q *Queue) keepBeating() {
	tick := time.NewTicker(q.opts.Lease / renewals)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := q.beat(q.ctx); err != nil && q.ctx.Err() == nil {
				q.opts.Logger.Warn("a sign of life of the queue is not written", "error", err)
			}
		case <-q.ctx.Done():
			q.forget(context.WithoutCancel(q.ctx), q.id, 0)
			return
		}
	}
}

// forget removes a holder: at a revision, if that is not 0.
func (q *Queue) forget(ctx context.Context, id string, revision uint64) {
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	tx := kv.Tx{Partition: indexPartition, Writes: []kv.Write{kv.Delete(holderKeys.With(id))}}
	if revision > 0 {
		tx.Conds = []kv.Cond{kv.AtRevision(holderKeys.With(id), revision)}
	}
	_, err := kv.Apply(ctx, q.driver, tx)
	if err != nil && !errors.Is(err, kv.ErrPrecondition) && !errors.Is(err, kv.ErrClosed) {
		q.opts.Logger.Warn("a holder of jobs is not removed", "holder", id, "error", err)
	}
}

// lives reports whether another holder lives, as far as this process has seen.
func (q *Queue) lives(id string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	p := q.peers[id]
	return p != nil && p.lives(time.Now())
}

// watch sees who lives and who does not, and decides what becomes of what nobody
// holds, until the queue is closed. That somebody lives no more is seen once: what
// that one has left is looked for until it could be read.
func (q *Queue) watch() {
	tick := time.NewTicker(min(q.opts.HeldPoll, q.opts.Lease/renewals))
	defer tick.Stop()
	var swept time.Time
	for all := true; ; {
		fewer, err := q.observe(q.ctx)
		if err != nil && q.ctx.Err() == nil {
			q.opts.Logger.Warn("who else runs jobs cannot be read", "error", err)
		}
		all = all || fewer
		if err == nil && (all || time.Since(swept) >= q.opts.HeldPoll) {
			if err := q.sweep(all); err != nil && q.ctx.Err() == nil {
				q.opts.Logger.Error("what other processes have left cannot be read", "error", err)
			} else {
				swept, all = time.Now(), false
			}
			q.decideOrphans()
		}
		select {
		case <-tick.C:
		case <-q.ctx.Done():
			return
		}
	}
}

// observe reads the signs of life. It reports whether somebody lives no more.
func (q *Queue) observe(ctx context.Context) (fewer bool, err error) {
	found := map[string]bool{}
	lapsed := map[string]uint64{}
	for e, err := range kv.All(ctx, q.driver, indexPartition, kv.Range{Prefix: holderKeys, Limit: kv.MaxScanLimit}) {
		if err != nil {
			return false, kverror.Wrap(err, "read who holds jobs")
		}
		rest, _ := e.Key.CutPrefix(holderKeys)
		id, _, ok := rest.CutString()
		if !ok || id == q.id {
			continue
		}
		found[id] = true
		if q.see(id, e) {
			lapsed[id] = e.Revision
		}
	}
	q.mu.Lock()
	for id := range q.peers {
		if !found[id] || lapsed[id] > 0 {
			delete(q.peers, id)
			fewer = true
		}
	}
	q.mu.Unlock()
	for id, revision := range lapsed {
		q.forget(ctx, id, revision)
	}
	return fewer, nil
}

// see notes a sign of life, and reports whether the holder is dead.
func (q *Queue) see(id string, e kv.Entry) (dead bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now, p := time.Now(), q.peers[id]
	if p == nil || p.revision != e.Revision {
		r := &holderRecord{}
		if kv.DecodeRecord(e.Value, r) != nil || r.Lease <= 0 {
			r.Lease, r.Until = q.opts.Lease, now.Add(q.opts.Lease) // of another version, which lives as we do
		}
		first := p == nil
		p = &peer{revision: e.Revision, seen: now, lease: r.Lease, lapsed: first && !r.Until.After(now)}
		q.peers[id] = p
	}
	q.shared = q.shared || p.lives(now)
	return !p.lives(now)
}

// sweep looks at the tenants of the index. With all, or while there are other
// holders, it looks at each, otherwise at those that somebody else has pointed to.
func (q *Queue) sweep(all bool) error {
	q.mu.Lock()
	all = all || q.shared
	q.mu.Unlock()
	for e, err := range kv.All(q.ctx, q.driver, indexPartition, kv.Range{Prefix: tenantKeys, Limit: kv.MaxScanLimit}) {
		if err != nil {
			return kverror.Wrap(err, "read whose jobs there are")
		}
		rest, _ := e.Key.CutPrefix(tenantKeys)
		name, _, ok := rest.CutString()
		if !ok || name == "" {
			continue // not ours
		}
		t, err := q.tenantIn(q.ctx, name, e.Revision)
		if err != nil {
			return err
		}
		if q.pointedTo(t, e.Revision) || all {
			if err := q.reread(t); err != nil {
				return err
			}
		}
	}
	return nil
}

// pointedTo reports whether somebody has written a tenant's entry in the index
// since this process has seen it.
func (q *Queue) pointedTo(t *tenant, revision uint64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	pointed := t.indexed != revision
	t.indexed = revision
	return pointed
}

// point has the processes that run jobs look at a tenant, from one that runs none.
func (q *Queue) point(ctx context.Context, t *tenant) {
	q.mu.Lock()
	runs := q.started && !q.closed
	q.mu.Unlock()
	if runs {
		return
	}
	_, err := kv.Apply(ctx, q.driver, kv.Tx{Partition: indexPartition, Writes: []kv.Write{kv.Put(tenantKeys.With(t.name), nil)}})
	if err != nil {
		q.opts.Logger.Warn("who runs jobs is not told of one", "tenant", t.name, "error", err)
	}
}

// reread has what other processes have left of a tenant's jobs looked at: what is
// due, and what waits for runs whose holders live no more.
func (q *Queue) reread(t *tenant) error {
	q.mu.Lock()
	before := t.jobs
	q.mu.Unlock()
	due, _, err := q.countDue(q.ctx, t)
	if err != nil {
		return kverror.Wrap(err, "read the queue")
	}
	held, lost, err := q.readHeld(q.ctx, t)
	if err != nil {
		return kverror.Wrap(err, "read the queue")
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.shared {
		t.jobs = max(due+held+t.jobs-before, 0)
	}
	now := time.Now()
	t.lookAt(now)
	maps.DeleteFunc(t.blocked, func(_ string, until time.Time) bool { return until.Before(now) })
	maps.DeleteFunc(t.others, func(_ string, o othersJob) bool { return now.Sub(o.until) > q.opts.HeldPoll }) // it is over
	for _, h := range lost {
		q.adopt(t, h)
	}
	q.poke()
	return nil
}

// readHeld counts the jobs of a tenant that wait for runs, and returns those whose
// holder lives no more.
func (q *Queue) readHeld(ctx context.Context, t *tenant) (n int, lost []heldJob, err error) {
	for e, err := range kv.All(ctx, q.driver, t.name, kv.Range{Prefix: heldKeys, Limit: kv.MaxScanLimit}) {
		if err != nil {
			return 0, nil, err
		}
		rest, _ := e.Key.CutPrefix(heldKeys)
		id, _, ok := rest.CutString()
		if !ok {
			continue
		}
		n++
		if holder := string(e.Value); holder == q.id || q.lives(holder) {
			continue
		}
		if known, err := q.registered(ctx, string(e.Value)); err != nil {
			return 0, nil, err
		} else if known {
			continue
		}
		r, _, err := q.load(ctx, t.name, id)
		if unreadable(err) {
			q.opts.Logger.Error("a held job cannot be read, and stays", "tenant", t.name, "job", id, "error", err)
			continue
		}
		if err != nil {
			return 0, nil, err
		}
		if r != nil {
			lost = append(lost, heldJob{id: id, scope: r.Scope, record: r, revision: e.Revision})
		}
	}
	return n, lost, nil
}

// registered reports whether a holder is in the store that this process does not know
// to live: one that has begun since it looked, or that it will see dead.
func (q *Queue) registered(ctx context.Context, holder string) (bool, error) {
	_, err := q.driver.Get(ctx, indexPartition, holderKeys.With(holder))
	if errors.Is(err, kv.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}
