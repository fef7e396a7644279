package sessions

import (
	"context"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/threads"
)

// Messages that are sent again. A message is the same as one before if its client
// gave it the same id.

// ReadTurn is the store's, for a turn that goes on where that one did. A turn in the
// background is never answered with another: it was acknowledged with a snapshot of
// its own.
func (h *history) ReadTurn(ctx context.Context, req *host.HistoryRequest) (*host.StoredTurn, error) {
	p, _ := ctx.Value(planKey{}).(*plan)
	if p != nil && (p.held || p.fresh) {
		return nil, nil
	}
	stored, err := h.Store.ReadTurn(ctx, req)
	if p == nil || p.snapshot == "" {
		return stored, err
	}
	if host.CodeOf(err) == host.Conflict { // perhaps of what came after the snapshot: storing it will tell
		return nil, nil
	}
	if err != nil || stored == nil {
		return nil, err
	}
	from, err := h.service.wentOnFrom(ctx, req, stored.Run, p.snapshot)
	if err != nil || !from {
		return nil, err
	}
	return stored, nil
}

// wentOnFrom reports whether a turn that answered a message went on from a snapshot,
// itself or by the turns that it tried again.
func (s *Service) wentOnFrom(ctx context.Context, req *host.HistoryRequest, run, snapshot string) (bool, error) {
	for range maxFailures {
		snap, err := s.store.Snapshot(ctx, req.Tenant, req.Thread, run)
		if err != nil {
			return false, err
		}
		if snap.Parent == snapshot {
			return true, nil
		}
		if run = snap.Parent; run == "" {
			return false, nil
		}
		before, err := s.store.Snapshot(ctx, req.Tenant, req.Thread, run)
		if err != nil || before.Status == threads.Completed || before.Input != req.Input.ID {
			return false, err
		}
	}
	return false, nil
}

// acknowledgement is what a client was told of a turn in the background.
type acknowledgement struct {
	run string
	out *Output
}

// acknowledged returns what a turn in the background was acknowledged with whose
// message is sent again: it waits, runs or has completed. It is nil for a message
// that is new, or whose turn left nothing or failed.
func (s *Service) acknowledged(ctx context.Context, t *turn, req *Request) (*acknowledgement, error) {
	if !req.Detach && !req.Detachable || req.Input == nil || req.Input.ID == "" || req.Session == "" && req.Snapshot == "" {
		return nil, nil
	}
	runs, _, err := s.order(ctx, t.tenant, t.session)
	if err != nil {
		return nil, err
	}
	for _, run := range runs {
		p, _, err := s.pending(ctx, t.tenant, run)
		switch {
		case err != nil:
			return nil, err
		case p == nil || p.Input == nil || p.Input.ID != t.input.ID || p.Status != Pending || s.expired(p) || p.At != t.plan.snapshot:
		case !p.Input.SameContent(t.input):
			return nil, host.Errorf(host.Conflict, "session %.100q has a message %q in the background that says something else", t.session, p.Input.ID).
				WithHint("leave the id out for a fresh one")
		default:
			return t.detachedAs(p.Run, p.Parent), nil
		}
	}
	h := &history{Store: s.store, service: s}
	stored, err := h.ReadTurn(t.context(ctx), t.historyRequest())
	if err != nil || stored == nil {
		return nil, err
	}
	snap, err := s.store.Snapshot(ctx, t.tenant, t.session, stored.Run)
	if err != nil {
		return nil, err
	}
	return t.detachedAs(stored.Run, snap.Parent), nil
}

// detachedAs returns what a turn in the background is acknowledged with that is
// another one, sent again.
func (t *turn) detachedAs(run, parent string) *acknowledgement {
	id := snapshotID(t.session, run)
	return &acknowledgement{run, &Output{Session: t.session, Snapshot: id, Turn: id, Parent: snapshotID(t.session, parent), FinishReason: FinishDetached, Replayed: true}}
}
