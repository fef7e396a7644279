package badgerkv

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/internal/datakey"
)

// Sealed values begin with the id of their data key; a seal adds a random nonce and a
// tag. A seal of a narrow key adds fewer bytes than sealOverhead.
const (
	keyIDBytes   = 8
	sealOverhead = keyIDBytes + datakey.Overhead
	leastSealed  = keyIDBytes + 12 + 16
	// sealedMeta marks a sealed value in Badger. Values of stores made before data keys
	// existed have 0.
	sealedMeta = 1
)

// value returns the value in a store's entry, which is sealed or, in a store of an
// earlier version, plain.
func (r *keyring) value(engineKey []byte, revision uint64, meta byte, raw []byte) ([]byte, error) {
	switch {
	case meta&sealedMeta != 0:
		return r.unseal(engineKey, revision, raw)
	case r.seals() && !r.unsealed:
		return nil, fmt.Errorf("%w: a value has lost its seal; restore it from a backup", kv.ErrCorrupt)
	}
	return raw, nil
}

// sealedWith returns the additional data of a value's seal: its partition, its key and
// its revision.
func sealedWith(engineKey []byte, revision uint64) []byte {
	return binary.BigEndian.AppendUint64(slices.Clip(engineKey), revision)
}

// seal returns a value in the form that the store keeps.
func (r *keyring) seal(engineKey []byte, revision uint64, value []byte) ([]byte, error) {
	id, key := r.latestKey(partitionIn(engineKey))
	if key == nil {
		return nil, errors.New("the partition has no data key")
	}
	out := make([]byte, keyIDBytes, len(value)+sealOverhead)
	binary.BigEndian.PutUint64(out, id)
	return key.Seal(out, value, sealedWith(engineKey, revision))
}

// errNoDataKey is the error for a value whose data key is destroyed, or in another key
// file.
var errNoDataKey = fmt.Errorf("%w: the key file has no data key for it; put back the key file of this store", kv.ErrCorrupt)

// unseal undoes seal.
func (r *keyring) unseal(engineKey []byte, revision uint64, sealed []byte) ([]byte, error) {
	if len(sealed) < leastSealed {
		return nil, fmt.Errorf("%w: a sealed value is cut off; restore it from a backup", kv.ErrCorrupt)
	}
	key := r.keyOf(partitionIn(engineKey), binary.BigEndian.Uint64(sealed))
	if key == nil {
		return nil, errNoDataKey
	}
	value, err := key.Open(sealed[keyIDBytes:], sealedWith(engineKey, revision))
	if err != nil {
		return nil, fmt.Errorf("%w: a value is not what was sealed there; restore it from a backup", kv.ErrCorrupt)
	}
	return value, nil
}

// textPlace returns the additional data of the seal of a text outside the store.
func textPlace(partition, purpose string) []byte {
	b := append([]byte{ownSpace, 't', byte(len(partition))}, partition...)
	return append(b, purpose...)
}

// sealText returns text sealed with the data key of a partition, or text itself if the
// store has no key.
func (r *keyring) sealText(partition, purpose string, text []byte) ([]byte, error) {
	id, key := r.latestKey(partition)
	switch {
	case r.isErasing(partition):
		return nil, kv.ErrErasing
	case !r.seals():
		return text, nil
	case key == nil: // an erasure of it has ended since its key was looked for
		return nil, kv.ErrErasing
	}
	out := make([]byte, keyIDBytes, len(text)+sealOverhead)
	binary.BigEndian.PutUint64(out, id)
	return key.Seal(out, text, textPlace(partition, purpose))
}

// openText undoes sealText. The id of the text's data key determines the partition.
func (r *keyring) openText(purpose string, sealed []byte) ([]byte, error) {
	if len(sealed) < leastSealed {
		return nil, fmt.Errorf("%w: a sealed text is cut off", kv.ErrCorrupt)
	}
	id := binary.BigEndian.Uint64(sealed)
	r.mu.RLock()
	partition := r.owners[id]
	r.mu.RUnlock()
	key := r.keyOf(partition, id)
	if key == nil {
		return nil, errNoDataKey
	}
	text, err := key.Open(sealed[keyIDBytes:], textPlace(partition, purpose))
	if err != nil {
		return nil, fmt.Errorf("%w: a text is not what was sealed", kv.ErrCorrupt)
	}
	return text, nil
}
