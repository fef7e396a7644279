package runs

import (
	"context"
	"iter"
	"sync"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
)

// readAtOnce bounds how many events a reader takes while it holds the lock.
const readAtOnce = 64

// eventLog holds the last events of a run for any number of readers, each from the
// run's beginning or from its last position. A reader that is further behind is cut
// off. It is safe for concurrent use.
type eventLog struct {
	kept int // events

	mu      sync.Mutex
	stored  *runLog // has earlier events; nil if none are stored
	taken   int64   // number of the first event of this process, if another has begun the run
	first   int64   // number of events[0]
	events  []host.Event
	changed chan struct{} // closed at the next event, if a reader waits for it
	ended   bool
	err     error
}

// begin sets the number of the first event, and where those before it are.
func (l *eventLog) begin(first int64, stored *runLog) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stored, l.taken, l.first = stored, first, first
}

// add appends an event, and drops the oldest beyond kept.
func (l *eventLog) add(ev host.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.events) == l.kept {
		l.events[0] = host.Event{} // its memory is free, if not its place
		l.events = l.events[1:]
		l.first++
	}
	l.events = append(l.events, ev)
	l.wake()
}

// end closes the log: readers that have read all get err, if it is not nil.
func (l *eventLog) end(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended, l.err = true, err
	l.wake()
}

// next returns the number of the next event.
func (l *eventLog) next() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first + int64(len(l.events))
}

// wake wakes the readers that wait for an event. The caller holds l.mu.
func (l *eventLog) wake() {
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// read yields the events from number from on: see [Registry.Events].
func (l *eventLog) read(ctx context.Context, from int64) iter.Seq2[host.Event, error] {
	return func(yield func(host.Event, error) bool) {
		next := max(from, 0)
		var taken [readAtOnce]host.Event
		for {
			next = l.place(next)
			n, wait, err := l.take(taken[:], next)
			if err != nil && l.behind(next) {
				at, more := l.readStored(ctx, next, yield)
				if !more {
					return
				}
				if at > next { // the memory may have moved on meanwhile
					next = at
					continue
				}
			}
			for _, ev := range taken[:n] {
				if !yield(ev, nil) {
					return
				}
			}
			next += int64(n)
			switch {
			case err != nil:
				yield(host.Event{}, err)
				return
			case n > 0:
			case wait == nil:
				return
			default:
				select {
				case <-wait:
				case <-ctx.Done():
					yield(host.Event{}, fault.AsError(fault.ContextError(ctx)))
					return
				}
			}
		}
	}
}

// place returns where a reader of number next reads on: there, unless the run was taken over
// and has no event of that number yet. Then the reader has seen events that the earlier
// process could not store, and that this one produces again.
func (l *eventLog) place(next int64) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.taken > 0 && next > l.first+int64(len(l.events)) {
		return l.taken
	}
	return next
}

// behind reports whether the memory has an event no longer, and the store may.
func (l *eventLog) behind(next int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return next < l.first && l.stored != nil
}

// readStored yields events that the memory has no longer, and returns the number of the next
// one; more is false if the reader has left.
func (l *eventLog) readStored(ctx context.Context, next int64, yield func(host.Event, error) bool) (_ int64, more bool) {
	for ev := range l.stored.read(ctx, next) {
		if !yield(ev, nil) {
			return next, false
		}
		if next = ev.Seq + 1; !l.behind(next) {
			return next, true
		}
	}
	return next, true
}

// take copies events from number next on. Without any it returns a channel to
// wait for, or nil and the run's error at its end.
func (l *eventLog) take(dst []host.Event, next int64) (n int, wait <-chan struct{}, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := next - l.first
	switch {
	case at < 0:
		return 0, nil, host.Errorf(host.ResourceExhausted, "event %d of the run is no longer kept: the reader is %d events behind, and the limit Kept is %d",
			next, l.first+int64(len(l.events))-next, l.kept).WithHint("read faster, or continue from event %d", l.first)
	case at < int64(len(l.events)):
		return copy(dst, l.events[at:]), nil, nil
	case l.ended:
		return 0, nil, l.err
	}
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return 0, l.changed, nil
}
