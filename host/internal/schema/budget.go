package schema

import (
	"context"
	"fmt"
	"runtime"
)

// Schemas come from plugins and values from models and guests, and a small schema
// can ask for more work than any machine has: twenty definitions that each refer to
// the next one twice are a million checks of one value. Every step of a validation is
// therefore charged in advance, in units of work. A unit takes 2 to 27 ns in the worst
// known schemas, as BenchmarkSchemaBar measures.

// The bounds of one validation. A value gets baseWork, more for each value within it
// and for each byte, and never more than maxWork; explaining the faults gets
// explainWork on top. Together they bound the processor time of one validation,
// whatever the schema and the value are.
const (
	baseWork     = 1_000_000
	workPerValue = 400
	workPerByte  = 8
	maxWork      = 5_000_000
	explainWork  = 500_000
)

// pieceWork is how much work is done before other goroutines get the processor: less
// than a millisecond, and less than 10 with garbage collection.
const pieceWork = 20_000

// maxValueDepth bounds the nesting of a value that is validated, and of a schema
// with all the data in it.
const maxValueDepth = 512

// maxNestedRules bounds how many rules apply within each other during one validation:
// those that apply to one value, and those to the values within it. With
// maxValueDepth and maxChain it bounds the stack: a step takes less than 1 kB.
const maxNestedRules = 4096

// TooManyChecksError says that a schema and a value together ask for more work than a
// bound allows, so that it is not known whether the value fits.
type TooManyChecksError struct{ what string }

func (e TooManyChecksError) Error() string { return e.what }

// errTooDeep says that a value is nested deeper than validation goes.
func errTooDeep() error {
	return fmt.Errorf("JSON is nested deeper than %d", maxValueDepth)
}

// workMeter holds the remaining work of one validation.
type workMeter struct {
	ctx   context.Context // the lifetime of the validation; nil: it cannot be ended
	left  int
	piece int    // work since the last yield
	yield func() // yields the processor; nil is runtime.Gosched
}

// workFor returns the work that a value of so many nodes and bytes gets.
func workFor(nodes, size int) int {
	return min(baseWork+workPerValue*nodes+workPerByte*size, maxWork)
}

// spend charges a step before it is taken. It panics with a workStop if the step may
// not be taken, and regularly yields to other goroutines. A step costs at most as much
// as reading the longest string of a value once.
func (m *workMeter) spend(n int) {
	m.left -= n
	if m.piece += n; m.left < 0 || m.piece > pieceWork {
		m.pause()
	}
}

func (m *workMeter) pause() {
	if m.left < 0 {
		panic(workStop{TooManyChecksError{"the schema takes too many checks"}})
	}
	m.piece = 0
	if m.ctx != nil && m.ctx.Err() != nil {
		panic(workStop{contextEnd(m.ctx)})
	}
	if m.yield != nil {
		m.yield()
		return
	}
	runtime.Gosched()
}

// workStop ends a validation from within.
type workStop struct{ err error }

// stopped runs work and returns why it was stopped, nil if it was completed.
func stopped(work func()) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case workStop:
			err = p.err
		default:
			panic(p)
		}
	}()
	work()
	return nil
}

// EndedError says that a context has ended before the work was done.
type EndedError struct {
	Reason error // context.Canceled or context.DeadlineExceeded
	Cause  error // of the end
}

func contextEnd(ctx context.Context) error { return &EndedError{ctx.Err(), context.Cause(ctx)} }

func (e *EndedError) Error() string { return e.Cause.Error() }

func (e *EndedError) Unwrap() error { return e.Cause }

// Is makes the end recognisable as context.Canceled or context.DeadlineExceeded.
func (e *EndedError) Is(target error) bool { return target == e.Reason }
