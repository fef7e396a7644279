package plugin

import (
	"context"

	"github.com/tetratelabs/wazero/api"

	"github.com/agenthost/agenthost/host/plugin/internal/abi"
	"github.com/agenthost/agenthost/host/plugin/internal/linearmem"
)

// guest is the module of an instance: its memory, its globals and its functions.
type guest struct {
	module    api.Module
	memory    api.Memory
	linear    *linearmem.Memory   // that holds memory
	globals   []api.MutableGlobal // that an image saves besides memory
	functions [abi.ExportCount]api.Function
	stack     [1]uint64 // of a call: its parameter, then its result
}

// function returns an export, nil if the module has none. Each comes with a stack of
// its own, so those that are never called are never made.
func (g *guest) function(e abi.Export) api.Function {
	if g.functions[e] == nil {
		g.functions[e] = g.module.ExportedFunction(e.String())
	}
	return g.functions[e]
}

// memoryBytes returns the size of memory.
func (g *guest) memoryBytes() int64 {
	if g.memory == nil {
		return 0
	}
	return int64(g.memory.Size())
}

// bytes returns the front of memory.
func (g *guest) bytes(n int) []byte {
	b, _ := g.memory.Read(0, uint32(n))
	return b
}

// setGlobals sets the globals that an image saves.
func (g *guest) setGlobals(values []uint64) {
	for i, global := range g.globals {
		global.Set(values[i])
	}
}

// resize gives memory the size that it has in an image, unless proceed ends it. wazero has
// no way to make it smaller, but takes what the allocator gives when it asks for more; it
// asks for no more than the module's maximum, so a memory that has reached that keeps its
// size.
func (g *guest) resize(size int, proceed func(int) bool) bool {
	now := int(g.memory.Size())
	switch {
	case now == size:
		return true
	case now < size:
		_, ok := g.memory.Grow(uint32((size - now) / pageBytes))
		return ok
	}
	if !linearmem.Zero(g.bytes(now), linearmem.Range{Start: size, End: now}, proceed) {
		return false
	}
	g.linear.NextSize = size
	_, ok := g.memory.Grow(1)
	g.linear.NextSize = -1
	return ok && int(g.memory.Size()) == size
}

// memoryFull reports whether memory can not grow by another page under a limit. A guest
// learns that from memory.grow and then traps in a way of its own.
func (g *guest) memoryFull(limit int64) bool {
	return g.memory != nil && g.memoryBytes()+pageBytes > limit
}

// swollen reports whether memory, which a guest cannot make smaller, is near its limit.
func (g *guest) swollen(limit int64) bool { return g.memoryBytes() > limit/4*3 }

// close frees the module, in which nothing runs.
func (g *guest) close() {
	if g.module != nil {
		_ = g.module.Close(context.Background()) // there is nothing to do about an error
	}
}
