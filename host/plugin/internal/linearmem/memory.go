package linearmem

import (
	"errors"
	"sync/atomic"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/plugin/internal/fairsched"
)

// Budget bounds the linear memory of all instances together. Their memory lies outside the Go heap where the
// system allows: the collector neither scans it nor retains freed memory, and closing
// an instance returns its memory at once. The running calls of a flow may use as much
// memory as is still free, so a single greedy flow gets half, and the next flow always
// gets some. The host closes idle instances when the budget is [Budget.Tight]. Its
// methods may be called by many goroutines at once.
type Budget struct {
	Limit int64        // bytes; set before the first use
	used  atomic.Int64 // bytes that guests have
}

// Memory is the linear memory of one instance. On Linux and macOS its address never
// changes. It is for one goroutine at a time.
type Memory struct {
	// NextSize is the size that the next Reallocate sets instead of the requested one;
	// memory beyond it is zero then. -1 means the requested size.
	NextSize int

	budget *Budget
	flow   *fairsched.Flow // of the running call, nil without one
	space  Space
	size   int // the guest's size in bytes
}

// Reallocate changes the size of the memory and returns it. It returns nil for a size
// beyond the budget, which the guest learns from memory.grow.
func (m *Memory) Reallocate(size uint64) []byte {
	n, used := int(size), m.size
	if m.NextSize >= 0 {
		n = m.NextSize
		used = min(used, n)
	}
	if !m.budget.take(int64(n-m.size), m.flow) {
		return nil
	}
	b := m.space.Resize(used, n)
	if b == nil {
		m.budget.take(int64(m.size-n), m.flow)
		return nil
	}
	m.size = n
	return b
}

// Lend counts the memory for the flow of the call that uses it from now on; nil is for
// no call.
func (m *Memory) Lend(to *fairsched.Flow) {
	if m == nil {
		return
	}
	if m.flow != nil {
		m.flow.Memory.Add(int64(-m.size))
	}
	if m.flow = to; to != nil {
		to.Memory.Add(int64(m.size))
	}
}

// Free returns the memory to the system.
func (m *Memory) Free() {
	m.budget.take(int64(-m.size), m.flow)
	m.size, m.flow = 0, nil
	m.space.Free()
}

// Claim is memory that the host holds for an instance in addition to the module's own.
type Claim struct {
	Budget *Budget         // nil: the claim is not counted
	Flow   *fairsched.Flow // of the running call, nil without one
	size   int64

	refused bool // a claim for more was refused
}

// Set changes the size of the claim. It reports false, and changes nothing, if the
// budget has no room.
func (c *Claim) Set(n int64) bool {
	if n != c.size && c.Budget != nil && !c.Budget.take(n-c.size, c.Flow) {
		c.refused = true
		return false
	}
	c.size = n
	return true
}

// Size returns how many bytes are claimed.
func (c *Claim) Size() int64 { return c.size }

// Refused reports whether a call of Set has failed.
func (c *Claim) Refused() bool { return c.refused }

// Lend counts the memory for the flow of the call that uses it from now on; nil is for
// no call.
func (c *Claim) Lend(to *fairsched.Flow) {
	if c.Flow != nil {
		c.Flow.Memory.Add(-c.size)
	}
	if c.Flow = to; to != nil {
		to.Memory.Add(c.size)
	}
}

// take adds n bytes to those in use, and to those of a flow, unless that exceeds the
// budget or the flow's part.
func (b *Budget) take(n int64, by *fairsched.Flow) bool {
	own := int64(0)
	if by != nil {
		own = by.Memory.Add(n)
	}
	if used := b.used.Add(n); n <= 0 || used+own <= b.Limit {
		return true
	}
	b.used.Add(-n)
	if by != nil {
		by.Memory.Add(-n)
	}
	return false
}

// Used returns how many bytes guests have.
func (b *Budget) Used() int64 { return b.used.Load() }

// Tight reports whether the free part of the budget is too small to keep idle
// instances.
func (b *Budget) Tight() bool { return b.used.Load() > b.Limit/2 }

// Allocator makes the memory of one instance.
type Allocator struct {
	Budget *Budget
	Flow   *fairsched.Flow
	Made   *Memory // the result of Allocate
}

// Allocate makes the memory, which may grow to most bytes. The engine has no way to
// take an error, so Allocate and the first Reallocate panic with one.
func (a *Allocator) Allocate(most uint64) *FirstMemory {
	s, err := Reserve(int(most))
	if err != nil {
		panic(fault.Errorf(fault.ResourceExhausted, "reserve %d bytes of address space for a plugin's memory: %w", most, err))
	}
	a.Made = &Memory{budget: a.Budget, flow: a.Flow, space: s, NextSize: -1}
	return &FirstMemory{a.Made}
}

// FirstMemory is a [Memory] whose first Reallocate panics instead of failing.
type FirstMemory struct{ *Memory }

// Reallocate is [Memory.Reallocate].
func (m *FirstMemory) Reallocate(size uint64) []byte {
	b := m.Memory.Reallocate(size)
	if b == nil && m.size == 0 && size > 0 {
		m.space.Free()
		panic(m.budget.Exhausted())
	}
	return b
}

// Exhausted returns the error of a call for which the budget has no room; it wraps
// [ErrExhausted].
func (b *Budget) Exhausted() error {
	return fault.Errorf(fault.ResourceExhausted, "all plugins together have what a tenant may have of the limit TotalMemoryBytes of %d, which is as much as is free%w", b.Limit, ErrExhausted).
		WithHint("raise the limit, or allow fewer or smaller instances")
}

// ErrExhausted is in the chain of [Budget.Exhausted]. It adds nothing to its text.
var ErrExhausted = errors.New("")

// clearAtMost is how much memory is set to zero by writing to it; beyond that, its
// pages are returned to the system, which hands out zeroes. Writing costs 10 us a
// megabyte, and a returned page a microsecond or more at its next use.
const clearAtMost = 8 << 20

// zero sets memory that Reserve gave to zero.
func zero(b []byte) {
	if len(b) <= clearAtMost {
		clear(b)
		return
	}
	release(b)
}
