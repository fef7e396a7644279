package sessions

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/agenthost/agenthost/host"
)

// Request asks for one turn of a session. With neither Text nor Input nor Answers
// the last failed turn is tried again; in a session without one, the model is
// asked with the session's messages.
type Request struct {
	// Tenant is the caller's name: from a credential, never from the request body. It
	// may be empty where Options.Host has SingleTenant.
	Tenant string `json:"-"`
	// Key names the caller's credential: see [host.Request].Key.
	Key string `json:"-"`
	// Answering, unless nil, is called before Answers to the questions of a run are taken:
	// for an audit log. Its error refuses them.
	Answering func(ctx context.Context, run string) error `json:"-"`

	// Session continues a session that a store keeps, from its last completed
	// turn. A session that does not exist begins, under this id; without an id,
	// under a fresh one.
	Session string `json:"session,omitempty"`
	// Snapshot continues from that turn, regardless of later turns, and whether
	// the turn completed or not. If Session is named as well, the snapshot must
	// belong to it.
	Snapshot string `json:"snapshot,omitempty"`

	// State is the session, where clients keep theirs: as the last turn returned
	// it. Sealed is the same where it is sealed.
	State  *Session        `json:"state,omitempty"`
	Sealed json.RawMessage `json:"sealed,omitempty"`

	Text string `json:"text,omitempty"` // the user's input

	// Input is the whole message, with an id of the client's. Sent again with its id
	// after its turn completed, it is answered with the stored turn: no model is
	// asked, and nothing is charged or stored; in the background, with the snapshot
	// that it was acknowledged with. After a turn that failed it is tried again.
	// Other content under the id of a message is code conflict.
	Input *host.Message `json:"input,omitempty"`

	// Answers answer the questions of the turn that is gone on from, all of them.
	Answers []host.Answer `json:"answers,omitempty"`

	// Detach has the turn run in the background: see [Service.Turn].
	Detach bool `json:"detach,omitempty"`
	// Detachable lets the turn be detached while it runs: see [Service.Detach].
	Detachable bool `json:"detachable,omitempty"`
}

// says reports whether the request brings something new.
func (r *Request) says() bool { return r.Text != "" || r.Input != nil }

// checkRequest refuses a request whose parts contradict each other or the service,
// before the turn begins.
func (s *Service) checkRequest(r *Request) error {
	if s.store == nil && (r.Session != "" || r.Snapshot != "") {
		return host.Errorf(host.FailedPrecondition, "Cannot use 'session' or 'snapshot': the sessions of %q are kept by their clients", s.Name()).
			WithHint("send the session itself, as the last turn has returned it")
	}
	if s.store != nil && (r.State != nil || len(r.Sealed) > 0) {
		return host.Errorf(host.FailedPrecondition, "Cannot send 'state': the sessions of %q are kept by the server", s.Name()).
			WithHint("send the session's id, or a snapshot's")
	}
	if r.State != nil && len(r.Sealed) > 0 {
		return host.Errorf(host.InvalidArgument, "request has both a session and a sealed one")
	}
	if r.Text != "" && r.Input != nil {
		return host.Errorf(host.InvalidArgument, "request has both text and input")
	}
	if len(r.Answers) > 0 && r.says() {
		return host.Errorf(host.FailedPrecondition, "request answers questions and says something new").
			WithHint("send the answers, then say the rest")
	}
	if (r.Detach || r.Detachable) && s.store == nil {
		return host.Errorf(host.FailedPrecondition, "only sessions that a store keeps can run in the background")
	}
	if (r.Detach || r.Detachable) && len(r.Answers) > 0 {
		return host.Errorf(host.Unimplemented, "answers cannot be sent into the background").WithHint("send them without detach and detachable")
	}
	if r.Session != "" {
		if err := checkSession(r.Session); err != nil {
			return err
		}
	}
	if r.Snapshot == "" {
		return nil
	}
	return checkSnapshotOf(r.Session, r.Snapshot)
}

// checkSnapshotOf refuses a snapshot of another session than the one that is named
// beside it, if one is.
func checkSnapshotOf(session, snapshot string) error {
	of, _, err := readSnapshotID(snapshot)
	if err != nil {
		return err
	}
	if session != "" && session != of {
		return host.Errorf(host.InvalidArgument, "snapshot %.100q does not belong to session %.100q", snapshot, session)
	}
	return nil
}

// SnapshotID returns the id of the snapshot that a run leaves of its session; empty
// for an empty run. The id names both, so that the snapshot is found by it alone.
func SnapshotID(session, run string) string {
	if run == "" {
		return ""
	}
	return run + ":" + session
}

func readSnapshotID(id string) (session, run string, err error) {
	run, session, ok := strings.Cut(id, ":")
	if !ok || run == "" || checkSession(session) != nil {
		return "", "", host.Errorf(host.NotFound, "there is no snapshot %.100q", id)
	}
	return session, run, nil
}
