package kv

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
)

// BeginErase implements [Eraser].
func (m *Memory) BeginErase(ctx context.Context, partition string) error {
	return m.change(ctx, partition, "begin to erase partition", func() {
		delete(m.partitions, partition)
		m.erasing[partition] = true
	})
}

// Erase implements [Eraser].
func (m *Memory) Erase(ctx context.Context, partition string) error {
	return m.change(ctx, partition, "erase partition", func() {
		delete(m.partitions, partition)
		delete(m.erasing, partition)
		m.erased[partition] = time.Now().UTC()
	})
}

// CompleteErase implements [Eraser].
func (m *Memory) CompleteErase(ctx context.Context, partition string) error {
	return m.change(ctx, partition, "erase partition", func() {
		if m.erasing[partition] {
			delete(m.erasing, partition)
			m.erased[partition] = time.Now().UTC()
		}
	})
}

func (m *Memory) change(ctx context.Context, partition, doing string, fn func()) error {
	err := validPartition(partition)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return fmt.Errorf("%s: %w", doing, ErrClosed)
	}
	fn()
	return nil
}

// Erasing implements [Eraser].
func (m *Memory) Erasing(context.Context) ([]string, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return nil, fmt.Errorf("list what is being erased: %w", ErrClosed)
	}
	return slices.Sorted(maps.Keys(m.erasing)), nil
}

// Prove implements [Eraser].
func (m *Memory) Prove(ctx context.Context, partition string) (*Proof, error) {
	p := &Proof{}
	err := m.change(ctx, partition, "prove what is stored", func() {
		for name, t := range m.partitions {
			for range t.walk(Range{}) {
				p.Scanned++
				if name == partition {
					p.Found, p.Readable = p.Found+1, p.Readable+1
				}
			}
		}
		p.Erasing = m.erasing[partition]
		if at, ok := m.erased[partition]; ok {
			p.ErasedAt = &at
		}
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}
