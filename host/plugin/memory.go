package plugin

import (
	"sync/atomic"

	"github.com/tetratelabs/wazero/experimental"

	"github.com/agenthost/agenthost/host"
)

// memories gives instances their linear memory, outside the Go heap where the
// system allows: the collector neither scans it nor lets it stand around twice,
// and an instance that is closed gives it back at once. It bounds the memory of
// all instances together.
type memories struct {
	limit int64
	used  atomic.Int64 // bytes that guests have
}

// linearMemory is one instance's memory. Its address never changes.
type linearMemory struct {
	from  *memories
	space space
	size  int // what the guest has
	next  int // what the next Reallocate gives, whatever it is asked for; -1 for what it is asked for
}

// Reallocate implements [experimental.LinearMemory]. It refuses what exceeds the
// bound on all instances, which the guest learns from memory.grow.
func (m *linearMemory) Reallocate(size uint64) []byte {
	n := int(size)
	if m.next >= 0 {
		n = m.next
	}
	if !m.from.take(int64(n - m.size)) {
		return nil
	}
	b := m.space.resize(m.size, n)
	if b == nil {
		m.from.take(int64(m.size - n))
		return nil
	}
	m.size = n
	return b
}

// Free implements [experimental.LinearMemory].
func (m *linearMemory) Free() {
	m.from.take(int64(-m.size))
	m.size = 0
	m.space.free()
}

// take adds n bytes to those in use, unless that is too many.
func (ms *memories) take(n int64) bool {
	if used := ms.used.Add(n); n > 0 && used > ms.limit {
		ms.used.Add(-n)
		return false
	}
	return true
}

// memoryMaker makes the memory of one instance. wazero has no way to say that
// there is none, so it panics with an error, which newInstance recovers.
type memoryMaker struct {
	from *memories
	made *linearMemory
}

// Allocate implements [experimental.MemoryAllocator].
func (a *memoryMaker) Allocate(_, most uint64) experimental.LinearMemory {
	s, err := reserve(int(most))
	if err != nil {
		panic(host.Errorf(host.ResourceExhausted, "reserve %d bytes of address space for a plugin's memory: %w", most, err))
	}
	a.made = &linearMemory{from: a.from, space: s, next: -1}
	return &firstMemory{a.made}
}

// firstMemory is a linearMemory whose first Reallocate may not fail.
type firstMemory struct{ *linearMemory }

func (m *firstMemory) Reallocate(size uint64) []byte {
	b := m.linearMemory.Reallocate(size)
	if b == nil && m.size == 0 && size > 0 {
		m.space.free()
		panic(m.from.exhausted())
	}
	return b
}

func (ms *memories) exhausted() error {
	return blameless(host.Errorf(host.ResourceExhausted, "all plugins together have the memory that the limit TotalMemoryBytes of %d allows", ms.limit).
		WithHint("raise the limit, or allow fewer or smaller instances"))
}

// clearAtMost is how much memory is set to zero by writing to it; beyond that it
// is given back to the system, which hands out zeroes. Writing costs 10 us a
// megabyte, and a page that was given back a microsecond or more at its next
// use.
const clearAtMost = 8 << 20

var (
	_ experimental.MemoryAllocator = (*memoryMaker)(nil)
	_ experimental.LinearMemory    = (*firstMemory)(nil)
)
