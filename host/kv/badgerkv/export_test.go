package badgerkv

import "github.com/dgraph-io/badger/v4"

// What tests of the package's promises need and its users do not.

// Compact drops what was deleted or replaced, as Badger would in its own time.
// Flatten alone would not: it is content when all tables are at level 0, so that
// level is compacted first, which Badger offers at closing.
func Compact(s *Store) error {
	opts := s.db.Opts()
	for _, l0OnClose := range []bool{true, false} {
		if err := s.db.Close(); err != nil {
			return err
		}
		db, err := badger.Open(opts.WithCompactL0OnClose(l0OnClose))
		if err != nil {
			return err
		}
		s.db = db
	}
	return s.db.Flatten(1)
}

// SetMinFree changes Options.MinFree of an open store.
func SetMinFree(s *Store, n uint64) { s.minFree = n }

// FailCommits makes Badger's commits fail with err, until err is nil.
func FailCommits(s *Store, err error) {
	s.commit = func(*badger.Txn) error { return err }
	if err == nil {
		s.commit = (*badger.Txn).Commit
	}
}
