// Package callbatch carries what running calls report to the goroutine that reads it.
//
// A [Batch] is shared by calls that run at the same time. Their events wait in a bounded
// queue for the reader. A notice says that something is kept elsewhere, within bounds, and
// waits for no reader: one for which there is no room is remembered, so that no call and no
// slow reader holds it up.
package callbatch

import (
	"context"
	"math"
	"slices"
	"sync"

	"github.com/agenthost/agenthost/host/fault"
)

// How many events running calls may be ahead of the reader: eventsPerCall for each call of
// a batch, up to maxEvents. Room for all that a large batch may use would be most of what
// one call allocates. A batch with calls that make others has all of it: without, each of
// their thousands would wait for the reader.
const (
	maxEvents     = 64
	eventsPerCall = 8
)

// Batch holds the reports of calls. Its methods are safe for concurrent use; Events and
// TakeMissed are the reader's.
type Batch struct {
	events chan any
	over   chan struct{} // closed when nothing reads the events any more

	mu     sync.Mutex
	missed []any // notices for which there was no room: the last change, and another once
}

// Changed is the notice that the state changed, up to a revision.
type Changed struct{ Revision int64 }

// New returns the batch of a number of calls; nested says that some may make others.
func New(calls int, nested bool) *Batch {
	room := min(maxEvents, eventsPerCall*calls)
	if nested {
		room = maxEvents
	}
	return &Batch{events: make(chan any, room), over: make(chan struct{})}
}

// Close ends the batch: no call waits for a reader then.
func (b *Batch) Close() { close(b.over) }

// Events returns the queue.
func (b *Batch) Events() <-chan any { return b.events }

// Mention queues a notice, if there is room; otherwise the reader takes it when it has read
// the waiting events.
func (b *Batch) Mention(what any) {
	select {
	case b.events <- what:
		return
	default:
	}
	b.noteMissed(what)
	select {
	case b.events <- what: // the events were read meanwhile, perhaps before it was missed
	default:
	}
}

func (b *Batch) noteMissed(what any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := what.(Changed); ok {
		b.missed = slices.DeleteFunc(b.missed, func(m any) bool { _, ok := m.(Changed); return ok })
		what = Changed{math.MaxInt64}
	}
	if !slices.Contains(b.missed, what) {
		b.missed = append(b.missed, what)
	}
}

// TakeMissed returns the notices for which there was no room, and forgets them.
func (b *Batch) TakeMissed() []any {
	b.mu.Lock()
	defer b.mu.Unlock()
	missed := b.missed
	b.missed = nil
	return missed
}

// Emit queues an event of a call, and waits for room as long as the call's context lasts.
// Code failed_precondition once the batch is over.
func (b *Batch) Emit(ctx context.Context, ev any) error {
	select {
	case <-b.over: // first, for there may be room in the queue for ever
		return ErrCallEnded()
	default:
	}
	select {
	case b.events <- ev:
		return nil
	case <-ctx.Done():
		return fault.ContextError(ctx)
	case <-b.over:
		return ErrCallEnded()
	}
}

// ErrCallEnded returns the error of a call that reports something after its end.
func ErrCallEnded() error { return fault.Errorf(fault.FailedPrecondition, "the call has ended") }

// Send queues an event of the host's, after a cancel too.
func (b *Batch) Send(what any) {
	select { // without a second channel it costs a third
	case b.events <- what:
		return
	default:
	}
	select {
	case b.events <- what:
	case <-b.over:
	}
}

// Job is something for the reader to do.
type Job struct {
	do   func()
	done chan struct{}
}

// Do has the reader run fn, and returns when it has: code failed_precondition once the
// batch is over. With an error fn may still run.
func (b *Batch) Do(ctx context.Context, fn func()) error {
	j := &Job{do: fn, done: make(chan struct{})}
	if err := b.Emit(ctx, j); err != nil {
		return err
	}
	select {
	case <-j.done:
		return nil
	case <-ctx.Done():
		return fault.ContextError(ctx)
	case <-b.over:
		return ErrCallEnded()
	}
}

// Ask is [Batch.Do] for a function that answers.
func Ask[T any](ctx context.Context, b *Batch, fn func() (T, error)) (answer T, err error) {
	type result struct {
		answer T
		err    error
	}
	results := make(chan result, 1) // fn may run after ctx has ended
	if err := b.Do(ctx, func() {
		a, err := fn()
		results <- result{a, err}
	}); err != nil {
		return answer, err
	}
	r := <-results
	return r.answer, r.err
}

// Run does the job, in the reader's goroutine.
func (j *Job) Run() {
	defer close(j.done)
	j.do()
}
