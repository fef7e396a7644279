package badgerkv

import (
	"fmt"

	"github.com/agenthost/agenthost/host/kv"
)

// checkSpace returns kv.ErrNoSpace if less than minFree is free on the store's device.
func (e *engine) checkSpace() error { return checkFree(e.dir, e.minFree) }

// checkFree returns kv.ErrNoSpace if less than least is free on dir's device. It
// returns nil if the system does not say.
func checkFree(dir string, least uint64) error {
	free, ok := freeBytes(dir)
	if !ok || free >= least {
		return nil
	}
	return fmt.Errorf("%w: %d MiB are free and %d MiB must be; free some", kv.ErrNoSpace, free>>20, least>>20)
}
