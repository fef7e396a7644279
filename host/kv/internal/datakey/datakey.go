// Package datakey seals values with data keys, for drivers that encrypt: a value is
// bound to its place, and changed, moved or cut texts do not open. A [Key] is safe for
// concurrent use.
package datakey

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
	// Overhead is the size that a seal adds to a text.
	Overhead = wideNonceBytes + 16
	// Bytes is the size of a key.
	Bytes = 32
)

// Key is a data key.
type Key struct {
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

// New returns a key of [Bytes] bytes. narrow is for keys of earlier versions alone.
func New(raw []byte, narrow bool) *Key {
	return &Key{raw, narrow, sync.OnceValues(func() (*keyCipher, error) {
		if narrow {
			aead, err := NewAEAD(raw)
			return &keyCipher{narrow: aead}, err
		}
		return newKeyCipher(raw)
	})}
}

// NewAEAD returns AES-GCM with random nonces.
func NewAEAD(key []byte) (cipher.AEAD, error) {
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

// Raw returns the bytes of the key, which must not be changed.
func (k *Key) Raw() []byte { return k.raw }

// Narrow reports whether the key is of an earlier version.
func (k *Key) Narrow() bool { return k.narrow }

// Seal appends text to dst, sealed and bound to place.
func (k *Key) Seal(dst, text, place []byte) ([]byte, error) {
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

// errNotSealed is the error for a text that Seal has not returned.
var errNotSealed = errors.New("it is not what was sealed")

// Open undoes Seal.
func (k *Key) Open(sealed, place []byte) ([]byte, error) {
	c, err := k.prepared()
	if err != nil {
		return nil, err
	}
	if k.narrow {
		return c.narrow.Open(nil, nil, sealed, place)
	}
	if len(sealed) < Overhead {
		return nil, errNotSealed
	}
	aead, rest, err := c.derive(sealed[:wideNonceBytes])
	if err != nil {
		return nil, err
	}
	return aead.Open(nil, rest, sealed[wideNonceBytes:], place)
}
