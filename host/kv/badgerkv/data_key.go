package badgerkv

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"sync"
)

// A data key seals any number of values: each value is sealed with AES-256-GCM under
// its own key, derived from the data key and half of a random nonce of 24 bytes
// (XAES-256-GCM, C2SP). The nonces of one key may be random for 2^80 values; the 12
// bytes of plain GCM are enough for 2^32. Keys of earlier versions are narrow: they
// seal with 12 bytes, and a partition with a narrow key gets a new one at its next
// write.
const (
	wideNonceBytes = 24
	// wideOverhead is the size that a seal adds to a text.
	wideOverhead = wideNonceBytes + 16
)

// partitionKey is a data key.
type partitionKey struct {
	raw      []byte
	narrow   bool
	prepared func() (*keyCipher, error) // made at its first use
}

// keyCipher is a data key, ready for use.
type keyCipher struct {
	narrow cipher.AEAD  // of a narrow key
	block  cipher.Block // of any other
	subkey [aes.BlockSize]byte
}

func newPartitionKey(raw []byte, narrow bool) *partitionKey {
	return &partitionKey{raw, narrow, sync.OnceValues(func() (*keyCipher, error) {
		if narrow {
			aead, err := newAEAD(raw)
			return &keyCipher{narrow: aead}, err
		}
		return newKeyCipher(raw)
	})}
}

func newAEAD(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// newKeyCipher prepares a key: its subkey is the first subkey of CMAC.
func newKeyCipher(key []byte) (*keyCipher, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	c := &keyCipher{block: block}
	block.Encrypt(c.subkey[:], c.subkey[:])
	carry := byte(0)
	for i := len(c.subkey) - 1; i >= 0; i-- {
		c.subkey[i], carry = c.subkey[i]<<1|carry, c.subkey[i]>>7
	}
	c.subkey[len(c.subkey)-1] ^= carry * 0x87
	return c, nil
}

// derive returns the AEAD of a nonce and the rest of the nonce, which that AEAD takes.
func (c *keyCipher) derive(nonce []byte) (cipher.AEAD, []byte, error) {
	var key [2 * aes.BlockSize]byte
	for i := range 2 {
		part := key[i*aes.BlockSize : (i+1)*aes.BlockSize]
		copy(part, []byte{0, byte(i + 1), 'X', 0})
		copy(part[4:], nonce[:12])
		for j := range part {
			part[j] ^= c.subkey[j]
		}
		c.block.Encrypt(part, part)
	}
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return nil, nil, err
	}
	aead, err := cipher.NewGCM(block)
	return aead, nonce[12:wideNonceBytes], err
}

// seal appends text to dst, sealed and bound to place.
func (k *partitionKey) seal(dst, text, place []byte) ([]byte, error) {
	c, err := k.prepared()
	if err != nil {
		return nil, err
	}
	if k.narrow {
		return c.narrow.Seal(dst, nil, text, place), nil
	}
	var nonce [wideNonceBytes]byte
	_, _ = rand.Read(nonce[:]) // never fails
	aead, rest, err := c.derive(nonce[:])
	if err != nil {
		return nil, err
	}
	return aead.Seal(append(dst, nonce[:]...), rest, text, place), nil
}

// errNotSealed is the error for a text that seal has not returned.
var errNotSealed = errors.New("it is not what was sealed")

// open undoes seal.
func (k *partitionKey) open(sealed, place []byte) ([]byte, error) {
	c, err := k.prepared()
	if err != nil {
		return nil, err
	}
	if k.narrow {
		return c.narrow.Open(nil, nil, sealed, place)
	}
	if len(sealed) < wideOverhead {
		return nil, errNotSealed
	}
	aead, rest, err := c.derive(sealed[:wideNonceBytes])
	if err != nil {
		return nil, err
	}
	return aead.Open(nil, rest, sealed[wideNonceBytes:], place)
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
	return of != nil && !of.byID[of.latest].narrow
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
