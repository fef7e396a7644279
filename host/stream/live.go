package stream

import (
	"context"
	"iter"
	"sync"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/runevent"
)

// DefaultKept is how many of the last events a live run keeps for its readers.
const DefaultKept = 1024

// readAtOnce bounds how many events a reader takes while it holds the lock.
const readAtOnce = 64

// Live is a run that advances by itself, with any number of readers at once, or
// none, each from the run's beginning or from its last position. It keeps the
// run's last events; a reader that is further behind is cut off. It is safe for
// concurrent use.
type Live struct {
	kept   int
	cancel context.CancelFunc
	over   chan struct{} // closed when the run has ended

	mu      sync.Mutex
	first   int64 // number of events[0]
	events  []host.Event
	changed chan struct{} // closed at the next event, if a reader waits for it
	ended   bool
	err     error
	result  *host.RunResult
}

// LiveOptions are the optional parts of a live run.
type LiveOptions struct {
	Kept int // events that are kept, and so the most that a reader may be behind (1,024)
}

// Start starts a run. The context must outlive the request that asked for the
// run, if the run is to do so. Close the run, or cancel the context, to release
// it. Code invalid_argument for a negative Kept; readers receive the error of a
// wrong request.
func Start(ctx context.Context, h *host.Host, target host.Target, req *host.Request, opts *LiveOptions) (*Live, error) {
	if opts == nil {
		opts = &LiveOptions{}
	}
	if opts.Kept < 0 {
		return nil, host.Errorf(host.InvalidArgument, "live run keeps %d events", opts.Kept).WithHint("leave it out for the default")
	}
	l := &Live{kept: opts.Kept, over: make(chan struct{})}
	if l.kept == 0 {
		l.kept = DefaultKept
	}
	ctx, l.cancel = context.WithCancel(ctx)
	go l.run(h.Stream(ctx, target, req))
	return l, nil
}

func (l *Live) run(events iter.Seq2[host.Event, error]) {
	defer l.cancel()
	defer close(l.over)
	for ev, err := range events {
		if err != nil {
			l.end(err)
			return
		}
		l.add(ev)
	}
	l.end(nil)
}

func (l *Live) add(ev host.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.events) == l.kept {
		l.events[0] = host.Event{} // its memory is free, if not its place
		l.events = l.events[1:]
		l.first++
	}
	l.events = append(l.events, ev)
	if d, ok := ev.Data.(*runevent.RunFinished); ok {
		l.result = d.Result
	}
	l.wake()
}

func (l *Live) end(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended, l.err = true, err
	l.wake()
}

// wake wakes the readers that wait for an event. The caller holds l.mu.
func (l *Live) wake() {
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// Events returns the run's events from number from on, each as soon as it has
// happened, in their order and without gaps. It ends with the run, and with the
// run's error if that failed. Errors of its own are resource_exhausted for a
// reader that is more than LiveOptions.Kept events behind, and that of ctx. Each
// call reads independently; leaving the loop, or falling behind, does not affect
// the run.
func (l *Live) Events(ctx context.Context, from int64) iter.Seq2[host.Event, error] {
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
func (l *Live) take(dst []host.Event, next int64) (n int, wait <-chan struct{}, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := next - l.first
	switch {
	case at < 0:
		return 0, nil, host.Errorf(host.ResourceExhausted, "event %d of the run is no longer kept: the reader is %d events behind, and the limit Kept is %d",
			next, l.first+int64(len(l.events))-next, l.kept).WithHint("read faster, or go on from event %d", l.first)
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

// Cancel stops the run. The contexts of its model call and its tools end at
// once, and its last event says that it was cancelled, as does its thread.
func (l *Live) Cancel() { l.cancel() }

// Wait waits for the end of the run and returns its result, beside the error if
// it failed. ctx bounds the wait and not the run.
func (l *Live) Wait(ctx context.Context) (*host.RunResult, error) {
	select {
	case <-l.over:
	case <-ctx.Done():
		return nil, fault.AsError(fault.ContextError(ctx))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.result, l.err
}

// Close cancels the run and waits for its end. The kept events can still be
// read. It may be called twice.
func (l *Live) Close() {
	l.cancel()
	<-l.over
}
