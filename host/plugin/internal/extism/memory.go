package extism

import (
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/internal/callmeter"
)

// memory is the blocks as the guest reaches them: what it reads and writes has a price, and
// a guest that names bytes which are not there is stopped.
type memory struct {
	meter  *callmeter.Meter
	blocks blocks
}

// stopOutside stops a guest that names bytes which are not there.
func (m *memory) stopOutside(fn string, at, n uint64) {
	m.meter.Stop(host.Errorf(host.Internal, "%s: %s names %d bytes at offset %d, outside its blocks", m.meter.Subject(), fn, n, at).
		WithHint("the plugin is broken"))
}

// stopNoRoom stops a guest for whose block there is no room.
func (m *memory) stopNoRoom(n uint64) {
	if m.blocks.claim.Refused() {
		m.stopExhausted()
	}
	m.meter.Stop(host.Errorf(host.ResourceExhausted, "%s asked for a block of %d bytes, which the limit BlockBytes of %d has no room for",
		m.meter.Subject(), n, m.blocks.limit).WithHint("raise the limit, or free blocks that are done with"))
}

// stopExhausted stops a guest for which the host has no memory.
func (m *memory) stopExhausted() {
	m.meter.StopBlameless(m.blocks.claim.Budget.Exhausted())
}

// put gives the guest a block of some bytes.
func (m *memory) put(bytes []byte) uint64 {
	m.meter.Charge(int64(len(bytes)) / callmeter.BytesPerInstruction)
	at, ok := m.blocks.put(bytes)
	if !ok {
		m.stopNoRoom(uint64(len(bytes)))
	}
	return at
}

// read returns a block that the guest hands over, and charges for it. A block that is not
// there is empty.
func (m *memory) read(at uint64) []byte {
	b := m.blocks.bytes(at)
	m.meter.Charge(int64(len(b)) / callmeter.BytesPerInstruction)
	return b
}

func (m *memory) alloc(n uint64) uint64 {
	if n <= uint64(m.blocks.limit) { // else there is no room anyway
		m.meter.Charge(int64(n) / callmeter.BytesPerInstruction)
	}
	at, ok := m.blocks.alloc(n)
	if !ok {
		m.stopNoRoom(n)
	}
	return at
}

func (m *memory) load8(at uint64) uint64 {
	b, ok := m.blocks.view(at, 1)
	if !ok {
		m.stopOutside("load_u8", at, 1)
	}
	return uint64(b[0])
}

func (m *memory) load64(at uint64) uint64 {
	v, ok := m.blocks.load64(at)
	if !ok {
		m.stopOutside("load_u64", at, 8)
	}
	return v
}

func (m *memory) store8(at, v uint64) {
	b, ok := m.blocks.view(at, 1)
	if !ok {
		m.stopOutside("store_u8", at, 1)
	}
	b[0] = byte(v)
}

func (m *memory) store64(at, v uint64) {
	if !m.blocks.store64(at, v) {
		m.stopOutside("store_u64", at, 8)
	}
}
