package sessions

import (
	"context"
	"iter"
	"sync"

	"github.com/agenthost/agenthost/host"
)

// listener carries the events of a turn that can be detached from the goroutine that
// runs it to the stream of its caller, one by one: a slow reader slows the turn. The
// zero listener has no reader.
type listener struct {
	events   chan host.Event // nil if the turn was begun without a reader
	detached chan struct{}   // closed when the turn has no reader any more
	detach   func()          // closes detached; may be called more than once
}

func newListener() listener {
	l := listener{events: make(chan host.Event), detached: make(chan struct{})}
	l.detach = sync.OnceFunc(func() { close(l.detached) })
	return l
}

// send gives an event to the reader, if there is one.
func (l *listener) send(ev host.Event) {
	if l.events == nil {
		return
	}
	select {
	case l.events <- ev:
	case <-l.detached:
	}
}

// isDetached reports whether the reader has left, or was sent away.
func (l *listener) isDetached() bool {
	select {
	case <-l.detached:
		return true
	default:
		return false
	}
}

// streamDetachable yields the events of a turn that another goroutine runs, until the
// turn has ended or was detached; acknowledged is the output of a detached turn.
func (t *turn) streamDetachable(ctx context.Context, d *backgroundTurn, acknowledged *Output, yield func(host.Event, error) bool) {
	numbering := &turn{served: t.served, run: t.run} // t belongs to the other goroutine
	misuse, left := numbering.pass(ctx, d.events(ctx), yield)
	if left {
		return
	}
	if misuse == nil && d.listener.isDetached() {
		yield(numbering.ended(acknowledged), nil)
		return
	}
	<-d.ended // from here on t belongs to this goroutine
	t.seq = numbering.seq
	if misuse != nil {
		t.served.logError("the view of a turn failed", t.run, misuse)
		t.err = misuse
	}
	t.yieldEnd(ctx, yield)
}

// events yields the events of a turn to its reader. The turn is canceled with ctx, and
// when the reader leaves, which then waits for the turn's end.
func (d *backgroundTurn) events(ctx context.Context) iter.Seq2[host.Event, error] {
	return func(yield func(host.Event, error) bool) {
		stop := context.AfterFunc(ctx, func() {
			if !d.listener.isDetached() {
				d.cancel(context.Cause(ctx))
			}
		})
		defer stop()
		stays := false
		defer func() { // also of a reader that panics: the turn's events have no reader then
			if !stays {
				d.cancel(errAborted())
				d.listener.detach()
				<-d.ended
			}
		}()
		for {
			select {
			case ev := <-d.listener.events:
				if !yield(ev, nil) {
					return
				}
			case <-d.listener.detached:
				stays = true
				return
			case <-d.ended:
				stays = true
				return
			}
		}
	}
}
