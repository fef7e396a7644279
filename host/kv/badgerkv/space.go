package badgerkv

import (
	"fmt"

	"github.com/agenthost/agenthost/host/kv"
)

// checkSpace returns kv.ErrNoSpace if less than minFree is free where the store
// lies. Where that cannot be asked, there is taken to be room.
func (s *Store) checkSpace() error {
	free, ok := freeBytes(s.dir)
	if !ok || free >= s.minFree {
		return nil
	}
	return fmt.Errorf("%w: %d MiB are free and %d MiB must be; free some", kv.ErrNoSpace, free>>20, s.minFree>>20)
}
