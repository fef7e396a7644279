package sessions

import (
	"context"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/threads"
)

// Status says how far a turn is.
type Status string

// The statuses of a snapshot.
const (
	Pending   Status = "pending"   // it runs in the background
	Aborting  Status = "aborting"  // and was asked to end
	Completed Status = "completed" // the session can be gone on with from here
	Failed    Status = "failed"    // so it can from here, by this snapshot's name
	Aborted   Status = "aborted"   // and from here
	Expired   Status = "expired"   // it was pending, and its process has ended
)

// Settled reports whether the turn has ended, one way or another.
func (s Status) Settled() bool { return s != Pending && s != Aborting }

func statusOf(s threads.Status) Status {
	switch s {
	case threads.Failed:
		return Failed
	case threads.Canceled:
		return Aborted
	}
	return Completed // also with a question
}

// Snapshot is a session after one of its turns.
type Snapshot struct {
	ID           string            `json:"snapshot"` // unique in the tenant; names the session too
	Session      string            `json:"session"`
	Parent       string            `json:"parent,omitempty"` // the snapshot that the turn went on from; none for the first
	Agent        string            `json:"agent,omitempty"`  // or network, that made the turn
	Status       Status            `json:"status"`           // how far the turn is
	FinishReason host.FinishReason `json:"finish_reason,omitempty"`
	Error        *host.Error       `json:"error,omitempty"`       // why it failed
	Created      time.Time         `json:"created_at"`            // when the turn was stored; of one in the background, begun
	Heartbeat    time.Time         `json:"heartbeat_at,omitzero"` // the last sign of life of one that runs
	Usage        host.Usage        `json:"usage"`                 // of the turn alone
	Questions    []*host.Question  `json:"questions,omitempty"`   // that it left, still without answers
	Superseded   bool              `json:"superseded,omitempty"`  // the session has moved on: they cannot be answered any more

	// State is the session after the turn, as clients may see it, with its last
	// messages. Artifacts are listed, not held: see [Service.Artifact].
	State     *Session               `json:"state,omitempty"`
	Artifacts []threads.ArtifactInfo `json:"artifacts,omitempty"`

	// Digest is that of the artifact that [Service.PutArtifact] has stored, in its
	// answer alone.
	Digest string `json:"digest,omitempty"`
}

// SnapshotRequest asks for a snapshot: by its id, with the content of its time,
// or for the one that a session continues from, with later edits and without the
// messages deleted since. With both, the snapshot must be the session's, and has
// the content of its time.
type SnapshotRequest struct {
	Tenant   string `json:"-"` // from a credential
	Session  string `json:"session,omitempty"`
	Snapshot string `json:"snapshot,omitempty"`

	WithoutState bool `json:"without_state,omitempty"` // status, lineage and questions alone
	Messages     int  `json:"messages,omitempty"`      // at most, the last ones (2,000)
}

// Snapshot reads a snapshot. Code not_found if it does not exist,
// failed_precondition if clients keep the sessions, invalid_argument for a
// snapshot of another session and for a request that names neither.
func (s *Service) Snapshot(ctx context.Context, req *SnapshotRequest) (*Snapshot, error) {
	if err := s.needStore("read a snapshot"); err != nil {
		return nil, err
	}
	tenant, err := s.served.host.Tenant(req.Tenant)
	if err != nil {
		return nil, err
	}
	own := *req
	own.Tenant = tenant
	return s.store.snapshot(ctx, &own)
}

// snapshot is Snapshot for a request that names its tenant.
func (s *storeManaged) snapshot(ctx context.Context, req *SnapshotRequest) (*Snapshot, error) {
	session, run, err := s.named(ctx, req)
	if err != nil {
		return nil, err
	}
	p, _, err := s.records.read(ctx, req.Tenant, run)
	if err != nil {
		return nil, err
	}
	if p != nil && p.Session == session {
		return s.records.snapshot(ctx, p), nil
	}
	return s.readSnapshot(ctx, req, session, run)
}

// named returns the session and the run that a request names.
func (s *storeManaged) named(ctx context.Context, req *SnapshotRequest) (session, run string, err error) {
	switch {
	case req.Session == "" && req.Snapshot == "":
		return "", "", host.Errorf(host.InvalidArgument, "neither a snapshot nor a session is named")
	case req.Messages < 0:
		return "", "", host.Errorf(host.InvalidArgument, "read a snapshot: messages is %d", req.Messages).WithHint("leave it out for the default")
	case req.Snapshot != "":
		if err := checkSnapshotOf(req.Session, req.Snapshot); err != nil {
			return "", "", err
		}
		return readSnapshotID(req.Snapshot)
	}
	if err := checkSession(req.Session); err != nil {
		return "", "", err
	}
	run, err = s.lastCompleted(ctx, req.Tenant, req.Session, "")
	if err == nil && run == "" {
		err = host.Errorf(host.NotFound, "session %.100q has no snapshot", req.Session)
	}
	return req.Session, run, err
}

// readSnapshot reads the snapshot of a turn that has ended.
func (s *storeManaged) readSnapshot(ctx context.Context, req *SnapshotRequest, session, run string) (*Snapshot, error) {
	snap, err := s.threads.For(req.Tenant).Snapshot(ctx, session, run)
	if err != nil {
		return nil, noSnapshot(err, SnapshotID(session, run))
	}
	if !s.served.owns(snap.Network) {
		return nil, host.Errorf(host.NotFound, "there is no snapshot %.300q", SnapshotID(session, run))
	}
	out := &Snapshot{
		ID: SnapshotID(session, run), Session: session, Parent: SnapshotID(session, snap.Parent), Agent: snap.Network,
		Status: statusOf(snap.Status), FinishReason: snap.FinishReason, Error: snap.Error, Created: snap.Time, Usage: snap.Usage,
	}
	if err = s.questions(ctx, req.Tenant, out, run); err != nil {
		return nil, err
	}
	if req.WithoutState {
		return out, nil
	}
	return out, s.readSession(ctx, req, out, run)
}

// questions adds the questions that a turn left, and whether the session still asks
// them.
func (s *storeManaged) questions(ctx context.Context, tenant string, out *Snapshot, run string) error {
	asking, err := s.openQuestionFrom(ctx, tenant, out.Session, run)
	if err != nil || asking == "" {
		return err
	}
	out.Questions, err = s.served.host.Questions(ctx, s.served.target, tenant, asking)
	if err != nil && host.CodeOf(err) != host.Conflict && host.CodeOf(err) != host.NotFound { // answered, or forgotten
		return err
	}
	if len(out.Questions) == 0 {
		return nil
	}
	now, err := s.openQuestion(ctx, tenant, out.Session)
	out.Superseded = now != asking
	return err
}

func (s *storeManaged) readSession(ctx context.Context, req *SnapshotRequest, out *Snapshot, run string) error {
	at := threads.At{Snapshot: run}
	if req.Snapshot == "" {
		at = threads.At{Turn: run}
	}
	then, err := s.threads.For(req.Tenant).ShowAt(ctx, out.Session, at, req.Messages)
	if err != nil {
		return err
	}
	state := &Session{ID: out.Session, Agent: out.Agent, Messages: then.Messages, First: then.First}
	if !unset(then.State) {
		state.Custom = then.State
	}
	if out.State, err = s.served.shown(ctx, state); err != nil {
		return err
	}
	if !s.served.view.HidesArtifacts() {
		out.Artifacts = then.Artifacts
	}
	return nil
}
