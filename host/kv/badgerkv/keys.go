package badgerkv

import (
	"fmt"
	"path/filepath"
	"sync"

	"github.com/agenthost/agenthost/host/kv"
)

// Keys encrypts files that are kept beside a store, with the data keys of its
// partitions: after a partition is erased, its files cannot be read either. Safe for
// concurrent use.
type Keys struct {
	dir      string
	storeKey []byte
	store    *Store // nil: Keys reads the key file, which another process may write

	mu   sync.Mutex
	ring *keyring
}

// Keys returns the keys of the store. The caller may use them while the store is open.
func (s *Store) Keys() *Keys { return &Keys{store: s, ring: s.keys} }

// ReadKeys reads the key file of the store in dir, which may be open in another
// process. Without a key file, Keys has no keys and encrypts nothing.
//
// Errors: [kv.ErrKey] if the key is not the store's, [kv.ErrCorrupt] if the file is
// damaged.
func ReadKeys(dir string, key []byte) (*Keys, error) {
	k := &Keys{dir: dir, storeKey: key}
	if err := k.read(); err != nil {
		return nil, fmt.Errorf("read key file %q: %w", filepath.Join(dir, KeyFile), err)
	}
	return k, nil
}

func (k *Keys) read() error {
	ring, err := openKeyring(k.dir, k.storeKey, true)
	if err == nil {
		k.ring = ring
	}
	return err
}

// Seal returns text encrypted with the data key of a partition, for a purpose that
// [Keys.Open] must also name; or text itself if the store is not encrypted. The error
// is [kv.ErrErasing] while the partition is being erased.
func (k *Keys) Seal(partition, purpose string, text []byte) ([]byte, error) {
	if err := kv.ValidateKey(partition, "k"); err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.store != nil {
		if err := k.ring.ensure([]string{partition}); err != nil {
			return nil, fmt.Errorf("seal: %w", err)
		}
	} else if err := k.read(); err != nil { // it may have changed
		return nil, fmt.Errorf("seal: %w", err)
	}
	sealed, err := k.ring.sealText(partition, purpose, text)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	return sealed, nil
}

// Open undoes Seal. The error is [kv.ErrCorrupt] if the data key is destroyed, or Seal
// did not return sealed for this purpose.
func (k *Keys) Open(purpose string, sealed []byte) ([]byte, error) {
	k.mu.Lock()
	ring := k.ring
	k.mu.Unlock()
	text, err := ring.openText(purpose, sealed)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	return text, nil
}
