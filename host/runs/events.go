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
	first   int64 // number of events[0]
	events  []host.Event
	changed chan struct{} // closed at the next event, if a reader waits for it
	ended   bool
	err     error
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
			n, wait, err := l.take(taken[:], next)
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
