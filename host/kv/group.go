package kv

import (
	"context"
	"fmt"
	"sync"
)

// MaxGroupBytes bounds the Txs that [Group] commits together, as [Tx.Size] has
// it. One Commit that is larger goes alone.
const MaxGroupBytes = 8 << 20

// Group returns a driver over d that commits together what waits to be
// committed. While one group is written the next one gathers, so a store that
// syncs once a Commit syncs once for the whole group; a Tx that comes while no group
// is written does not wait. Each Tx has the result that it would
// have alone, and Close closes d.
//
// Partitions take turns in a group: one with many writers does not hold up
// another's. A Commit whose context ends while it waits writes nothing; once its
// group is being written it stays for the outcome.
func Group(d Driver) Driver {
	return &grouped{Driver: d, queues: map[string][]*waiting{}}
}

type grouped struct {
	Driver

	mu      sync.Mutex
	leading bool                  // a waiter writes, or was chosen to
	queues  map[string][]*waiting // by partition
	order   []string              // the partitions that wait, in the order of their turns
}

// waiting is one Commit.
type waiting struct {
	ctx     context.Context
	txs     []Tx
	bytes   int
	lead    chan struct{} // closed when it is to write the next group
	told    bool          // lead is closed
	taken   bool          // it is in a group
	done    chan struct{} // closed when results are there
	results []Result
}

// Commit implements [Driver].
func (g *grouped) Commit(ctx context.Context, txs ...Tx) []Result {
	if len(txs) == 0 || len(txs) > MaxCommitTxs || ctx.Err() != nil {
		return g.Driver.Commit(ctx, txs...)
	}
	w := &waiting{ctx: ctx, txs: txs, lead: make(chan struct{}), done: make(chan struct{})}
	for _, tx := range txs {
		w.bytes += tx.Size()
	}
	g.mu.Lock()
	g.enqueue(w)
	first := !g.leading
	g.leading = true
	g.mu.Unlock()
	if first {
		g.write()
	}
	return g.await(ctx, w)
}

// await waits until w is written, and leads if w is chosen to.
func (g *grouped) await(ctx context.Context, w *waiting) []Result {
	for {
		select {
		case <-w.done:
			return w.results
		case <-w.lead:
			g.heard(w)
			g.write()
		case <-ctx.Done():
			if g.leave(w) {
				return ended(len(w.txs), ctx.Err())
			}
			<-w.done
			return w.results
		}
	}
}

// heard makes that w can be told to lead again, should its group be full before
// its own turn.
func (g *grouped) heard(w *waiting) {
	g.mu.Lock()
	defer g.mu.Unlock()
	w.lead, w.told = make(chan struct{}), false
}

func ended(n int, err error) []Result {
	results := make([]Result, n)
	for i := range results {
		results[i].Err = fmt.Errorf("commit: %w", err)
	}
	return results
}

// leave takes w out of its queue and reports whether it was in it. If it was to
// lead, another does.
func (g *grouped) leave(w *waiting) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if w.taken {
		return false
	}
	partition := w.txs[0].Partition
	queue := g.queues[partition]
	for i, other := range queue {
		if other == w {
			g.queues[partition] = append(queue[:i:i], queue[i+1:]...)
		}
	}
	if len(g.queues[partition]) == 0 {
		g.forget(partition)
	}
	if w.told {
		g.tell()
	}
	return true
}

func (g *grouped) enqueue(w *waiting) {
	partition := w.txs[0].Partition
	if g.queues[partition] == nil {
		g.order = append(g.order, partition)
	}
	g.queues[partition] = append(g.queues[partition], w)
}

func (g *grouped) forget(partition string) {
	delete(g.queues, partition)
	for i, p := range g.order {
		if p == partition {
			g.order = append(g.order[:i:i], g.order[i+1:]...)
			return
		}
	}
}

// tell has the next in line write the next group. The lock is held.
func (g *grouped) tell() {
	if len(g.order) == 0 {
		g.leading = false
		return
	}
	next := g.queues[g.order[0]][0]
	if !next.told {
		next.told = true
		close(next.lead)
	}
}

// take returns the next group: from each partition in turn the longest waiting, until
// the group is full. The lock is held.
func (g *grouped) take() (group []*waiting) {
	txs, bytes := 0, 0
	for len(g.order) > 0 {
		partition := g.order[0]
		w := g.queues[partition][0]
		if len(group) > 0 && (txs+len(w.txs) > MaxCommitTxs || bytes+w.bytes > MaxGroupBytes) {
			break
		}
		w.taken = true
		group = append(group, w)
		txs, bytes = txs+len(w.txs), bytes+w.bytes
		g.queues[partition] = g.queues[partition][1:]
		g.order = append(g.order[:0], g.order[1:]...)
		if len(g.queues[partition]) == 0 {
			delete(g.queues, partition)
		} else {
			g.order = append(g.order, partition)
		}
	}
	return group
}

// write commits one group and tells who writes the next.
func (g *grouped) write() {
	g.mu.Lock()
	group := g.take()
	g.mu.Unlock()
	defer func() { // also if the driver panics
		for _, w := range group {
			if w.results == nil {
				w.results = ended(len(w.txs), ErrInDoubt)
			}
			close(w.done)
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		g.tell()
	}()
	if len(group) == 0 {
		return
	}
	var txs []Tx
	for _, w := range group {
		txs = append(txs, w.txs...)
	}
	// The group is many callers': none of them ends it.
	results := g.Driver.Commit(context.WithoutCancel(group[0].ctx), txs...)
	for _, w := range group {
		w.results, results = results[:len(w.txs):len(w.txs)], results[len(w.txs):]
	}
}
