package badgerkv

import (
	"fmt"

	"github.com/agenthost/agenthost/host/kv"
)

// checkSpace returns kv.ErrNoSpace if less than minFree is free where the store
// lies.
func (s *Store) checkSpace() error { return checkFree(s.dir, s.minFree) }

// checkFree returns kv.ErrNoSpace if less is free where dir lies. Where that
// cannot be asked, there is taken to be room.
func checkFree(dir string, least uint64) error {
	free, ok := freeBytes(dir)
	if !ok || free >= least {
		return nil
	}
	return fmt.Errorf("%w: %d MiB are free and %d MiB must be; free some", kv.ErrNoSpace, free>>20, least>>20)
}
