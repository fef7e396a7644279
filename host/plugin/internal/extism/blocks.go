package extism

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/agenthost/agenthost/host/plugin/internal/linearmem"
)

// blocks is the memory that an Extism plugin and its host exchange bytes in. A
// plugin names a block by the offset where it begins and moves its bytes a word
// at a time, through the host.
//
// A plugin may touch any byte between the first block and the end of the last
// page in use, as in Extism itself. It can garble nothing but its own bytes
// there: where blocks begin and how long they are is kept beside them, not
// between them.
//
// Their memory lies outside the Go heap, like a module's own, and counts with it;
// so do the records of the blocks, and the plugin's variables.
type blocks struct {
	space linearmem.Space
	all   []byte  // of space, what can be used; zero behind mem
	mem   []byte  // from offset 0, whole pages, as far as offsets have been given out
	top   int     // where the next new block begins
	list  []block // by offset
	freed [bits.UintSize][]int32
	limit int // bytes that blocks may take, with their records

	claim linearmem.Claim
	vars  int // bytes of the plugin's variables
}

// block is one allocation. A freed one has no bytes in use.
type block struct {
	at, size, used uint32
	live           bool
}

const (
	// pageBytes is by how much the memory grows.
	pageBytes = 64 << 10
	// blocksStart is where the first block begins: offset 0 is none.
	blocksStart = 64
	// blockAlign is what offsets are multiples of.
	blockAlign = 8
	// MaxBlockBytes is what a limit can be: offsets are kept in 32 bits.
	MaxBlockBytes = 1 << 31
	// blockWeight is what the limit counts for each block beside its bytes: it
	// is kept in the list, and once freed in a free list too.
	blockWeight = 32
)

// alloc returns the offset of a new block of n zero bytes; false if there is no
// room for it.
func (b *blocks) alloc(n uint64) (at uint64, ok bool) {
	if n == 0 {
		return 0, true
	}
	if n > uint64(b.limit) {
		return 0, false
	}
	size := (int(n) + blockAlign - 1) &^ (blockAlign - 1)
	if i, found := b.takeFreed(size); found {
		f := &b.list[i]
		f.used, f.live = uint32(n), true
		clear(b.mem[f.at : int(f.at)+size])
		return uint64(f.at), true
	}
	top := max(b.top, blocksStart)
	if top+size+(len(b.list)+1)*blockWeight > b.limit {
		return 0, false
	}
	old := len(b.mem)
	if !b.hold(top+size, len(b.list)+1) || !b.grow(top+size) {
		return 0, false
	}
	if top < old { // a plugin may have written there
		clear(b.mem[top:min(top+size, old)])
	}
	b.list = append(b.list, block{at: uint32(top), size: uint32(size), used: uint32(n), live: true})
	b.top = top + size
	return uint64(top), true
}

// grow makes room for offsets below end; false if the system has no memory. New
// memory is zero.
func (b *blocks) grow(end int) bool {
	if end = wholePages(end); end <= len(b.mem) {
		return true
	}
	if end > len(b.all) && !b.open(end) {
		return false
	}
	b.mem = b.all[:end]
	return true
}

// open makes memory below end usable; false if the system has none.
func (b *blocks) open(end int) bool {
	if b.all == nil {
		s, err := linearmem.Reserve(wholePages(b.limit))
		if err != nil {
			return false
		}
		b.space = s
	}
	all := b.space.Resize(len(b.all), end)
	if all != nil {
		b.all = all
	}
	return all != nil
}

// hold claims memory for offsets below end and a list of n blocks, and reports
// whether there is any. Pages that are there already stay claimed.
func (b *blocks) hold(end, n int) bool {
	return b.claim.Set(int64(max(wholePages(end), len(b.all)) + wholePages(n*blockWeight+b.vars)))
}

// keepVars notes how large the plugin's variables are; false if there is no
// memory for them.
func (b *blocks) keepVars(n int) bool {
	old := b.vars
	b.vars = n
	if !b.hold(0, len(b.list)) {
		b.vars = old
		return false
	}
	return true
}

// wholePages is n in whole pages.
func wholePages(n int) int { return (n + pageBytes - 1) &^ (pageBytes - 1) }

// takeFreed takes a freed block of at least size bytes off the lists. Those of
// class c have 2^c bytes or more; the last of the class of size itself may have
// enough, and any of the next class has.
func (b *blocks) takeFreed(size int) (index int32, ok bool) {
	class := bits.Len(uint(size)) - 1
	for c := class; c <= class+1; c++ {
		list := b.freed[c]
		if n := len(list); n > 0 && int(b.list[list[n-1]].size) >= size {
			b.freed[c] = list[:n-1]
			return list[n-1], true
		}
	}
	return 0, false
}

// find returns the index of the live block at an offset, -1 without one.
func (b *blocks) find(at uint64) int {
	i, ok := slices.BinarySearchFunc(b.list, at, func(v block, at uint64) int {
		switch {
		case uint64(v.at) < at:
			return -1
		case uint64(v.at) > at:
			return 1
		}
		return 0
	})
	if !ok || !b.list[i].live {
		return -1
	}
	return i
}

// free gives a block back. An offset that names none is passed over.
func (b *blocks) free(at uint64) {
	i := b.find(at)
	if i < 0 {
		return
	}
	f := &b.list[i]
	f.live, f.used = false, 0
	if i == len(b.list)-1 { // the newest: as if it had never been
		b.top = int(f.at)
		b.list = b.list[:i]
		return
	}
	class := bits.Len(uint(f.size)) - 1
	b.freed[class] = append(b.freed[class], int32(i))
}

// length returns the length of the block at an offset, 0 without one.
func (b *blocks) length(at uint64) uint64 {
	if i := b.find(at); i >= 0 {
		return uint64(b.list[i].used)
	}
	return 0
}

// bytes returns a view of the block at an offset, nil without one.
func (b *blocks) bytes(at uint64) []byte {
	i := b.find(at)
	if i < 0 {
		return nil
	}
	f := b.list[i]
	return b.mem[f.at : f.at+f.used : f.at+f.used]
}

// view returns the n bytes at an offset, whatever blocks they are of; false if
// they are not all there.
func (b *blocks) view(at, n uint64) ([]byte, bool) {
	size := uint64(len(b.mem))
	if at < blocksStart || at > size || n > size-at {
		return nil, false
	}
	return b.mem[at : at+n : at+n], true
}

func (b *blocks) load64(at uint64) (v uint64, ok bool) {
	bytes, ok := b.view(at, 8)
	if !ok {
		return 0, false
	}
	return binary.LittleEndian.Uint64(bytes), true
}

func (b *blocks) store64(at, v uint64) bool {
	bytes, ok := b.view(at, 8)
	if ok {
		binary.LittleEndian.PutUint64(bytes, v)
	}
	return ok
}

// put makes a block of some bytes and returns its offset; false if there is no
// room for it.
func (b *blocks) put(bytes []byte) (at uint64, ok bool) {
	at, ok = b.alloc(uint64(len(bytes)))
	if ok && at != 0 {
		copy(b.mem[at:], bytes)
	}
	return at, ok
}

// maxKeptBlocks bounds the memory and the list that are kept between calls.
const maxKeptBlocks = 64 << 10

// reset forgets all blocks, and gives back their memory if it is more than keep
// bytes.
func (b *blocks) reset(keep int) {
	b.top = 0
	for c := range b.freed {
		b.freed[c] = b.freed[c][:0]
	}
	if len(b.all) > keep || cap(b.list)*blockWeight > keep {
		b.drop()
	}
	clear(b.mem)
	b.mem, b.list = b.all[:0], b.list[:0]
	b.hold(0, 0)
}

// drop gives back all memory.
func (b *blocks) drop() {
	b.space.Free()
	b.all, b.mem, b.list, b.freed = nil, nil, nil, [bits.UintSize][]int32{}
}

// size is how many bytes the host holds.
func (b *blocks) size() int { return len(b.mem) + len(b.list)*blockWeight + b.vars }

// close gives back all memory and its claim.
func (b *blocks) close() {
	b.drop()
	b.vars = 0
	b.claim.Set(0)
}
