package sessions

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
)

// clientManaged is for sessions that clients keep: a session comes whole with the
// request, and is returned with the output.
type clientManaged struct {
	served   *served
	keys     *Keys // nil: sessions are not sealed
	maxBytes int   // of a session, as JSON
}

// begin makes t a turn of the session that req brings, or of a new one.
func (c *clientManaged) begin(_ context.Context, t *turn, req *Request) error {
	state, err := c.read(req)
	if err != nil {
		return err
	}
	t.clientSession, t.session = state, state.ID
	t.req = host.Request{Tenant: t.tenant, Run: t.run, Input: t.input, Messages: state.Messages, Providers: state.Providers, Artifacts: state.Artifacts}
	if len(state.Custom) > 0 {
		t.req.State = state.Custom
	}
	sealed := c.keys != nil
	t.req.ClientCheckpoint = !sealed
	if len(req.Answers) == 0 {
		t.answer = state.answerTo(req.Input)
		return nil
	}
	if state.Waiting == "" {
		return host.Errorf(host.InvalidArgument, "session %.100q asks nothing", t.session)
	}
	if at := state.Checkpoint; at != nil && !c.served.host.KeepsRuns(c.served.target) {
		again := host.Request{Tenant: t.tenant, Checkpoint: at, Answers: req.Answers, Messages: state.Messages, Providers: state.Providers, Artifacts: state.Artifacts}
		if !sealed {
			again.Checkpoint, again.ClientCheckpoint, again.State = at.ForClient(), true, t.req.State
		}
		t.req = again
		return nil
	}
	// The journal has the state of the run: only the answers, and the artifacts that
	// its tools can read, are the client's.
	t.req = host.Request{Tenant: t.tenant, Resume: state.Waiting, Answers: req.Answers, Artifacts: state.Artifacts}
	return nil
}

// read returns the session that a request brings, or a new one.
func (c *clientManaged) read(req *Request) (*Session, error) {
	state, err := c.open(req)
	if err != nil {
		return nil, err
	}
	if state.ID == "" {
		state.ID = host.NewID()
	}
	if err := c.served.checkOwner("session", state.ID, state.Agent); err != nil {
		return nil, err
	}
	state.Agent = c.served.name()
	return state, c.served.checkCustom(state.ID, state.Custom)
}

// open returns the session that a request carries, unsealed.
func (c *clientManaged) open(req *Request) (*Session, error) {
	if n := len(req.Sealed); n > 2*c.maxBytes {
		return nil, c.tooLarge(n)
	}
	if c.keys != nil {
		switch {
		case req.State != nil:
			return nil, host.Errorf(host.PermissionDenied, "the session is not sealed").WithHint("send what the last turn has returned as sealed")
		case len(req.Sealed) == 0:
			return &Session{}, nil
		}
		return c.keys.open(req.Sealed, req.Tenant)
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
	_, err := c.encode(&state)
	return &state, err
}

// encode returns a session as JSON; code resource_exhausted over the limit.
func (c *clientManaged) encode(state *Session) (json.RawMessage, error) {
	raw, err := state.MarshalJSON()
	if err != nil {
		return nil, host.Errorf(host.InvalidArgument, "session %.100q cannot be written: %w", state.ID, err)
	}
	if len(raw) > c.maxBytes {
		return nil, c.tooLarge(len(raw))
	}
	return raw, nil
}

func (c *clientManaged) tooLarge(n int) error {
	return host.Errorf(host.ResourceExhausted, "the session is %d bytes, more than the limit StateBytes of %d", n, c.maxBytes).
		WithHint("begin a new one, or have a store keep it")
}

// finish returns the session to its client: with the turn, or as the client sent it
// if the turn failed.
func (c *clientManaged) finish(ctx context.Context, t *turn, out *Output) error {
	state := *t.clientSession
	if out.Error == nil && !out.Replayed {
		state.Messages = slices.Concat(t.clientSession.Messages, out.Messages)
		state.Custom = nil
		if !unset(t.result.State) {
			state.Custom = t.result.State
		}
		for _, a := range t.result.Artifacts {
			state.Artifacts = putArtifact(state.Artifacts, a)
		}
		state.Providers = t.result.Providers
		state.Waiting, state.Checkpoint = "", nil
		if out.FinishReason == chat.FinishInterrupted {
			state.Waiting = t.result.Run
		}
		if at := t.result.Checkpoint; at != nil {
			if state.Checkpoint = at.WithoutConversation(); c.keys == nil {
				state.Checkpoint = at.ForClient()
			}
		}
		if _, err := c.encode(&state); err != nil {
			state, out.Messages, out.Questions = *t.clientSession, nil, nil
			out.FinishReason, out.Error = chat.FinishFailed, fault.AsError(err)
		}
	}
	var err error
	if c.keys != nil {
		if out.Sealed, err = c.keys.seal(&state, t.tenant); err != nil {
			return err
		}
	}
	out.State, err = c.shown(ctx, &state)
	if err != nil { // nothing is shown, and nothing is lost: the client still has what it sent
		out.State, out.FinishReason, out.Error = nil, chat.FinishFailed, fault.AsError(err)
		out.Messages, out.Questions = nil, nil
	}
	return nil
}

// shown returns a copy of a session with the parts that its client may see. The
// states of providers and the checkpoint are only in the sealed session, if it is
// sealed.
func (c *clientManaged) shown(ctx context.Context, session *Session) (*Session, error) {
	out, err := c.served.shown(ctx, session)
	if err == nil && c.keys != nil {
		out.Providers, out.Checkpoint = nil, nil
	}
	return out, err
}
