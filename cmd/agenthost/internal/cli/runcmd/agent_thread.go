package runcmd

import (
	"context"
	"errors"

	"github.com/agenthost/agenthost/host"
)

// keptThread is the stored agent thread of a conversation, and the head that it was
// loaded at.
type keptThread struct {
	*host.AgentThread
	head string
}

// agentThread returns the agent thread that the session continues, nil if its target
// has none.
func (s *conversation) agentThread(ctx context.Context) (*keptThread, error) {
	agent, ok := s.target.(*host.Agent)
	if !ok || !s.app.KeepsMessages(agent.Name()) {
		return nil, nil
	}
	opts := &host.ThreadOptions{Tenant: s.app.Tenant(s.tenant)}
	if s.thread != "" {
		data, head, err := s.app.Threads().For(opts.Tenant).LoadAgentThread(ctx, s.thread)
		if err == nil {
			t, err := agent.RestoreThread(ctx, data, opts)
			return &keptThread{t, head}, err
		}
		if host.CodeOf(err) != host.NotFound {
			return nil, err
		}
		opts.ID = s.thread
	}
	t, err := agent.NewThread(ctx, opts)
	return &keptThread{AgentThread: t}, err
}

// save stores the agent thread after the turn.
func (s *conversation) save(ctx context.Context, t *keptThread) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), host.DefaultLimits().CommitTimeout)
	defer cancel()
	data, err := t.Serialize(ctx)
	if err == nil {
		_, err = s.app.Threads().For(t.Tenant()).SaveAgentThread(ctx, t.ID(), data, t.head)
	}
	return err
}

// inAgentThread sets a request to run in the session's agent thread, if it has one.
// done stores the thread after the turn, and returns the turn's error with its own.
func (s *conversation) inAgentThread(ctx context.Context, req *host.Request) (done func(error) error, err error) {
	t, err := s.agentThread(ctx)
	if err != nil || t == nil {
		return func(err error) error { return err }, err
	}
	if req.Resume != "" {
		return nil, host.Errorf(host.Unimplemented, "the messages of agent %q are in a store of its own: its runs are not resumed here", s.target.Name()).
			WithHint("say it again in thread %s", t.ID())
	}
	req.AgentThread, req.Thread = t.AgentThread, ""
	s.thread = t.ID()
	return func(err error) error {
		if saveErr := s.save(ctx, t); saveErr != nil {
			return errors.Join(err, saveErr)
		}
		return err
	}, nil
}
