package badgerkv

import (
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/dgraph-io/badger/v4"

	"github.com/agenthost/agenthost/host/kv"
)

// Badger keeps the keys of its files in the key registry, a file that begins with an
// initialization vector and a known text, encrypted with the store's key or, in a store
// without one, plain.
const (
	registryText        = "Hello Badger"
	registryHeaderBytes = aes.BlockSize + len(registryText)
)

// checkKey refuses a key that is not the store's. Badger would refuse it too, but after
// its first changes, and with one message for three mistakes.
func checkKey(dir string, key []byte) error {
	if err := checkKeySize(key); err != nil {
		return err
	}
	b := make([]byte, registryHeaderBytes)
	f, err := os.Open(filepath.Join(dir, badger.KeyRegistryFileName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a new store
	}
	if err != nil {
		return fileError(err)
	}
	defer f.Close()
	if _, err := io.ReadFull(f, b); err != nil {
		return fmt.Errorf("%w: its list of keys is cut off; restore it from a backup", kv.ErrCorrupt)
	}
	iv, text := b[:aes.BlockSize], b[aes.BlockSize:]
	switch plain := string(text) == registryText; {
	case plain && len(key) == 0:
		return nil
	case plain:
		return fmt.Errorf("%w: it is not encrypted, and a key was given; leave the key out, or restore a backup of it into a new directory with the key", kv.ErrKey)
	case len(key) == 0:
		return fmt.Errorf("%w: it is encrypted, and no key was given; give the one that it was made with", kv.ErrKey)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return fmt.Errorf("%w: %v", kv.ErrInvalid, err)
	}
	cipher.NewCTR(block, iv).XORKeyStream(text, text)
	if string(text) != registryText {
		return fmt.Errorf("%w: it is encrypted with another one; give the one that it was made with", kv.ErrKey)
	}
	return nil
}

func checkKeySize(key []byte) error {
	switch len(key) {
	case 0, 16, 24, 32:
		return nil
	}
	return fmt.Errorf("%w: the key has %d bytes, not 16, 24 or 32; make one with: openssl rand -hex 32", kv.ErrInvalid, len(key))
}

// Rekey changes the key of the encrypted store in dir, which no process may have open.
// It is fast: data is encrypted with data keys, and only these are encrypted with the
// store's key. Afterwards the old key is of no use. The change happens whole or not at
// all. Each partition also gets a new data key, for later writes; if both keys are the
// same, Rekey only does that. To encrypt a store without a key, or to have all data
// under fresh keys, restore a backup into a new directory.
//
// Errors: those of [Open]; [kv.ErrKey] if old is not its key, [kv.ErrInvalid] if
// either key is empty or of another size.
func Rekey(dir string, old, key []byte) error {
	if len(old) == 0 || len(key) == 0 {
		return fmt.Errorf("change the key of store %q: %w: both keys must be given; to encrypt a store that is not, restore a backup of it with the key", dir, kv.ErrInvalid)
	}
	if err := checkKeySize(key); err != nil {
		return fmt.Errorf("change the key of store %q: %w", dir, err)
	}
	s, err := Open(dir, &Options{Key: old}) // no other process has the store open, and old is its key
	if err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	if err := writeInventory(s.engine.dir, opening); err != nil { // the key registry is about to change
		return fmt.Errorf("change the key of store %q: %w", dir, err)
	}
	// Until the key registry is written, either key opens the key file.
	ring, err := readKeyring(filepath.Join(s.engine.dir, KeyFile), old)
	if err != nil {
		return fmt.Errorf("change the key of store %q: %w", dir, err)
	}
	ring.dir = s.engine.dir
	ring.rotate()
	if err := ring.saveAll(false, old, key); err != nil {
		return fmt.Errorf("change the key of store %q: %w", dir, err)
	}
	opts := badger.KeyRegistryOptions{Dir: s.engine.dir, EncryptionKey: old}
	registry, err := badger.OpenKeyRegistry(opts)
	if err != nil {
		return fmt.Errorf("change the key of store %q: %w", dir, openError(s.engine.dir, err))
	}
	opts.EncryptionKey = key
	if err := errors.Join(badger.WriteKeyRegistry(registry, opts), registry.Close()); err != nil {
		return fmt.Errorf("change the key of store %q: %w", dir, openError(s.engine.dir, err))
	}
	ring.storeKey = key
	if err := ring.saveAll(true); err != nil {
		return fmt.Errorf("change the key of store %q: %w", dir, err)
	}
	return writeInventory(s.engine.dir, closed)
}
