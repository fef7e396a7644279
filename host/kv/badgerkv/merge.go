package badgerkv

import (
	"context"
	"strings"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// mergeTables merges every table that is above the last level now down to it, and waits
// until the files of those that were merged are gone.
func (s *Store) mergeTables(ctx context.Context) error {
	var above lineage
	left := func() int64 { return above.follow(s.db.Tables()) }
	if err := s.flatten(&pacer{ctx: ctx, store: s, share: purgeShare, left: left}); err != nil {
		return err
	}
	return s.waitForReplaced(ctx, nil)
}

// waitForReplaced returns when the tables that Badger does not use any more and the logs
// are gone: readers hold them.
func (s *Store) waitForReplaced(ctx context.Context, logs []string) error {
	unused, err := s.unusedTables()
	for err == nil && (len(unused) > 0 || anyExists(logs)) {
		if err := sleep(ctx, restCheck); err != nil {
			return err
		}
		unused, err = s.stillUnused(unused)
	}
	return err
}

// lineage is the tables above the last level that have what such tables had when it was
// first looked at. Between two looks there is at most one merge.
type lineage struct {
	seen  map[uint64]bool // the tables of the last look
	heirs map[uint64]bool
}

// follow looks at the tables, and returns the size of those that are left to merge.
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
		made := !l.seen[t.ID] && (t.Level > 0 || first) // and no memtable before
		if t.Level < lastLevel && (l.heirs[t.ID] || merged && made) {
			heirs[t.ID] = true
			bytes += int64(t.OnDiskSize)
		}
	}
	l.seen, l.heirs = seen, heirs
	return bytes
}

// stopMerging is what the pacer panics with to end the merges early.
type stopMerging struct{ err error }

// flatten runs Badger's Flatten, which merges the tables of the first level that has
// some into the next, one after the other, until there is one level: with others who
// write there may always be two. Flatten has no context and no pace. It does call the
// logger between two merges, in its own goroutine and with no lock held: there it
// rests, and from there it is ended, by a panic that is caught here.
func (s *Store) flatten(p *pacer) (err error) {
	s.pacer.Store(p)
	defer s.pacer.Store(nil)
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
	return s.db.Flatten(1)
}

// flattenStep is how the message begins that Flatten logs before each merge.
const flattenStep = "Attempting to compact with "

// pacer rests between the merges of a Flatten, and ends it. The store merges nothing
// else meanwhile, so level 0 fills again: it is merged first, and what it adds to the
// next level can be more than the rests leave time for. So when the pacer meets level 0
// again and no less is left than when it met it before, it halves the rests. Once they
// are shorter than merges, it gives up if it may, or commits wait during merges: others
// get half as much of the time with each step, so there is an end.
type pacer struct {
	ctx   context.Context
	store *Store
	share float64      // how many times as long as a merge a rest is
	left  func() int64 // is asked before each merge how many bytes are; 0 ends them
	// maxMerges is after how many merges it gives up; 0 is never.
	maxMerges int

	last     time.Time // when the last rest ended; zero before the first merge
	merges   int
	leftThen int64 // when level 0 was met last
	holding  bool  // the turn to commit
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
		err = p.store.checkPurgeSpace(p.ctx)
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
	return p.maxMerges > 0 && (p.merges >= p.maxMerges || p.share < 1 && p.store.db.Levels()[0].NumTables == 0)
}

// adapt shortens the rests if others write faster than what is left becomes less.
func (p *pacer) adapt(left int64) {
	if p.store.db.Levels()[0].NumTables == 0 {
		return
	}
	if p.leftThen > 0 && left >= p.leftThen {
		p.share /= 2
	}
	p.leftThen = left
}

// rest lets others have the machine, and ends early if they fill level 0.
func (p *pacer) rest(worked time.Duration) {
	until := time.Now().Add(min(time.Duration(p.share*float64(worked)), maxRest))
	for time.Now().Before(until) && (p.share < 1 || p.store.db.Levels()[0].NumTables < level0Tables) {
		if err := sleep(p.ctx, min(restCheck, time.Until(until))); err != nil {
			return
		}
	}
}

// hold keeps others from committing until release.
func (p *pacer) hold() error {
	select {
	case p.store.turn <- struct{}{}:
		p.holding = true
		return nil
	case <-p.ctx.Done():
		return p.ctx.Err()
	}
}

func (p *pacer) release() {
	if p.holding {
		<-p.store.turn
		p.holding = false
	}
}
