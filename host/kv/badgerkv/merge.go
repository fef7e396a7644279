package badgerkv

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// tableMerger has Badger merge its tables: for purges, which remove deleted entries from
// the files, and for erasures. One of them runs at a time.
type tableMerger struct {
	engine  *engine
	purging chan struct{}         // full while a purge, an erasure or a collection runs
	pacer   atomic.Pointer[pacer] // of the running merge
	// snapshots is held for reading by long reads of one moment: meanwhile, no entry of
	// that moment leaves the files.
	snapshots sync.RWMutex
}

// mergeTables merges every table that is now above the last level down to it, and waits
// until the files of the merged tables are gone.
func (m *tableMerger) mergeTables(ctx context.Context) error {
	var above lineage
	left := func() int64 { return above.follow(m.engine.db.Tables()) }
	if err := m.flatten(&pacer{ctx: ctx, merger: m, share: purgeShare, left: left}); err != nil {
		return err
	}
	return m.engine.waitForReplaced(ctx, nil)
}

// waitForReplaced waits until the tables that Badger no longer uses, and the logs, are
// gone: readers may hold them.
func (e *engine) waitForReplaced(ctx context.Context, logs []string) error {
	unused, err := e.unusedTables()
	for err == nil && (len(unused) > 0 || anyExists(logs)) {
		if err := sleep(ctx, restCheck); err != nil {
			return err
		}
		unused, err = e.stillUnused(unused)
	}
	return err
}

// lineage tracks the tables above the last level that have entries which were there at
// the first call of follow. At most one merge happens between two calls.
type lineage struct {
	seen  map[uint64]bool // the tables at the last call
	heirs map[uint64]bool
}

// follow examines the tables, and returns the size of those that are left to merge.
func (l *lineage) follow(tables []badger.TableInfo) (bytes int64) {
	seen, first := make(map[uint64]bool, len(tables)), l.seen == nil
	for _, t := range tables {
		seen[t.ID] = true
	}
	merged := first
	for id := range l.heirs {
		merged = merged || !seen[id]
	}
	heirs := map[uint64]bool{}
	for _, t := range tables {
		made := !l.seen[t.ID] && (t.Level > 0 || first) // a merge made it, not a flush of a memtable
		if t.Level < lastLevel && (l.heirs[t.ID] || merged && made) {
			heirs[t.ID] = true
			bytes += int64(t.OnDiskSize)
		}
	}
	l.seen, l.heirs = seen, heirs
	return bytes
}

// stopMerging is the pacer's panic value that ends the merges early.
type stopMerging struct{ err error }

// flatten runs Badger's Flatten, which repeatedly merges the first level that has
// tables into the next, until one level is left; with concurrent writers there may
// always be two. Flatten has no context and never rests. It does call the logger
// between two merges, in its own goroutine and with no lock held: there the pacer
// rests, and ends Flatten by a panic that flatten recovers.
func (m *tableMerger) flatten(p *pacer) (err error) {
	m.pacer.Store(p)
	defer m.pacer.Store(nil)
	defer p.release()
	defer func() {
		switch p := recover().(type) {
		case nil:
		case stopMerging:
			err = p.err
		default:
			panic(p)
		}
	}()
	return m.engine.db.Flatten(1)
}

// flattenStep is the beginning of the message that Flatten logs before each merge.
const flattenStep = "Attempting to compact with "

// pacer rests between the merges of a Flatten, and ends it. The store merges nothing
// else meanwhile, so level 0 fills again: Flatten merges it first, and may add more to
// the next level than it can merge between the rests. So if level 0 has tables again
// and no fewer bytes are left to merge than the last time, the pacer halves the rests.
// Once rests are shorter than merges, the pacer gives up if it may; otherwise it holds
// commits back during merges. Each step halves the time of other callers, so the merges
// end.
type pacer struct {
	ctx    context.Context // the lifetime of the Flatten, whose logger calls the pacer
	merger *tableMerger
	share  float64      // the length of a rest, as a multiple of the merge's
	left   func() int64 // called before each merge, returns the bytes left to merge; 0 ends the merges
	// maxMerges is the number of merges after which the pacer gives up; 0 is never.
	maxMerges int

	last     time.Time // when the last rest ended; zero before the first merge
	merges   int
	leftThen int64 // the bytes left when level 0 last had tables
	holding  bool  // has the commit token
}

// next is called before each merge.
func (p *pacer) next(format string) {
	if !strings.HasPrefix(format, flattenStep) {
		return
	}
	p.release()
	left := p.left()
	if left == 0 || p.givesUp() {
		panic(stopMerging{})
	}
	if !p.last.IsZero() {
		p.adapt(left)
		p.rest(time.Since(p.last))
	}
	err := p.ctx.Err()
	if err == nil {
		err = p.merger.checkPurgeSpace(p.ctx)
	}
	if err == nil && p.share < 1 && p.maxMerges == 0 {
		err = p.hold()
	}
	if err != nil {
		panic(stopMerging{err})
	}
	p.merges++
	p.last = time.Now()
}

func (p *pacer) givesUp() bool {
	return p.maxMerges > 0 && (p.merges >= p.maxMerges || p.share < 1 && p.merger.engine.db.Levels()[0].NumTables == 0)
}

// adapt shortens the rests if callers write so fast that no fewer bytes are left to
// merge.
func (p *pacer) adapt(left int64) {
	if p.merger.engine.db.Levels()[0].NumTables == 0 {
		return
	}
	if p.leftThen > 0 && left >= p.leftThen {
		p.share /= 2
	}
	p.leftThen = left
}

// rest leaves the machine to other callers, and ends early if they fill level 0.
func (p *pacer) rest(worked time.Duration) {
	until := time.Now().Add(min(time.Duration(p.share*float64(worked)), maxRest))
	for time.Now().Before(until) && (p.share < 1 || p.merger.engine.db.Levels()[0].NumTables < level0Tables) {
		if err := sleep(p.ctx, min(restCheck, time.Until(until))); err != nil {
			return
		}
	}
}

// hold takes the commit token, which keeps others from committing until release. A commit
// has the token while it waits for room in a full level 0, which only the next merge makes:
// then the merge begins without the token.
func (p *pacer) hold() error {
	for {
		check := time.NewTimer(restCheck)
		select {
		case p.merger.engine.turn <- struct{}{}:
			p.holding = true
			check.Stop()
			return nil
		case <-check.C:
			if p.merger.engine.db.Levels()[0].NumTables >= level0TablesStall {
				return nil
			}
		case <-p.ctx.Done():
			check.Stop()
			return p.ctx.Err()
		}
	}
}

func (p *pacer) release() {
	if p.holding {
		<-p.merger.engine.turn
		p.holding = false
	}
}
