package plugin

import (
	"reflect"
	"unsafe"

	"github.com/tetratelabs/wazero/api"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
	"github.com/agenthost/agenthost/host/plugin/internal/callmeter"
	"github.com/agenthost/agenthost/host/plugin/internal/linearmem"
	"github.com/agenthost/agenthost/host/plugin/internal/wasmmeter"
)

// callStack bounds the stack that wazero grows for the calls of an instance, and
// counts it in the limit TotalMemoryBytes. The stack lies in the Go heap, begins with
// 10 kB, and doubles up to 108 MB; wazero has no way to bound that. So a guest gets
// units of stack (package wasmmeter) for no more than may be allocated, and asks for
// more before wazero does. How large the stack is in fact the host reads where the
// guest asks; the estimates decide only when that is.
type callStack struct {
	fn      api.Function      // whose stack it is: each has its own
	depth   api.MutableGlobal // the guest's counter
	calls   int64             // what it begins with: the limit CallDepth
	frame   int64             // bytes that the heaviest frame takes
	room    int64             // bytes that the stack may be allocated
	granted int64             // units handed out
	claim   linearmem.Claim   // what counts for it, and for tables
	tables  int64             // of claim, bytes for tables

	first int64 // room that a call begins with
	units int64 // units that a call begins with

	callDepth int // the limit CallDepth
}

const (
	// smallStack is up to which size a stack is not counted, and kept with its
	// instance: a goroutine's may be as large.
	smallStack = 64 << 10
	// stackStep is the least that a guest is let go deeper at a time.
	stackStep = 8 << 10
	// stackSlack is what wazero allocates beside the frames.
	stackSlack = 256
	// reportedStack is from which size a stack shows in the cost of a call.
	reportedStack = 2 << 20
	// growApart is by how much a stack grows apart.
	growApart = 2 << 20
	// stackShare is how often a byte of stack is counted: a stack that grows
	// leaves its former halves to the collector, which lets as much garbage stand
	// as there are bytes in use.
	stackShare = 2
)

// start sets what a call may do before the guest asks for more: its stack has room
// for the heaviest frame, and the one that grows it.
func (s *callStack) start(calls, frame int64) {
	s.calls, s.frame = calls, frame
	s.first = max(smallStack, roomFor(stackStep+frame, frame))
	used := (s.first - frame - stackSlack) / 2 // the inverse of roomFor
	s.units = min((used-frame)/wasmmeter.StackUnit, calls)
	s.room = s.first
}

// roomFor is the most that wazero allocates for a stack of which so many bytes are
// used: it doubles what there is and adds the frame that did not fit.
func roomFor(used, frame int64) int64 { return 2*used + frame + stackSlack }

// stackBytes returns the bytes counted for a stack of some size.
func stackBytes(room int64) int64 {
	if room <= smallStack {
		return 0
	}
	return stackShare * room
}

// open begins to count the stack of an instance that was just instantiated, and so many
// bytes of tables. It reports false if there is no memory for them.
func (s *callStack) open(depth api.MutableGlobal, callDepth int, claim linearmem.Claim, tables int64) bool {
	s.depth, s.callDepth, s.claim, s.tables = depth, callDepth, claim, tables
	calls, units := wasmmeter.UnpackDepth(int64(s.depth.Get()))
	s.start(calls, units*wasmmeter.StackUnit)
	if !s.claim.Set(stackBytes(s.room) + s.tables) {
		return false
	}
	s.begin()
	return true
}

// peak returns the bytes of stack and tables for a call's cost. It leaves small stacks
// out: how often one has doubled depends on the calls before.
func (s *callStack) peak() int64 {
	if s.room < reportedStack {
		return s.tables
	}
	return s.claim.Size()
}

// begin hands out the units that fit the first room.
func (s *callStack) begin() {
	s.granted = s.units
	s.depth.Set(uint64(wasmmeter.PackDepth(s.calls, s.granted)))
}

// use says whose stack the next call runs on.
func (s *callStack) use(fn api.Function) api.Function {
	s.fn = fn
	return fn
}

// deepen is the check of a guest that has gone as deep as its units allow: it reserves
// memory for a larger stack and hands out more, or stops the guest. sp lies at the
// end of the used part of the stack.
func (s *callStack) deepen(m *callmeter.Meter, depth int64, sp *uint64) {
	calls, units := wasmmeter.UnpackDepth(depth)
	if calls < 0 {
		m.Stop(host.Errorf(host.ResourceExhausted, "%s recursed deeper than the limit CallDepth of %d", m.Subject(), s.callDepth))
	}
	asked := s.granted - units
	used, size := s.measure(sp, asked*wasmmeter.StackUnit)
	free := max(size, (s.room-s.frame-stackSlack)/2) - used - s.frame
	if free < stackStep {
		step := max(used, stackStep)
		s.reserve(m, roomFor(used+step+s.frame, s.frame))
		free = step
	}
	more := free / wasmmeter.StackUnit
	if used > asked*wasmmeter.StackUnit { // the frames are heavier than their estimate
		more = int64(float64(more) * float64(asked*wasmmeter.StackUnit) / float64(used))
	}
	more = max(1, min(more, max(asked, stackStep/wasmmeter.StackUnit)))
	more = min(more, calls)
	s.granted = asked + more
	s.depth.Set(uint64(wasmmeter.PackDepth(calls, more)))
}

// reserve counts room for a stack that is about to grow, or stops the guest. Growing takes
// the host about as long as writing so many bytes, and other calls wait for it.
func (s *callStack) reserve(m *callmeter.Meter, room int64) {
	if !s.claim.Set(stackBytes(room) + s.tables) {
		m.Stop(blameless(host.Errorf(host.ResourceExhausted, "%s recursed so deep that its stack is more than a tenant may have of the limit TotalMemoryBytes of %d, which is as much as is free",
			m.Subject(), s.claim.Budget.Limit).WithHint("recurse less deep, raise the limit, or run fewer calls at once")))
	}
	grown := room - s.room
	s.room = room
	if !m.YieldAfterBytes(int(grown)) {
		m.Stop(m.LateError())
	}
	if grown >= growApart {
		m.BeginGrowth(grown / callmeter.BytesPerInstruction)
	}
}

// Suspend implements [callmeter.Stack].
func (s *callStack) Suspend() {
	if _, size := stackOf(s.fn); 0 < size && int64(size) < s.room {
		s.claim.Set(stackBytes(int64(size)) + s.tables)
	}
}

// Resume implements [callmeter.Stack].
func (s *callStack) Resume() error {
	if !s.claim.Set(stackBytes(s.room) + s.tables) {
		return blameless(s.claim.Budget.Exhausted())
	}
	return nil
}

// measure returns how many bytes of the stack are used, and how many it has. Where
// wazero does not keep the stack as it does today, the estimate takes their place.
func (s *callStack) measure(sp *uint64, estimate int64) (used, size int64) {
	base, n := stackOf(s.fn)
	at := uintptr(unsafe.Pointer(sp))
	if n == 0 || at < base || at >= base+uintptr(n) {
		return estimate, estimate
	}
	return int64(base + uintptr(n) - at), int64(n)
}

// stackOf returns where the stack of a function's calls lies and how long it is,
// which wazero keeps in a field that it does not export; 0 without such a field.
// TestStackIsMeasured fails when that changes.
func stackOf(fn api.Function) (base uintptr, size int) {
	v := reflect.ValueOf(fn)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return 0, 0
	}
	f := v.Elem().FieldByName("stack")
	if !f.IsValid() || f.Kind() != reflect.Slice || f.Type().Elem().Kind() != reflect.Uint8 {
		return 0, 0
	}
	return f.Pointer(), f.Len()
}

// shrink drops the stacks of functions, of an instance whose call went deep. A stack
// that is known to be no larger than smallStack stays: it counts for nothing, and the
// next call would allocate the like again.
func (s *callStack) shrink(functions *[abi.ExportCount]api.Function) {
	last := s.fn
	s.fn = nil
	if s.depth == nil {
		return
	}
	wide, deep := s.first > smallStack, s.room > s.first
	if wide || deep { // the first room is counted once, for one of the functions
		for e, fn := range functions {
			if fn != nil && (deep || fn != last) && !isSmallStack(fn) {
				functions[e] = nil
			}
		}
	}
	if deep {
		s.room = s.first
		s.claim.Set(stackBytes(s.first) + s.tables)
	}
	if s.granted != s.units { // a guest that returns gives back the units it has used
		s.begin()
	}
}

// isSmallStack reports whether the stack of a function's calls is known to be so small
// that it is not counted.
func isSmallStack(fn api.Function) bool {
	_, size := stackOf(fn)
	return 0 < size && size <= smallStack
}
