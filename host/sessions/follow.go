package sessions

import (
	"context"
	"iter"
	"sync"

	"github.com/agenthost/agenthost/host"
)

// Turns that are listened to and can be detached. They run like turns in the
// background, and pass their events on to who asked for them, one by one: a slow
// reader slows the turn.

// follower is who listens to a turn. The zero follower is nobody.
type follower struct {
	events chan host.Event // nil if nobody listened from the beginning
	parted chan struct{}   // closed when nobody listens any more
	part   func()          // closes parted; may be called more than once
}

// follow makes room for a reader, before others know of the turn.
func (f *follower) follow() {
	f.events, f.parted = make(chan host.Event), make(chan struct{})
	f.part = sync.OnceFunc(func() { close(f.parted) })
}

// tell passes an event on to the reader, if there is one.
func (f *follower) tell(ev host.Event) {
	if f.events == nil {
		return
	}
	select {
	case f.events <- ev:
	case <-f.parted:
	}
}

// isParted reports whether the reader has gone, or was sent away.
func (f *follower) isParted() bool {
	select {
	case <-f.parted:
		return true
	default:
		return false
	}
}

// streamFollowed passes the events of a turn on that runs in another goroutine, until
// it has ended or was detached, which the reader is told by out.
func (t *turn) streamFollowed(ctx context.Context, d *detached, out *Output, yield func(host.Event, error) bool) {
	own := &turn{service: t.service, run: t.run} // numbers events; the turn is the other goroutine's
	misuse, left := own.pass(ctx, d.read(ctx), yield)
	if left {
		return
	}
	if misuse == nil && d.isParted() {
		yield(own.ended(out), nil)
		return
	}
	<-d.over // the turn is this goroutine's from here on
	t.seq = own.seq
	if misuse != nil {
		t.service.log("the view of a turn failed", t.run, misuse)
		t.err = misuse
	}
	t.yieldEnd(ctx, yield)
}

// read yields the events of a turn. The turn is canceled with ctx, and when the
// reader leaves, which then waits for the turn's end.
func (d *detached) read(ctx context.Context) iter.Seq2[host.Event, error] {
	return func(yield func(host.Event, error) bool) {
		stop := context.AfterFunc(ctx, func() {
			if !d.isParted() {
				d.cancel(context.Cause(ctx))
			}
		})
		defer stop()
		stays := false
		defer func() { // also of a reader that panics, after which nobody takes the turn's events
			if !stays {
				d.cancel(errAborted())
				d.part()
				<-d.over
			}
		}()
		for {
			select {
			case ev := <-d.events:
				if !yield(ev, nil) {
					return
				}
			case <-d.parted:
				stays = true
				return
			case <-d.over:
				stays = true
				return
			}
		}
	}
}

// Detach lets a turn go on in the background that runs with [Request].Detachable and
// is listened to: its stream ends with a [TurnEnded] of the finish reason
// [FinishDetached], and its reader may leave. A turn that is in the background
// already stays there. Detach returns the turn's status. The turn is named by its
// snapshot, which [SnapshotID] makes of its session and the run of its events.
//
// Codes: not_found if there is no such turn, or it runs and was not begun with
// Detachable; failed_precondition if it has ended, or runs in another process, which
// has its reader.
func (s *Service) Detach(ctx context.Context, tenant, snapshot string) (Status, error) {
	if err := s.needStore("detach a turn"); err != nil {
		return "", err
	}
	tenant, err := s.host.Tenant(tenant)
	if err != nil {
		return "", err
	}
	session, run, err := readSnapshotID(snapshot)
	if err != nil {
		return "", err
	}
	p, _, err := s.pending(ctx, tenant, run)
	switch {
	case err != nil:
		return "", err
	case p == nil || p.Session != session:
		snap, err := s.read(ctx, &SnapshotRequest{Tenant: tenant, WithoutState: true}, session, run)
		if err != nil {
			return "", err
		}
		return "", host.Errorf(host.FailedPrecondition, "turn %.300q has ended, and is %s", snapshot, snap.Status)
	case p.Status.Settled():
		return "", s.notYet(p)
	}
	d := s.local(tenant, run)
	if d == nil {
		return "", host.Errorf(host.FailedPrecondition, "turn %.300q runs in another process, or its host is gone", snapshot).
			WithHint("ask the host that streams it")
	}
	if d.events != nil {
		d.part()
	}
	return p.Status, nil
}

// SnapshotID returns the id of the snapshot that a run leaves of its session.
func SnapshotID(session, run string) string { return snapshotID(session, run) }
