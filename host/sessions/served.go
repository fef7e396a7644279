package sessions

import (
	"context"
	"encoding/json"
	"log/slog"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/stream"
)

// served is the agent or network of a service: the host that runs it, and the
// rules that hold for every session of it. It does not change.
type served struct {
	target   host.Target
	host     *host.Host
	schema   *host.Schema // of the custom state; nil accepts any object
	view     *stream.View // of clients; nil shows everything
	anyAgent bool         // sessions of other agents are accepted
	logger   *slog.Logger // nil discards
}

func (s *served) name() string { return s.target.Name() }

// owns reports whether a turn by the agent of that name may be continued here. A
// turn without an agent, such as an imported one, may.
func (s *served) owns(agent string) bool {
	return agent == "" || agent == s.name() || s.anyAgent
}

// checkOwner refuses a session or snapshot of another agent.
func (s *served) checkOwner(what, id, agent string) error {
	if s.owns(agent) {
		return nil
	}
	return host.Errorf(host.FailedPrecondition, "%s %.100q is one of agent %.100q, not of %q", what, id, agent, s.name()).
		WithHint("the option AnyAgent lets an agent go on with another's")
}

// checkCustom validates a custom state that did not come from a run of this
// process against the schema.
func (s *served) checkCustom(session string, custom json.RawMessage) error {
	if s.schema == nil || unset(custom) {
		return nil
	}
	if err := s.schema.ValidateUnseen(custom); err != nil {
		return &host.Error{Code: host.CodeOf(err), Message: host.Errorf("", "the custom state of session %.100q does not fit the schema: %v", session, err).Message}
	}
	return nil
}

// unset reports whether a custom state was never set.
func unset(custom json.RawMessage) bool {
	return len(custom) == 0 || string(custom) == "{}"
}

// shown returns a copy of a session with the parts that clients may see.
func (s *served) shown(ctx context.Context, session *Session) (*Session, error) {
	out := *session
	var err error
	if out.Custom, err = s.view.State(ctx, session.Custom); err != nil {
		return nil, err
	}
	if out.Messages, err = s.view.Messages(ctx, session.Messages); err != nil {
		return nil, err
	}
	if s.view.HidesArtifacts() {
		out.Artifacts = nil
	}
	return &out, nil
}

func (s *served) logError(what, run string, err error) {
	if s.logger != nil {
		s.logger.Error(what, "run", run, "error", err)
	}
}
