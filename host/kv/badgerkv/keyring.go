package badgerkv

import (
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host/kv/internal/datakey"
)

// dataKeys are the data keys of one partition.
type dataKeys struct {
	latest uint64
	byID   map[uint64]*datakey.Key
}

// keyring holds the data keys of a store's partitions, and which partitions are being
// erased or were erased. Every change is on disk before a method returns. Safe for
// concurrent use.
type keyring struct {
	dir      string
	storeKey []byte // nil: values are not sealed, and there are no data keys

	// unsaved leaves new data keys in memory until the next save, in a store that a
	// restore makes: it is no store before it is whole.
	unsaved bool

	mu       sync.RWMutex
	wraps    int // number of store keys that open the file
	salt     []byte
	next     uint64
	unsealed bool
	keys     map[string]*dataKeys
	owners   map[uint64]string // the partitions of the data keys, by id; also of some destroyed keys
	erasing  map[string]time.Time
	erased   map[string]int64
}

func (r *keyring) put(partition string, id uint64, key *datakey.Key) {
	of := r.keys[partition]
	if of == nil {
		of = &dataKeys{byID: map[uint64]*datakey.Key{}}
		r.keys[partition] = of
	}
	of.byID[id] = key
	r.owners[id] = partition
	of.latest = max(of.latest, id)
}

func (r *keyring) seals() bool { return len(r.storeKey) > 0 }

// ensure makes data keys for those of the partitions that have none.
func (r *keyring) ensure(partitions []string) error {
	if !r.seals() || r.hasAll(partitions) {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var made []string
	for _, partition := range partitions {
		if _, goes := r.erasing[partition]; !r.sealsWide(partition) && !goes {
			r.newKey(partition)
			made = append(made, partition)
		}
	}
	if len(made) == 0 || r.unsaved {
		return nil
	}
	if err := r.save(false); err != nil {
		for _, partition := range made {
			r.takeBack(partition)
		}
		return fmt.Errorf("write the key file: %w", err)
	}
	return nil
}

func (r *keyring) hasAll(partitions []string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, partition := range partitions {
		if !r.sealsWide(partition) {
			return false
		}
	}
	return true
}

// newKey makes the key that a partition's values are sealed with from now on. The
// lock is held.
func (r *keyring) newKey(partition string) {
	raw := make([]byte, dataKeyBytes)
	_, _ = rand.Read(raw) // never fails
	r.put(partition, r.next, datakey.New(raw, false))
	r.next++
}

func (r *keyring) hasKey(partition string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.keys[partition] != nil
}

// rotate gives every partition a new data key. Stored values are read with the old
// keys.
func (r *keyring) rotate() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for partition := range r.keys {
		r.newKey(partition)
	}
}
