package badgerkv

import (
	"context"
	"path/filepath"
	"strings"
	"time"
)

// mergeTables merges the tables down to one level, and waits until the files of
// those that were merged are gone.
func (s *Store) mergeTables(ctx context.Context) error {
	before, err := filepath.Glob(filepath.Join(s.dir, "*.sst"))
	if err != nil {
		return err
	}
	if err := s.flatten(ctx); err != nil {
		return err
	}
	present := map[string]bool{}
	for _, t := range s.db.Tables() {
		present[tableName(t.ID)] = true
	}
	var replaced []string
	for _, path := range before {
		if !present[filepath.Base(path)] {
			replaced = append(replaced, path)
		}
	}
	for anyExists(replaced) { // readers hold them
		if err := sleep(ctx, restCheck); err != nil {
			return err
		}
	}
	return nil
}

// stopMerging is what the pacer panics with to end a merge early.
type stopMerging struct{ err error }

// flatten runs Badger's Flatten, which has no context and no pace. It does call the
// logger between two merges, in its own goroutine and with no lock held: there it
// rests, and from there it is ended, by a panic that is caught here.
func (s *Store) flatten(ctx context.Context) (err error) {
	p := &pacer{ctx: ctx, store: s, last: time.Now()}
	s.pacer.Store(p)
	defer s.pacer.Store(nil)
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

// pacer rests between the merges of a Flatten.
type pacer struct {
	ctx   context.Context
	store *Store
	last  time.Time // when the last rest ended
	steps int
}

// next is called before each merge.
func (p *pacer) next(format string) {
	if !strings.HasPrefix(format, flattenStep) {
		return
	}
	p.steps++
	until := time.Now().Add(min(purgeShare*time.Since(p.last), maxRest))
	for time.Now().Before(until) && p.store.db.Levels()[0].NumTables < level0Tables {
		if err := sleep(p.ctx, restCheck); err != nil {
			break
		}
	}
	err := p.ctx.Err()
	if err == nil {
		err = p.store.checkPurgeSpace(p.ctx)
	}
	if err != nil {
		panic(stopMerging{err})
	}
	p.last = time.Now()
}
