package sessions

import (
	"context"
	"encoding/json"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/threads"
)

// Sessions that a store keeps: a session is a thread, a snapshot one of its turns.

// plan says where in its thread a turn goes on. The history finds out, when the
// turn holds the thread.
type plan struct {
	session  string
	snapshot string // the run to go on from; empty for the session's last completed one
	retry    bool   // of what is there, failed or not
	good     string // the last completed turn before this one
	held     bool   // the turn has the thread: it is one in the background
	fresh    bool   // the message's id is not its client's, so it was not sent before
}

type planKey struct{}

// history is the store as the runs of a service use it.
type history struct {
	*threads.Store
	service *Service
}

// CreateThread puts the thread where the turn goes on, and then makes sure that
// there is one. It is called when the turn holds the thread, before anything is
// stored or loaded.
func (h *history) CreateThread(ctx context.Context, req *host.HistoryRequest) (string, bool, error) {
	if p, ok := ctx.Value(planKey{}).(*plan); ok {
		if err := h.service.place(ctx, req, p); err != nil {
			return "", false, err
		}
	}
	return h.Store.CreateThread(ctx, req)
}

// AppendSteps leaves a run in the background open when the service is closed: to
// be gone on with, by who opens it next.
func (h *history) AppendSteps(ctx context.Context, ref host.RunRef, at int, steps []json.RawMessage) error {
	if h.service.leaving(ref.Tenant, ref.Run) {
		return host.Errorf(host.Unavailable, "the host is being stopped")
	}
	return h.Store.AppendSteps(ctx, ref, at, steps)
}

// fromStore makes the turn of a session, or of a snapshot, that the store has.
func (t *turn) fromStore(ctx context.Context, req *Request) error {
	t.session = req.Session
	t.plan = &plan{retry: !req.says() && len(req.Answers) == 0, fresh: req.Input == nil || req.Input.ID == ""}
	if req.Snapshot != "" {
		session, run, err := readSnapshotID(req.Snapshot)
		if err != nil {
			return err
		}
		if err := t.service.resumable(ctx, t.tenant, session, run); err != nil {
			return err
		}
		t.session, t.plan.snapshot = session, run
	}
	if t.session == "" {
		if t.plan.retry {
			return host.Errorf(host.InvalidArgument, "there is neither input nor a session to go on with").WithHint("say something")
		}
		t.session = host.NewID()
	}
	t.plan.session = t.session
	t.req = host.Request{Tenant: t.tenant, Thread: t.session, Run: t.run, Input: t.input}
	if len(req.Answers) > 0 {
		return t.answers(ctx, req)
	}
	return t.service.checkStored(ctx, t.tenant, t.session, t.plan)
}

// answers makes the turn one that goes on with answers.
func (t *turn) answers(ctx context.Context, req *Request) error {
	run := t.plan.snapshot
	if run == "" {
		var err error
		if run, err = t.service.asking(ctx, t.tenant, t.session); err != nil {
			return err
		}
	}
	if run == "" {
		return host.Errorf(host.InvalidArgument, "session %.100q asks nothing", t.session)
	}
	t.plan.good = run
	t.req = host.Request{Tenant: t.tenant, Resume: run, Answers: req.Answers}
	return nil
}

// asking returns the last turn of a session if it has asked something, empty
// otherwise. Artifacts that were put since do not count: see [Service.PutArtifact].
func (s *Service) asking(ctx context.Context, tenant, session string) (string, error) {
	run, err := s.last(ctx, tenant, session)
	if err != nil || run == "" {
		return "", err
	}
	return s.askingFrom(ctx, tenant, session, run)
}

// maxPuts is how many artifacts may be put between a question and its answer.
const maxPuts = 1000

// askingFrom is asking, from a turn on backwards.
func (s *Service) askingFrom(ctx context.Context, tenant, session, run string) (string, error) {
	for range maxPuts {
		snap, err := s.store.Snapshot(ctx, tenant, session, run)
		if err != nil {
			return "", err
		}
		if snap.Status == threads.Interrupted {
			return run, nil
		}
		put := snap.Status == threads.Completed && snap.Artifacts > 0 && snap.From == snap.To && snap.Input == ""
		if run = snap.Parent; !put || run == "" {
			break
		}
	}
	return "", nil
}

// resumable refuses a snapshot that no turn can go on from.
func (s *Service) resumable(ctx context.Context, tenant, session, run string) error {
	p, _, err := s.pending(ctx, tenant, run)
	if err != nil {
		return err
	}
	if p != nil && p.Session == session {
		return s.notYet(p)
	}
	snap, err := s.store.Snapshot(ctx, tenant, session, run)
	if err != nil {
		return noSnapshot(err, snapshotID(session, run))
	}
	if snap.Network != "" && snap.Network != s.Name() && !s.opts.AnyAgent {
		return otherAgent("snapshot", snapshotID(session, run), snap.Network, s.Name())
	}
	return nil
}

func noSnapshot(err error, id string) error {
	if host.CodeOf(err) == host.NotFound {
		return host.Errorf(host.NotFound, "there is no snapshot %.300q", id)
	}
	return err
}

// checkStored holds what is stored to the schema and the session to its agent,
// before anything is done.
func (s *Service) checkStored(ctx context.Context, tenant, session string, p *plan) error {
	run := p.snapshot
	if run == "" {
		var err error
		if run, err = s.good(ctx, tenant, session, ""); err != nil || run == "" {
			return err
		}
		snap, err := s.store.Snapshot(ctx, tenant, session, run)
		if err != nil {
			return err
		}
		if snap.Network != "" && snap.Network != s.Name() && !s.opts.AnyAgent {
			return otherAgent("session", session, snap.Network, s.Name())
		}
	}
	if s.schema == nil {
		return nil
	}
	then, err := s.store.ShowAt(ctx, tenant, session, threads.At{Snapshot: run}, 1)
	if err != nil || unset(then.State) {
		return err
	}
	if err := s.schema.ValidateUnseen(then.State); err != nil {
		return misfit(session, err)
	}
	return nil
}

// unset reports whether nobody has set a custom state.
func unset(custom json.RawMessage) bool {
	return len(custom) == 0 || string(custom) == "{}"
}

// last returns the last turn of what a session shows, empty if there is none.
func (s *Service) last(ctx context.Context, tenant, session string) (string, error) {
	for b, err := range s.store.Branches(ctx, tenant, session) {
		if host.CodeOf(err) == host.NotFound {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		return b.Snapshot, nil
	}
	return "", nil
}

// good returns the last completed turn of a session from one on backwards, from
// its last if that is empty; empty if there is none.
func (s *Service) good(ctx context.Context, tenant, session, from string) (string, error) {
	run := from
	if run == "" {
		var err error
		if run, err = s.last(ctx, tenant, session); err != nil {
			return "", err
		}
	}
	for range maxFailures {
		if run == "" {
			return "", nil
		}
		snap, err := s.store.Snapshot(ctx, tenant, session, run)
		if err != nil {
			return "", err
		}
		if completed(snap.Status) {
			return run, nil
		}
		run = snap.Parent
	}
	return "", host.Errorf(host.FailedPrecondition, "the last %d turns of session %.100q have failed", maxFailures, session).
		WithHint("name a snapshot to go on from")
}

// maxFailures is how many turns that failed are looked behind for one that did
// not: only retries can come one after the other.
const maxFailures = 1000

func completed(s threads.Status) bool { return s == threads.Completed || s == threads.Interrupted }

// place puts the thread where the turn goes on.
func (s *Service) place(ctx context.Context, req *host.HistoryRequest, p *plan) error {
	last, err := s.last(ctx, req.Tenant, req.Thread)
	if err != nil {
		return err
	}
	if p.good, err = s.good(ctx, req.Tenant, req.Thread, p.snapshot); err != nil {
		return err
	}
	to := threads.At{Snapshot: p.snapshot}
	if p.snapshot == "" {
		if p.retry || last == p.good {
			return nil
		}
		if to, err = s.beforeFailures(ctx, req, last, p.good); err != nil || to == (threads.At{}) {
			return err
		}
	}
	_, err = s.store.RewindHeld(ctx, req.Tenant, req.Thread, to, nil)
	return err
}

// beforeFailures returns the moment before the turns that failed last: after the
// one that did not, as the session shows it now, or before the first input of a
// session that has none.
func (s *Service) beforeFailures(ctx context.Context, req *host.HistoryRequest, last, good string) (threads.At, error) {
	if good != "" {
		return threads.At{Turn: good}, nil
	}
	var first *threads.Snapshot
	for run := last; run != ""; run = first.Parent {
		var err error
		if first, err = s.store.Snapshot(ctx, req.Tenant, req.Thread, run); err != nil {
			return threads.At{}, err
		}
	}
	if first == nil || first.Input == "" {
		return threads.At{}, nil
	}
	at := threads.At{Message: first.Input, Before: true}
	if _, err := s.store.ShowAt(ctx, req.Tenant, req.Thread, at, 1); host.CodeOf(err) == host.NotFound {
		return threads.At{}, nil // it was edited or deleted since
	}
	return at, nil
}

// stored tells where the session goes on.
func (t *turn) stored(ctx context.Context, out *Output) error {
	snap, err := t.service.store.Snapshot(ctx, t.tenant, t.session, t.run)
	switch {
	case host.CodeOf(err) == host.NotFound: // it failed before there was anything to store
		out.Snapshot, out.Parent = snapshotID(t.session, t.plan.good), snapshotID(t.session, t.plan.good)
		if out.Error == nil {
			return host.Errorf(host.Internal, "turn %q of session %.100q was not stored", t.run, t.session)
		}
		return nil
	case err != nil:
		return err
	}
	out.Turn, out.Parent = snapshotID(t.session, t.run), snapshotID(t.session, snap.Parent)
	out.Snapshot = out.Turn
	if out.Error != nil || !completed(snap.Status) {
		out.Snapshot = snapshotID(t.session, t.plan.good)
	}
	return nil
}
