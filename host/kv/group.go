package kv

import (
	"context"
	"fmt"
	"runtime"
	"sync"
)

// MaxGroupBytes bounds the [Tx.Size] of the Txs that [Group] commits together. A larger
// Commit forms a group alone.
const MaxGroupBytes = 8 << 20

// Group returns a driver over d that combines waiting commits into groups. While one
// group is written the next one gathers, so a store that syncs once a Commit syncs once
// for the whole group; a Tx that arrives while no group is written does not wait. Each
// Tx has the same result as alone, and Close closes d.
//
// A group takes commits from the partitions round-robin: a partition with many writers
// does not delay another's. A Commit whose context ends while it waits writes nothing;
// once its group is being written it waits for the outcome.
func Group(d Driver) Driver {
	return &grouped{Driver: d, queues: map[string][]*waiting{}}
}

type grouped struct {
	Driver

	mu      sync.Mutex
	leading bool                  // a waiter writes, or was chosen as leader
	queues  map[string][]*waiting // by partition
	order   []string              // the partitions with waiting commits, in round-robin order
	waiting int                   // the commits in the queues
}

// waiting is one Commit.
type waiting struct {
	txs     []Tx
	bytes   int
	lead    chan struct{} // closed to make it the leader, which writes the next group
	told    bool          // lead is closed
	taken   bool          // it is in a group
	done    chan struct{} // closed when results are set
	results []Result
}

// Commit implements [Driver].
func (g *grouped) Commit(ctx context.Context, txs ...Tx) []Result {
	if len(txs) == 0 || len(txs) > MaxCommitTxs || ctx.Err() != nil {
		return g.Driver.Commit(ctx, txs...)
	}
	w := &waiting{txs: txs, lead: make(chan struct{}), done: make(chan struct{})}
	for _, tx := range txs {
		w.bytes += tx.Size()
	}
	g.mu.Lock()
	g.enqueue(w)
	first := !g.leading
	g.leading = true
	g.mu.Unlock()
	if first {
		g.write(ctx)
	}
	return g.await(ctx, w)
}

// await waits until w is written, and writes a group if w is chosen as leader.
func (g *grouped) await(ctx context.Context, w *waiting) []Result {
	for {
		select {
		case <-w.done:
			return w.results
		case <-w.lead:
			g.heard(w)
			g.write(ctx)
		case <-ctx.Done():
			if g.leave(w) {
				return ended(len(w.txs), ctx.Err())
			}
			<-w.done
			return w.results
		}
	}
}

// heard lets w be chosen as leader again, if the group that it writes is full before it
// includes w.
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

// leave removes w from its queue and reports whether w was in it. If w was chosen as
// leader, leave chooses another.
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
			g.waiting--
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
	g.waiting++
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

// tell chooses the longest waiting commit of the next partition as leader. The lock is
// held.
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

// take returns the next group: the longest waiting commits of the partitions,
// round-robin, until the group is full. The lock is held.
func (g *grouped) take() (group []*waiting) {
	txs, bytes := 0, 0
	for len(g.order) > 0 {
		partition := g.order[0]
		w := g.queues[partition][0]
		if len(group) > 0 && (txs+len(w.txs) > MaxCommitTxs || bytes+w.bytes > MaxGroupBytes) {
			break
		}
		w.taken = true
		g.waiting--
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

// maxYields bounds how often a leader lets other goroutines run before it takes its group.
const maxYields = 4

// gather takes the next group, after those that are about to commit could do so: the
// writers of the group before come back together, and without this the first of them
// would write a group of its own, and the others would wait for its sync. It does not
// wait for anyone: it yields while that brings more.
func (g *grouped) gather() []*waiting {
	for yields, known := 0, 1; yields < maxYields; yields++ {
		runtime.Gosched()
		g.mu.Lock()
		n := g.waiting
		g.mu.Unlock()
		if n <= known {
			break
		}
		known = n
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.take()
}

// write commits one group and chooses the next leader. ctx is that of the leader.
func (g *grouped) write(ctx context.Context) {
	group := g.gather()
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
	// The group belongs to many callers: the end of no caller's context ends it.
	results := g.Driver.Commit(context.WithoutCancel(ctx), txs...)
	for _, w := range group {
		w.results, results = results[:len(w.txs):len(w.txs)], results[len(w.txs):]
	}
}
