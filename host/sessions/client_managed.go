package sessions

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/agenthost/agenthost/host"
)

// Sessions that clients keep: everything a turn needs comes with its request, and
// goes back with its output.

// fromClient makes the turn of what the client has brought.
func (t *turn) fromClient(req *Request) error {
	state, err := t.service.readState(req)
	if err != nil {
		return err
	}
	t.state, t.session = state, state.ID
	t.req = host.Request{Tenant: t.tenant, Run: t.run, Input: t.input, Messages: state.Messages, Providers: state.Providers, Artifacts: state.Artifacts}
	if len(state.Custom) > 0 {
		t.req.State = state.Custom
	}
	sealed := t.service.opts.Keys != nil
	t.req.ClientCheckpoint = !sealed
	if len(req.Answers) == 0 {
		t.answer = state.answerTo(req.Input)
		return nil
	}
	if state.Waiting == "" {
		return host.Errorf(host.InvalidArgument, "session %.100q asks nothing", t.session)
	}
	if c := state.Checkpoint; c != nil && !t.service.host.KeepsRuns(t.service.target) {
		again := host.Request{Tenant: t.tenant, Checkpoint: c, Answers: req.Answers, Messages: state.Messages, Providers: state.Providers, Artifacts: state.Artifacts}
		if !sealed {
			again.Checkpoint, again.ClientCheckpoint, again.State = c.ForClient(), true, t.req.State
		}
		t.req = again
		return nil
	}
	// What the run was at is the host's to know: nothing of it is taken from the
	// client but the answers, and the artifacts that its tools can read.
	t.req = host.Request{Tenant: t.tenant, Resume: state.Waiting, Answers: req.Answers, Artifacts: state.Artifacts}
	return nil
}

// readState returns the session that a request brings, or a fresh one.
func (s *Service) readState(req *Request) (*Session, error) {
	state, err := s.openState(req)
	if err != nil {
		return nil, err
	}
	if state.ID == "" {
		state.ID = host.NewID()
	}
	if state.Agent != "" && state.Agent != s.Name() && !s.opts.AnyAgent {
		return nil, otherAgent("session", state.ID, state.Agent, s.Name())
	}
	state.Agent = s.Name()
	if !unset(state.Custom) && s.schema != nil {
		if err := s.schema.ValidateUnseen(state.Custom); err != nil {
			return nil, misfit(state.ID, err)
		}
	}
	return state, nil
}

func (s *Service) openState(req *Request) (*Session, error) {
	if n := len(req.Sealed); n > 2*s.opts.StateBytes {
		return nil, s.tooLarge(n)
	}
	if s.opts.Keys != nil {
		switch {
		case req.State != nil:
			return nil, host.Errorf(host.PermissionDenied, "the session is not sealed").WithHint("send what the last turn has returned as sealed")
		case len(req.Sealed) == 0:
			return &Session{}, nil
		}
		return s.opts.Keys.open(req.Sealed, req.Tenant)
	}
	if len(req.Sealed) > 0 {
		return nil, host.Errorf(host.FailedPrecondition, "the session is sealed, and there are no keys here")
	}
	if req.State == nil {
		return &Session{}, nil
	}
	state := *req.State
	state.Messages, state.Artifacts, state.Providers = slices.Clone(state.Messages), slices.Clone(state.Artifacts), maps.Clone(state.Providers)
	if err := state.check(); err != nil {
		return nil, err
	}
	_, err := s.sized(&state)
	return &state, err
}

// sized holds a session to its limit.
func (s *Service) sized(state *Session) (json.RawMessage, error) {
	raw, err := state.MarshalJSON()
	if err != nil {
		return nil, host.Errorf(host.InvalidArgument, "session %.100q cannot be written: %w", state.ID, err)
	}
	if len(raw) > s.opts.StateBytes {
		return nil, s.tooLarge(len(raw))
	}
	return raw, nil
}

func (s *Service) tooLarge(n int) error {
	return host.Errorf(host.ResourceExhausted, "the session is %d bytes, more than the limit StateBytes of %d", n, s.opts.StateBytes).
		WithHint("begin a new one, or have a store keep it")
}

func misfit(session string, err error) error {
	return &host.Error{Code: host.CodeOf(err), Message: host.Errorf("", "the custom state of session %.100q does not fit the schema: %v", session, err).Message}
}

func otherAgent(what, id, its, ours string) error {
	return host.Errorf(host.FailedPrecondition, "%s %.100q is one of agent %.100q, not of %q", what, id, its, ours).
		WithHint("the option AnyAgent lets an agent go on with another's")
}

// forClient gives the session back: as the turn left it, or as it was if the turn
// failed.
func (t *turn) forClient(ctx context.Context, out *Output) error {
	s := t.service
	state := *t.state
	if out.Error == nil && !out.Replayed {
		state.Messages = slices.Concat(t.state.Messages, out.Messages)
		state.Custom = nil
		if !unset(t.result.State) {
			state.Custom = t.result.State
		}
		for _, a := range t.result.Artifacts {
			state.Artifacts = put(state.Artifacts, a)
		}
		state.Providers = t.result.Providers
		state.Waiting, state.Checkpoint = "", nil
		if out.FinishReason == host.FinishInterrupted {
			state.Waiting = t.result.Run
		}
		if c := t.result.Checkpoint; c != nil {
			if state.Checkpoint = c.WithoutConversation(); s.opts.Keys == nil {
				state.Checkpoint = c.ForClient()
			}
		}
		if _, err := s.sized(&state); err != nil {
			state, out.Messages, out.Questions = *t.state, nil, nil
			out.FinishReason, out.Error = host.FinishFailed, host.AsError(err)
		}
	}
	var err error
	if s.opts.Keys != nil {
		if out.Sealed, err = s.opts.Keys.seal(&state, t.tenant); err != nil {
			return err
		}
	}
	out.State, err = s.seen(ctx, &state)
	if err != nil { // nothing is shown, and nothing is lost: the client still has what it sent
		out.State, out.FinishReason, out.Error = nil, host.FinishFailed, host.AsError(err)
		out.Messages, out.Questions = nil, nil
	}
	return nil
}

// seen returns a session as its client may see it.
func (s *Service) seen(ctx context.Context, state *Session) (*Session, error) {
	out := *state
	var err error
	if out.Custom, err = s.opts.View.State(ctx, state.Custom); err != nil {
		return nil, err
	}
	if out.Messages, err = s.opts.View.Messages(ctx, state.Messages); err != nil {
		return nil, err
	}
	if s.opts.Keys != nil {
		out.Providers, out.Checkpoint = nil, nil
	}
	if s.opts.View.HidesArtifacts() {
		out.Artifacts = nil
	}
	return &out, nil
}
