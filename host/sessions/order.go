package sessions

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/internal/kverror"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads"
)

// The order of a session's turns. A turn in the background has its place from the
// commit on that stores its record:
//
//	sessions/order/<session>   the runs in the background that have not ended, in order
//
// In one process the places in the queue of the session's thread keep that order.
// The stored one is for turns of a process that ended, and of other processes: a
// turn that finds one of them before itself gives the thread back until that one
// has ended, and takes it over if its host is gone.

// MaxBackgroundOfSession is how many turns of one session may be in the background
// at one time.
const MaxBackgroundOfSession = 64

// maxOutside is how many turns of one session wait in this service for turns in the
// background that other processes run, or ran.
const maxOutside = threads.DefaultMaxWaiting + MaxBackgroundOfSession

// maxOrderTries is how often a change of an order is tried again that others
// have been faster with.
const maxOrderTries = 100

// firstPoll is when a turn that another process runs is asked about for the first
// time; the time doubles up to pollEvery.
const firstPoll = 10 * time.Millisecond

var orderKeys = kv.NewKey("sessions", "order")

func orderKey(session string) kv.Key { return orderKeys.With(session) }

// orderRecord is the order of a session as it is stored.
type orderRecord struct {
	V    int      `json:"v"`
	Runs []string `json:"runs"`
}

// order returns the runs of a session that are in the background, in order.
func (s *Service) order(ctx context.Context, tenant, session string) (runs []string, revision uint64, err error) {
	e, err := s.store.Driver().Get(ctx, tenant, orderKey(session))
	if errors.Is(err, kv.ErrNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, kverror.Wrap(err, "read the order of session %q", session)
	}
	var o orderRecord
	if err := kv.DecodeRecord(e.Value, &o); err != nil {
		return nil, 0, host.Errorf(host.DataLoss, "the order of session %q is damaged", session).WithHint("restore it from a backup")
	}
	if o.V != recordVersion {
		return nil, 0, host.Errorf(host.FailedPrecondition, "the order of session %q has version %d, which is not known here", session, o.V).
			WithHint("use it with the version that wrote it, or a newer one; nothing was changed")
	}
	return o.Runs, e.Revision, nil
}

// applyInOrder commits tx with a change of a session's order. Code conflict if tx
// has a condition that does not hold.
func (s *Service) applyInOrder(ctx context.Context, tenant, session string, tx kv.Tx, change func([]string) ([]string, error)) error {
	own, failed := tx, error(nil)
	failedAt, held := uint64(0), false
	for range maxOrderTries {
		runs, revision, err := s.order(ctx, tenant, session)
		if err != nil {
			return err
		}
		if failed != nil && revision == failedAt && !(held && revision == 0) { // one that is not there may have come and gone
			return failed // it is not the order that has changed
		}
		next, err := change(slices.Clone(runs))
		if err != nil {
			return err
		}
		tx.Conds, tx.Writes = slices.Clip(own.Conds), slices.Clip(own.Writes)
		if held = !slices.Equal(next, runs); held {
			tx.Conds = append(tx.Conds, kv.AtRevision(orderKey(session), revision))
			if len(next) == 0 {
				tx.Writes = append(tx.Writes, kv.Delete(orderKey(session)))
			} else {
				value, err := kv.EncodeRecord(&orderRecord{recordVersion, next})
				if err != nil {
					return host.Errorf(host.Internal, "write the order of session %q: %w", session, err)
				}
				tx.Writes = append(tx.Writes, kv.Put(orderKey(session), value))
			}
		}
		_, err = kv.Apply(ctx, s.store.Driver(), tx)
		if !errors.Is(err, kv.ErrPrecondition) {
			return err
		}
		failed, failedAt = err, revision
	}
	return failed
}

// joinOrder puts a run at the end of an order.
func joinOrder(session, run string) func([]string) ([]string, error) {
	return func(runs []string) ([]string, error) {
		if len(runs) >= MaxBackgroundOfSession {
			e := host.Errorf(host.ResourceExhausted, "session %.100q has %d turns in the background, as many as the limit MaxBackgroundOfSession allows", session, len(runs)).
				WithHint("try again when one has ended")
			e.Limit, e.RetryAfter = "MaxBackgroundOfSession", retryDetached
			return nil, e
		}
		return append(runs, run), nil
	}
}

// leaveOrder takes a run out of an order.
func leaveOrder(run string) func([]string) ([]string, error) {
	return func(runs []string) ([]string, error) {
		return slices.DeleteFunc(runs, func(r string) bool { return r == run }), nil
	}
}

// LockThread is the store's, in the order of the session: a turn begins when those
// in the background that were acknowledged before it have ended, also if their
// process has. Code conflict for a turn that does not wait for them.
func (h *history) LockThread(ctx context.Context, req *host.HistoryRequest) (unlock func(), err error) {
	p, _ := ctx.Value(planKey{}).(*plan)
	switch {
	case req.Branch != "":
		return h.Store.LockThread(ctx, req)
	case p != nil && p.held:
		return func() {}, nil // by the goroutine that runs the turn in the background
	}
	before, _, err := h.service.order(ctx, req.Tenant, req.Thread)
	if err != nil {
		return nil, err
	}
	place, err := h.Store.TakePlace(ctx, req)
	if err != nil {
		return nil, err
	}
	return h.service.lockInOrder(ctx, req, place, func(runs []string) []string {
		return slices.DeleteFunc(runs, func(run string) bool { return !slices.Contains(before, run) && h.service.beganHere(req.Tenant, run) })
	})
}

// beganHere reports whether a turn runs in this service, and was not taken over:
// then its place in the queue of the thread says what comes before it.
func (s *Service) beganHere(tenant, run string) bool {
	d := s.local(tenant, run)
	return d != nil && d.turn.attempt == 1
}

// lockInOrder waits for a place in the queue of a session's thread, and for the
// turns in the background that go first: ahead returns which of the session's these
// are.
func (s *Service) lockInOrder(ctx context.Context, req *host.HistoryRequest, place *threads.Place, ahead func(runs []string) []string) (unlock func(), err error) {
	background := s.local(req.Tenant, req.Run) != nil
	for {
		unlock, run, err := s.lockIfFirst(ctx, req, place, ahead)
		switch {
		case err == nil && run == "":
			return unlock, nil
		case err == nil && req.Racing != "" && req.Racing != host.RaceWait:
			return nil, host.Errorf(host.Conflict, "another turn of session %.100q is in the background", req.Thread)
		case err == nil:
			err = s.waitOutside(ctx, req, run)
		}
		if err == nil {
			place, err = s.store.TakePlace(ctx, req)
		}
		for background && host.CodeOf(err) == host.ResourceExhausted { // it was acknowledged: it waits for a place to wait in
			if err = s.untilOver(ctx, req.Tenant, "", pollEvery); err == nil {
				place, err = s.store.TakePlace(ctx, req)
			}
		}
		if err != nil {
			return nil, err
		}
	}
}

// lockIfFirst waits for a place in the queue of a thread. If a turn in the background
// goes first, it gives the thread back and returns that one's run.
func (s *Service) lockIfFirst(ctx context.Context, req *host.HistoryRequest, place *threads.Place, ahead func([]string) []string) (unlock func(), run string, err error) {
	if unlock, err = place.Lock(ctx); err != nil {
		return nil, "", err
	}
	if run, err = s.firstOpen(ctx, req, ahead); err != nil || run != "" {
		unlock()
		return nil, run, err
	}
	return unlock, "", nil
}

// firstOpen returns the first run ahead of a turn that has not ended; empty if all
// have.
func (s *Service) firstOpen(ctx context.Context, req *host.HistoryRequest, ahead func([]string) []string) (string, error) {
	runs, _, err := s.order(ctx, req.Tenant, req.Thread)
	if err != nil || len(runs) == 0 {
		return "", err
	}
	for _, run := range ahead(runs) {
		p, _, err := s.pending(ctx, req.Tenant, run)
		if err != nil {
			return "", err
		}
		if p != nil && !p.Status.Settled() {
			return run, nil
		}
	}
	return "", nil
}

// waitOutside waits for the end of a turn in the background, without a place in the
// queue of the thread, which that turn takes.
func (s *Service) waitOutside(ctx context.Context, req *host.HistoryRequest, run string) error {
	key := runKey{req.Tenant, req.Thread}
	s.mu.Lock()
	if s.outside[key] >= maxOutside {
		s.mu.Unlock()
		return host.Errorf(host.ResourceExhausted, "session %.100q: %d turns wait for it already", req.Thread, maxOutside).
			WithHint("send the next message when an answer has come")
	}
	s.outside[key]++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.outside[key]--; s.outside[key] == 0 {
			delete(s.outside, key)
		}
	}()
	for poll := firstPoll; ; poll = min(2*poll, pollEvery) {
		p, revision, err := s.pending(ctx, req.Tenant, run)
		if err != nil || p == nil || p.Status.Settled() {
			return err
		}
		if err := s.takeOverAhead(ctx, req, p, revision); err != nil {
			return err
		}
		if err := s.untilOver(ctx, req.Tenant, run, poll); err != nil {
			return err
		}
	}
}

// takeOverAhead goes on with a turn in the background whose host is gone and that
// another turn waits for.
func (s *Service) takeOverAhead(ctx context.Context, req *host.HistoryRequest, p *record, revision uint64) error {
	if !s.expired(p) || s.local(req.Tenant, p.Run) != nil {
		return nil
	}
	background := s.local(req.Tenant, req.Run) != nil
	if p.Agent != s.Name() {
		if background { // it has time
			return nil
		}
		return host.Errorf(host.FailedPrecondition, "session %.100q has a turn of agent %.100q in the background, %.300q, whose host is gone", req.Thread, p.Agent, snapshotID(p.Session, p.Run)).
			WithHint("abort it, or let a host of that agent recover it")
	}
	// A turn in the background lends its room: the limit Detached could be full of turns
	// that wait like this one. Each waits for one at a time, so there are at most twice
	// as many, half of which wait.
	_, err := s.takeOver(ctx, req.Tenant, p, revision, background)
	switch host.CodeOf(err) {
	case host.Conflict, host.ResourceExhausted: // another one was faster, or there is no room for it yet
		return nil
	}
	return err
}

// untilOver waits for the end of a turn in the background; for the time poll if it
// is not known here.
func (s *Service) untilOver(ctx context.Context, tenant, run string, poll time.Duration) error {
	var over chan struct{}
	if d := s.local(tenant, run); d != nil {
		over, poll = d.over, pollEvery
	}
	timer := time.NewTimer(poll)
	defer timer.Stop()
	select {
	case <-over:
	case <-timer.C:
	case <-ctx.Done():
		return host.AsError(host.ContextError(ctx))
	}
	return nil
}
