package wasmmeter

import (
	"time"

	"github.com/agenthost/agenthost/host/plugin/internal/refusal"
)

// This file estimates how long wazero takes to compile a function, because some
// small ones take minutes: 400 nested loops with 400 locals are 6 kB and 81 s.

// shape counts the parts of a function on which its compile time depends.
type shape struct {
	blocks  int // basic blocks that the compiler makes
	loops   int
	nested  int     // loops around the innermost one, with itself
	deepest int     // frames around the innermost one, with itself
	labels  int     // in jump tables
	passed  int     // values that branches pass
	live    float64 // operands beyond freeCrossing, summed over basic blocks
	reads   int     // of locals and globals
	memory  int     // loads and stores
	calls   int
	divides int
	tables  int // accesses of tables, calls through them with them
	bulk    int // operations on a length
}

// The times below are measured on one core of a 2020s server (wazero 1.12, amd64), each
// with modules that consist of the measured part, and rounded up. Real modules take a
// third of their estimate: 1.0 s of 3.5 s for a 3 MB Go guest, 0.3 s of 1.0 s for
// QuickJS. BenchmarkCompileWork compares.
const (
	workByte     = 400 * time.Nanosecond // of code
	workFunction = 3 * time.Microsecond  // an empty function
	workDivide   = 5 * time.Microsecond  // a division
	workLocal    = 25 * time.Nanosecond  // declared
	workGlobal   = 10 * time.Nanosecond  // of the module, for each function
	workMemory   = 8 * time.Microsecond  // a load or store
	workTable    = 30 * time.Microsecond // an access to a table
	workBulk     = 30 * time.Microsecond // a bulk operation
	workCall     = 2 * time.Microsecond  // a call
	workReload   = 300 * time.Nanosecond // for each mutable global, after each call
	workLabel    = 8 * time.Microsecond  // in a jump table
	workPassed   = 300 * time.Nanosecond // a value that a branch passes
	workLive     = 130 * time.Nanosecond // a value that is live in a block: liveness analysis lists each, and registers are given out by these lists
	workBlocks   = 2 * time.Nanosecond   // for two blocks: each is compared with those that dominate it
	workSearch   = 10 * time.Nanosecond  // for a read and a block: a value is searched block by block
	workMerge    = 4 * time.Microsecond  // for a local and a loop: its header merges the local's values
	workLoops    = 5 * time.Nanosecond   // for a local, two loops, and a level: merges of values are reduced until nothing changes
	bulkBlocks   = 8                     // basic blocks in a bulk operation
)

// work estimates the time to compile the function that was scanned last.
func (s *codeScan) work(mutableGlobals int) time.Duration {
	h := &s.shape
	n := func(v int) float64 { return float64(v) }
	blocks := n(h.blocks + bulkBlocks*h.bulk)
	total := 0.0
	for _, w := range []struct {
		each time.Duration
		n    float64
	}{
		{workByte, n(s.size())},
		{workFunction, 1},
		{workLocal, float64(s.locals)},
		{workDivide, n(h.divides)},
		{workGlobal, n(len(s.m.Globals))},
		{workMemory, n(h.memory)},
		{workTable, n(h.tables)},
		{workBulk, n(h.bulk)},
		{workCall, n(h.calls)},
		{workReload, n(h.calls) * n(mutableGlobals)},
		{workLabel, n(h.labels)},
		{workPassed, n(h.passed)},
		{workLive, h.live + s.cross.live},
		{workBlocks, blocks * blocks},
		{workSearch, blocks * n(h.reads+h.memory)},
		{workMerge, float64(s.locals) * n(h.loops)},
		{workLoops, float64(s.locals) * n(h.loops) * n(h.loops) * n(h.nested)},
	} {
		total += float64(float64(w.each) * w.n) // the outer conversion keeps the sum the same on every machine
	}
	return time.Duration(min(total, float64(mostWork)))
}

// mostWork is an estimate that no limit allows, far from overflow.
const mostWork = 1000 * time.Hour

// mutableGlobals is how many values compiled code loads again after each call.
func (m *Module) mutableGlobals() int {
	n := 0
	for _, g := range m.Globals {
		if g.Mutable {
			n++
		}
	}
	return n
}

// allowedWork is how long code of the given size may take to compile by
// estimate: the limit, and as much again for every workBytes, because honest
// work grows with size.
func (l *Limits) allowedWork(size int) time.Duration {
	return time.Duration(float64(l.CompileTime) * (1 + float64(size)/workBytes))
}

// workBytes is the size for which code may take as long again.
const workBytes = 800_000

// budget adds up the compile times of a module's functions.
type budget struct {
	limits  *Limits
	mutable int // mutable globals
	allowed time.Duration
	total   time.Duration
}

func newBudget(m *Module, l *Limits) *budget {
	return &budget{limits: l, mutable: m.mutableGlobals(), allowed: l.allowedWork(m.vectors[secCode].items.size())}
}

// add adds the function that was scanned last. It refuses the module when that
// function, or all functions so far, take too long.
func (b *budget) add(s *codeScan) error {
	w := s.work(b.mutable)
	if allowed := b.limits.allowedWork(s.size()); w > allowed {
		return refusal.Invalid("function %d would take about %s to compile, and the limit CompileWork allows %s for its size; it has %d locals, %d blocks, %d loops (%d in one another), %d entries in jump tables",
			s.index, round(w), round(allowed), s.locals, s.shape.blocks, s.shape.loops, s.shape.nested, s.shape.labels).
			WithHint("split the function into smaller ones, optimise for size, or raise the limit if you trust the author")
	}
	if b.total += w; b.total > b.allowed {
		return refusal.Invalid("the module would take more than %s to compile, which is what the limit CompileWork allows for its size", round(b.allowed)).
			WithHint("split its largest functions, optimise for size, or raise the limit if you trust the author")
	}
	return nil
}

func round(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
