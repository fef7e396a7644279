// Package modulekv keeps WebAssembly modules in a store, by digest: in parts of 256 KiB, at
// the keys <keys>/<digest>/<n>. The first part is written last and removed first, so that a
// module with a first part is whole.
package modulekv

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/kv"
)

const (
	// MaxBytes is the largest module that is kept.
	MaxBytes = 64 << 20

	partBytes = 256 << 10
)

// Digest returns the digest of a module as package plugin writes it.
func Digest(wasm []byte) string {
	sum := sha256.Sum256(wasm)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Modules are the modules below a key of a partition.
type Modules struct {
	Driver    kv.Driver
	Partition string
	Keys      kv.Key
}

// Put stores a module unless it is there. Each part is written on condition of conds. Codes
// are resource_exhausted for a module beyond [MaxBytes]; other errors are the driver's.
func (m Modules) Put(ctx context.Context, digest string, wasm []byte, conds ...kv.Cond) error {
	if len(wasm) > MaxBytes {
		return fault.Errorf(fault.ResourceExhausted, "the module has %d bytes, more than the %d that are kept", len(wasm), MaxBytes).
			WithHint("make the module smaller: strip it, drop what it does not use")
	}
	of := m.Keys.With(digest)
	if _, err := m.Driver.Get(ctx, m.Partition, of.WithUint(0)); err == nil || !errors.Is(err, kv.ErrNotFound) {
		return err
	}
	parts := slices.Collect(slices.Chunk(wasm, partBytes))
	for i, part := range slices.Backward(parts) {
		if err := m.write(ctx, conds, kv.Put(of.WithUint(uint64(i)), part)); err != nil {
			return err
		}
	}
	return nil
}

// Get returns a module. Code data_loss if it is not whole; other errors are the driver's.
func (m Modules) Get(ctx context.Context, digest string) ([]byte, error) {
	var wasm []byte
	for e, err := range kv.All(ctx, m.Driver, m.Partition, kv.Range{Prefix: m.Keys.With(digest)}) {
		if err != nil {
			return nil, err
		}
		if wasm = append(wasm, e.Value...); len(wasm) > MaxBytes {
			break
		}
	}
	if Digest(wasm) != digest {
		return nil, fault.Errorf(fault.DataLoss, "the module with digest %.12s is not whole in the store", digest).WithHint("load it again from where it came")
	}
	return wasm, nil
}

// Remove removes a module; one that is not there is no error. Each part is removed on
// condition of conds.
func (m Modules) Remove(ctx context.Context, digest string, conds ...kv.Cond) error {
	for e, err := range kv.All(ctx, m.Driver, m.Partition, kv.Range{Prefix: m.Keys.With(digest)}) {
		if err != nil {
			return err
		}
		if err := m.write(ctx, conds, kv.Delete(e.Key)); err != nil {
			return err
		}
	}
	return nil
}

func (m Modules) write(ctx context.Context, conds []kv.Cond, w kv.Write) error {
	_, err := kv.Apply(ctx, m.Driver, kv.Tx{Partition: m.Partition, Quiet: true, Conds: conds, Writes: []kv.Write{w}})
	return err
}
