package sessions

import (
	"context"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/threads"
)

// storeManaged keeps sessions in a thread store: a session is a thread, a snapshot
// one of its turns.
type storeManaged struct {
	served  *served
	threads *threads.Store
	records *records
}

// begin makes t a turn of the stored session or snapshot that req names, or of a new
// session.
func (s *storeManaged) begin(ctx context.Context, t *turn, req *Request) error {
	t.session = req.Session
	t.plan = &plan{retry: !req.says() && len(req.Answers) == 0, fresh: req.Input == nil || req.Input.ID == ""}
	if req.Snapshot != "" {
		session, run, err := readSnapshotID(req.Snapshot)
		if err != nil {
			return err
		}
		if err := s.checkResumable(ctx, t.tenant, session, run); err != nil {
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
		return s.beginAnswering(ctx, t, req)
	}
	return s.checkStored(ctx, t.tenant, t.session, t.plan)
}

// beginAnswering makes t a turn that resumes an interrupted run with answers.
func (s *storeManaged) beginAnswering(ctx context.Context, t *turn, req *Request) error {
	run := t.plan.snapshot
	if run == "" {
		var err error
		if run, err = s.openQuestion(ctx, t.tenant, t.session); err != nil {
			return err
		}
	}
	if run == "" {
		return host.Errorf(host.InvalidArgument, "session %.100q asks nothing", t.session)
	}
	t.plan.lastCompleted = run
	t.req = host.Request{Tenant: t.tenant, Resume: run, Answers: req.Answers}
	return nil
}

// openQuestion returns the last turn of a session if it was interrupted with
// questions, empty otherwise. Artifacts that were put after it do not count: see
// [Service.PutArtifact].
func (s *storeManaged) openQuestion(ctx context.Context, tenant, session string) (string, error) {
	run, err := s.last(ctx, tenant, session)
	if err != nil || run == "" {
		return "", err
	}
	return s.openQuestionFrom(ctx, tenant, session, run)
}

// maxPuts is how many artifacts may be put between a question and its answer.
const maxPuts = 1000

// openQuestionFrom is openQuestion, from a turn on backwards.
func (s *storeManaged) openQuestionFrom(ctx context.Context, tenant, session, run string) (string, error) {
	for range maxPuts {
		snap, err := s.threads.For(tenant).Snapshot(ctx, session, run)
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

// checkResumable refuses a snapshot that no turn can continue from.
func (s *storeManaged) checkResumable(ctx context.Context, tenant, session, run string) error {
	p, _, err := s.records.read(ctx, tenant, run)
	if err != nil {
		return err
	}
	if p != nil && p.Session == session {
		return s.records.notResumable(ctx, p)
	}
	snap, err := s.threads.For(tenant).Snapshot(ctx, session, run)
	if err != nil {
		return noSnapshot(err, SnapshotID(session, run))
	}
	return s.served.checkOwner("snapshot", SnapshotID(session, run), snap.Network)
}

func noSnapshot(err error, id string) error {
	if host.CodeOf(err) == host.NotFound {
		return host.Errorf(host.NotFound, "there is no snapshot %.300q", id)
	}
	return err
}

// checkStored validates a stored session against the agent and its schema, before the
// turn begins.
func (s *storeManaged) checkStored(ctx context.Context, tenant, session string, p *plan) error {
	run := p.snapshot
	if run == "" {
		var err error
		if run, err = s.lastCompleted(ctx, tenant, session, ""); err != nil || run == "" {
			return err
		}
		snap, err := s.threads.For(tenant).Snapshot(ctx, session, run)
		if err != nil {
			return err
		}
		if err := s.served.checkOwner("session", session, snap.Network); err != nil {
			return err
		}
	}
	if s.served.schema == nil {
		return nil
	}
	then, err := s.threads.For(tenant).ShowAt(ctx, session, threads.At{Snapshot: run}, 1)
	if err != nil {
		return err
	}
	return s.served.checkCustom(session, then.State)
}

// last returns the last turn of a session's main branch, empty if the session has
// no turn.
func (s *storeManaged) last(ctx context.Context, tenant, session string) (string, error) {
	for b, err := range s.threads.For(tenant).Branches(ctx, session) {
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

// lastCompleted returns the last completed turn of a session at or before the turn
// from, or before its end if from is empty; empty if no turn completed.
func (s *storeManaged) lastCompleted(ctx context.Context, tenant, session, from string) (string, error) {
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
		snap, err := s.threads.For(tenant).Snapshot(ctx, session, run)
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

// maxFailures is how many failed turns are read to find the completed one before
// them: only retries follow each other.
const maxFailures = 1000

func completed(s threads.Status) bool { return s == threads.Completed || s == threads.Interrupted }

// moveThread rewinds the thread to where the turn begins. The turn holds the thread.
func (s *storeManaged) moveThread(ctx context.Context, req *host.HistoryRequest, p *plan) error {
	last, err := s.last(ctx, req.Tenant, req.Thread)
	if err != nil {
		return err
	}
	if p.lastCompleted, err = s.lastCompleted(ctx, req.Tenant, req.Thread, p.snapshot); err != nil {
		return err
	}
	to := threads.At{Snapshot: p.snapshot}
	if p.snapshot == "" {
		if p.retry || last == p.lastCompleted {
			return nil
		}
		if to, err = s.beforeFailures(ctx, req, last, p.lastCompleted); err != nil || to == (threads.At{}) {
			return err
		}
	}
	_, err = s.threads.For(req.Tenant).RewindHeld(ctx, req.Thread, to, nil)
	return err
}

// beforeFailures returns the moment before the failed turns at the end of a session:
// after its last completed turn, in the present line, or before the first input of a
// session without one.
func (s *storeManaged) beforeFailures(ctx context.Context, req *host.HistoryRequest, last, lastCompleted string) (threads.At, error) {
	if lastCompleted != "" {
		return threads.At{Turn: lastCompleted}, nil
	}
	var first *threads.Snapshot
	for run := last; run != ""; run = first.Parent {
		var err error
		if first, err = s.threads.For(req.Tenant).Snapshot(ctx, req.Thread, run); err != nil {
			return threads.At{}, err
		}
	}
	if first == nil || first.Input == "" {
		return threads.At{}, nil
	}
	at := threads.At{Message: first.Input, Before: true}
	if _, err := s.threads.For(req.Tenant).ShowAt(ctx, req.Thread, at, 1); host.CodeOf(err) == host.NotFound {
		return threads.At{}, nil // it was edited or deleted since
	}
	return at, nil
}

// finish sets the snapshots of a turn's output.
func (s *storeManaged) finish(ctx context.Context, t *turn, out *Output) error {
	snap, err := s.threads.For(t.tenant).Snapshot(ctx, t.session, t.run)
	switch {
	case host.CodeOf(err) == host.NotFound: // it failed before there was anything to store
		out.Snapshot, out.Parent = SnapshotID(t.session, t.plan.lastCompleted), SnapshotID(t.session, t.plan.lastCompleted)
		if out.Error == nil {
			return host.Errorf(host.Internal, "turn %q of session %.100q was not stored", t.run, t.session)
		}
		return nil
	case err != nil:
		return err
	}
	out.Turn, out.Parent = SnapshotID(t.session, t.run), SnapshotID(t.session, snap.Parent)
	out.Snapshot = out.Turn
	if out.Error != nil || !completed(snap.Status) {
		out.Snapshot = SnapshotID(t.session, t.plan.lastCompleted)
	}
	return nil
}

// continuedFrom reports whether the turn that answered a message continued from a
// snapshot, itself or by the turns that it retried.
func (s *storeManaged) continuedFrom(ctx context.Context, req *host.HistoryRequest, run, snapshot string) (bool, error) {
	for range maxFailures {
		snap, err := s.threads.For(req.Tenant).Snapshot(ctx, req.Thread, run)
		if err != nil {
			return false, err
		}
		if snap.Parent == snapshot {
			return true, nil
		}
		if run = snap.Parent; run == "" {
			return false, nil
		}
		before, err := s.threads.For(req.Tenant).Snapshot(ctx, req.Thread, run)
		if err != nil || before.Status == threads.Completed || before.Input != req.Input.ID {
			return false, err
		}
	}
	return false, nil
}

// deleted reports whether the session of a background turn was deleted after the turn
// began, also if its id names another session now. made is when the session's thread
// was made, zero if that is not known.
func (s *storeManaged) deleted(ctx context.Context, tenant, session string, made time.Time) (bool, error) {
	thread, err := s.threads.For(tenant).Thread(ctx, session)
	if host.CodeOf(err) == host.NotFound {
		return true, nil
	}
	return err == nil && !made.IsZero() && !thread.Created.Equal(made), err
}
