package badgerkv

import "github.com/agenthost/agenthost/host/kv/internal/datakey"

// latestKey returns the data key that a partition's values are sealed with, and its
// id; nil if it has none.
func (r *keyring) latestKey(partition string) (id uint64, key *datakey.Key) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	of := r.keys[partition]
	if of == nil {
		return 0, nil
	}
	return of.latest, of.byID[of.latest]
}

// keyOf returns a data key of a partition; nil if it has none of that id.
func (r *keyring) keyOf(partition string, id uint64) *datakey.Key {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if of := r.keys[partition]; of != nil {
		return of.byID[id]
	}
	return nil
}

// setSalt changes the salt of the digests of partitions' names, in a store that has no
// digests yet.
func (r *keyring) setSalt(salt []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.salt = salt
}

// sealsWide reports whether a partition's values are sealed with a key that is not
// narrow. The lock is held.
func (r *keyring) sealsWide(partition string) bool {
	of := r.keys[partition]
	return of != nil && !of.byID[of.latest].Narrow()
}

// takeBack forgets the latest key of a partition, which could not be saved. The lock is
// held.
func (r *keyring) takeBack(partition string) {
	of := r.keys[partition]
	delete(of.byID, of.latest)
	if len(of.byID) == 0 {
		delete(r.keys, partition)
		return
	}
	of.latest = 0
	for id := range of.byID {
		of.latest = max(of.latest, id)
	}
}
