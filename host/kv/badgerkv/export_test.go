package badgerkv

// Compact merges all tables into one level, dropping what was deleted or
// replaced, as Badger would in its own time.
func Compact(s *Store) error { return s.db.Flatten(1) }
