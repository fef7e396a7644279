package queue

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host/internal/kverror"
	"github.com/agenthost/agenthost/host/kv"
)

// holderRecord says that a holder lives. Every write of it is a heartbeat.
type holderRecord struct {
	V     int           `json:"v"`
	Until time.Time     `json:"until"` // by the holder's clock
	Lease time.Duration `json:"lease"`
}

// holders are the processes with a queue on the store. Each holds the jobs that its
// handlers run, and those that wait for its runs, and writes heartbeats. The jobs of a
// holder that has written none for its lease are free for all others.
type holders struct {
	driver kv.Driver
	life   *lifetime
	logger *slog.Logger
	self   string // the id of this process
	lease  time.Duration

	registering sync.Mutex
	registered  bool // this process has written its record

	mu     sync.Mutex
	peers  map[string]*peer
	shared bool // there were peers
}

// peer is another holder as this process has seen it.
type peer struct {
	revision uint64 // of its last heartbeat
	seen     time.Time
	lease    time.Duration
	lapsed   bool // when it was seen first
}

// lives reports whether a peer has written a heartbeat within its lease. The time is
// that for which this process has waited for the next one: clocks that jump make no
// peer dead, except one that was never seen alive.
func (p *peer) lives(now time.Time) bool { return !p.lapsed && now.Sub(p.seen) <= p.lease }

// register writes that this process is a holder, the first time that it holds a job,
// and keeps writing that until the queue is closed.
func (h *holders) register(ctx context.Context) error {
	h.registering.Lock()
	defer h.registering.Unlock()
	if h.registered {
		return nil
	}
	if err := h.beat(ctx); err != nil {
		return kverror.Wrap(err, "register with the queue")
	}
	if err := h.life.run(h.keepBeating, nil); err != nil {
		return err // and the heartbeat lapses
	}
	h.registered = true
	return nil
}

// beat writes a heartbeat.
func (h *holders) beat(ctx context.Context) error {
	raw, err := kv.EncodeRecord(&holderRecord{V: layout, Until: time.Now().Add(h.lease).UTC(), Lease: h.lease})
	if err != nil {
		return err
	}
	_, err = kv.Apply(ctx, h.driver, kv.Tx{Partition: indexPartition, Writes: []kv.Write{kv.Put(holderKeys.With(h.self), raw)}})
	return err
}

// keepBeating writes heartbeats, and removes the last one at the end.
func (h *holders) keepBeating() {
	tick := time.NewTicker(h.lease / renewals)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := h.beat(h.life.ctx); err != nil && !h.life.over() {
				h.logger.Warn("a sign of life of the queue is not written", "error", err)
			}
		case <-h.life.ctx.Done():
			h.remove(context.WithoutCancel(h.life.ctx), h.self, 0)
			return
		}
	}
}

// remove removes the record of a holder: at a revision, if that is not 0.
func (h *holders) remove(ctx context.Context, id string, revision uint64) {
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	tx := kv.Tx{Partition: indexPartition, Writes: []kv.Write{kv.Delete(holderKeys.With(id))}}
	if revision > 0 {
		tx.Conds = []kv.Cond{kv.AtRevision(holderKeys.With(id), revision)}
	}
	_, err := kv.Apply(ctx, h.driver, tx)
	if err != nil && !errors.Is(err, kv.ErrPrecondition) && !errors.Is(err, kv.ErrClosed) {
		h.logger.Warn("a holder of jobs is not removed", "holder", id, "error", err)
	}
}

// live reports whether another holder lives, as far as this process has seen.
func (h *holders) live(id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.peers[id]
	return p != nil && p.lives(time.Now())
}

// isShared reports whether other processes had a queue on the store.
func (h *holders) isShared() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.shared
}

// isStored reports whether the store has a holder that this process has not seen alive:
// one that began after the last look, or one that will be seen dead.
func (h *holders) isStored(ctx context.Context, id string) (bool, error) {
	_, err := h.driver.Get(ctx, indexPartition, holderKeys.With(id))
	if errors.Is(err, kv.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// observe reads the heartbeats. It reports whether a peer has died.
func (h *holders) observe(ctx context.Context) (fewer bool, err error) {
	found := map[string]bool{}
	lapsed := map[string]uint64{}
	for e, err := range kv.All(ctx, h.driver, indexPartition, kv.Range{Prefix: holderKeys, Limit: kv.MaxScanLimit}) {
		if err != nil {
			return false, kverror.Wrap(err, "read who holds jobs")
		}
		rest, _ := e.Key.CutPrefix(holderKeys)
		id, _, ok := rest.CutString()
		if !ok || id == h.self {
			continue
		}
		found[id] = true
		if h.see(id, e) {
			lapsed[id] = e.Revision
		}
	}
	h.mu.Lock()
	for id := range h.peers {
		if !found[id] || lapsed[id] > 0 {
			delete(h.peers, id)
			fewer = true
		}
	}
	h.mu.Unlock()
	for id, revision := range lapsed {
		h.remove(ctx, id, revision)
	}
	return fewer, nil
}

// see records a heartbeat, and reports whether the holder is dead.
func (h *holders) see(id string, e kv.Entry) (dead bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now, p := time.Now(), h.peers[id]
	if p == nil || p.revision != e.Revision {
		r := &holderRecord{}
		if kv.DecodeRecord(e.Value, r) != nil || r.Lease <= 0 {
			r.Lease, r.Until = h.lease, now.Add(h.lease) // of another version: taken for one of this lease
		}
		first := p == nil
		p = &peer{revision: e.Revision, seen: now, lease: r.Lease, lapsed: first && !r.Until.After(now)}
		h.peers[id] = p
	}
	h.shared = h.shared || p.lives(now)
	return !p.lives(now)
}
