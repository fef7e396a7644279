package plugin

import (
	"errors"
	"sync/atomic"

	"github.com/tetratelabs/wazero/experimental"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/internal/fairsched"
)

// memories gives instances their linear memory, outside the Go heap where the
// system allows: the collector neither scans it nor lets it stand around twice,
// and an instance that is closed gives it back at once. It bounds the memory of
// all instances together. A tenant's running calls may have as much of it as is
// still free, so a single greedy one gets half, and there is always some for the
// next; and what is idle is given up when more than half is in use.
type memories struct {
	limit int64
	used  atomic.Int64 // bytes that guests have
}

// linearMemory is one instance's memory. Its address never changes.
type linearMemory struct {
	from  *memories
	share *fairsched.Flow // of the tenant whose call runs, nil while none does
	space space
	size  int // what the guest has
	next  int // what the next Reallocate gives, whatever it is asked for, and all beyond is zero; -1 for what it is asked for
}

// Reallocate implements [experimental.LinearMemory]. It refuses what exceeds the
// bound on all instances, which the guest learns from memory.grow.
func (m *linearMemory) Reallocate(size uint64) []byte {
	n, used := int(size), m.size
	if m.next >= 0 {
		n = m.next
		used = min(used, n)
	}
	if !m.from.take(int64(n-m.size), m.share) {
		return nil
	}
	b := m.space.resize(used, n)
	if b == nil {
		m.from.take(int64(m.size-n), m.share)
		return nil
	}
	m.size = n
	return b
}

// lend says whose call the memory is used by from now on; nil: nobody's.
func (m *linearMemory) lend(to *fairsched.Flow) {
	if m == nil {
		return
	}
	if m.share != nil {
		m.share.Memory.Add(int64(-m.size))
	}
	if m.share = to; to != nil {
		to.Memory.Add(int64(m.size))
	}
}

// Free implements [experimental.LinearMemory].
func (m *linearMemory) Free() {
	m.from.take(int64(-m.size), m.share)
	m.size, m.share = 0, nil
	m.space.free()
}

// claim is memory that the host holds for an instance beside the module's own.
type claim struct {
	from  *memories       // nil: nobody counts
	share *fairsched.Flow // of the tenant whose call runs, nil while none does
	size  int64

	refused bool // there was no more to claim
}

// set changes how much it is. More may be refused; then it stays as it is.
func (c *claim) set(n int64) bool {
	if n != c.size && c.from != nil && !c.from.take(n-c.size, c.share) {
		c.refused = true
		return false
	}
	c.size = n
	return true
}

// bytes is how much is claimed.
func (c *claim) bytes() int64 { return c.size }

// wasRefused reports whether there was once no more to claim.
func (c *claim) wasRefused() bool { return c.refused }

// lend says whose call the memory is used by from now on; nil: nobody's.
func (c *claim) lend(to *fairsched.Flow) {
	if c.share != nil {
		c.share.Memory.Add(-c.size)
	}
	if c.share = to; to != nil {
		to.Memory.Add(c.size)
	}
}

// take adds n bytes to those in use, and to a tenant's, unless that is too many.
func (ms *memories) take(n int64, by *fairsched.Flow) bool {
	own := int64(0)
	if by != nil {
		own = by.Memory.Add(n)
	}
	if used := ms.used.Add(n); n <= 0 || used+own <= ms.limit {
		return true
	}
	ms.used.Add(-n)
	if by != nil {
		by.Memory.Add(-n)
	}
	return false
}

// inUse is how many bytes guests have.
func (ms *memories) inUse() int64 { return ms.used.Load() }

// tight reports whether there is too little left to keep what is idle.
func (ms *memories) tight() bool { return ms.used.Load() > ms.limit/2 }

// memoryMaker makes the memory of one instance. wazero has no way to say that
// there is none, so it panics with an error, which newInstance recovers.
type memoryMaker struct {
	from  *memories
	share *fairsched.Flow
	made  *linearMemory
}

// Allocate implements [experimental.MemoryAllocator].
func (a *memoryMaker) Allocate(_, most uint64) experimental.LinearMemory {
	s, err := reserve(int(most))
	if err != nil {
		panic(host.Errorf(host.ResourceExhausted, "reserve %d bytes of address space for a plugin's memory: %w", most, err))
	}
	a.made = &linearMemory{from: a.from, share: a.share, space: s, next: -1}
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
	return host.Errorf(host.ResourceExhausted, "all plugins together have what a tenant may have of the limit TotalMemoryBytes of %d, which is as much as is free%w", ms.limit, errNoMemory).
		WithHint("raise the limit, or allow fewer or smaller instances")
}

// errNoMemory adds nothing to an error's text: it is what errors.Is finds.
var errNoMemory = errors.New("")

// clearAtMost is how much memory is set to zero by writing to it; beyond that it
// is given back to the system, which hands out zeroes. Writing costs 10 us a
// megabyte, and a page that was given back a microsecond or more at its next
// use.
const clearAtMost = 8 << 20

// zero sets memory that reserve gave to zero.
func zero(b []byte) {
	if len(b) <= clearAtMost {
		clear(b)
		return
	}
	release(b)
}

var (
	_ experimental.MemoryAllocator = (*memoryMaker)(nil)
	_ experimental.LinearMemory    = (*firstMemory)(nil)
)
