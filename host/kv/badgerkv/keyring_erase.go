package badgerkv

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"time"
)

// isErasing reports whether a partition is being erased.
func (r *keyring) isErasing(partition string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	_, goes := r.erasing[partition]
	return goes
}

// beginErasing marks a partition and destroys its data keys.
func (r *keyring) beginErasing(partition string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, goes := r.erasing[partition]; goes {
		return nil
	}
	had := r.keys[partition]
	r.erasing[partition] = time.Now().UTC()
	delete(r.keys, partition)
	if err := r.save(true); err != nil {
		delete(r.erasing, partition)
		if had != nil {
			r.keys[partition] = had
		}
		return fmt.Errorf("write the key file: %w", err)
	}
	return nil
}

// endErasing removes the mark and records that the partition was erased.
func (r *keyring) endErasing(partition string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	since, goes := r.erasing[partition]
	if !goes {
		return nil
	}
	delete(r.erasing, partition)
	r.erased[r.digest(partition)] = time.Now().UnixMicro()
	if err := r.save(true); err != nil {
		r.erasing[partition] = since
		return fmt.Errorf("write the key file: %w", err)
	}
	return nil
}

// erasedAt returns when a partition was last erased; zero if it never was.
func (r *keyring) erasedAt(partition string) time.Time {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if at, ok := r.erased[r.digest(partition)]; ok {
		return time.UnixMicro(at).UTC()
	}
	return time.Time{}
}

// digest returns the digest by which the file lists an erased partition: the list
// reveals no names.
func (r *keyring) digest(partition string) string {
	sum := sha256.Sum256(append(slices.Clone(r.salt), partition...))
	return hex.EncodeToString(sum[:16])
}

// erasingNames returns the partitions that are being erased, in order.
func (r *keyring) erasingNames() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Sorted(maps.Keys(r.erasing))
}

// inherit takes over another store's list of erased partitions.
func (r *keyring) inherit(from *keyring) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.salt, r.erased = from.salt, maps.Clone(from.erased)
	for partition := range from.erasing { // the restore leaves it out
		r.erased[r.digest(partition)] = time.Now().UnixMicro()
	}
	return r.save(false)
}
