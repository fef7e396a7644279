package badgerkv

import (
	"crypto/aes"
	"crypto/cipher"
	"sync"
)

// partitionKey is a data key.
type partitionKey struct {
	raw  []byte
	aead func() (cipher.AEAD, error) // made at its first use
}

func newPartitionKey(raw []byte) *partitionKey {
	return &partitionKey{raw, sync.OnceValues(func() (cipher.AEAD, error) { return newAEAD(raw) })}
}

func newAEAD(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// seal appends text to dst, sealed and bound to place.
func (k *partitionKey) seal(dst, text, place []byte) ([]byte, error) {
	aead, err := k.aead()
	if err != nil {
		return nil, err
	}
	return aead.Seal(dst, nil, text, place), nil
}

// open undoes seal.
func (k *partitionKey) open(sealed, place []byte) ([]byte, error) {
	aead, err := k.aead()
	if err != nil {
		return nil, err
	}
	return aead.Open(nil, nil, sealed, place)
}

// latestKey returns the data key that a partition's values are sealed with, and its
// id; nil if it has none.
func (r *keyring) latestKey(partition string) (id uint64, key *partitionKey) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	of := r.keys[partition]
	if of == nil {
		return 0, nil
	}
	return of.latest, of.byID[of.latest]
}

// keyOf returns a data key of a partition; nil if it has none of that id.
func (r *keyring) keyOf(partition string, id uint64) *partitionKey {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if of := r.keys[partition]; of != nil {
		return of.byID[id]
	}
	return nil
}

// setSalt changes what digests of partitions' names are made with, of a store that
// has none yet.
func (r *keyring) setSalt(salt []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.salt = salt
}
