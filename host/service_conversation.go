package host

import (
	"cmp"
	"context"
	"log/slog"

	"github.com/agenthost/agenthost/host/internal/replay"
	"github.com/agenthost/agenthost/host/internal/report"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runevent"
)

// A model's service may keep the conversation. An agent thread whose service does
// has its id, and a run sends the messages that the service does not have.

// serviceConversation is a run's record of a conversation that the model's service
// keeps.
type serviceConversation struct {
	scope *Scope

	thread    *AgentThread    // nil if the request brings none
	answered  bool            // a model has answered, so that the thread's kind is decided
	id        string          // by which the service keeps the conversation; empty if it does not
	storedIDs map[string]bool // ids of messages that the service has
}

// checkThread refuses a request that does not fit its agent thread.
func (r *run) checkThread() error {
	if r.req.AgentThread == nil {
		return nil
	}
	t := r.req.AgentThread
	owner := t.Access().Owner()
	switch {
	case r.req.Thread != "" && r.req.Thread != t.ID() || len(r.req.Messages) > 0:
		return Errorf(InvalidArgument, "request brings an agent thread and another conversation").
			WithHint("leave Thread and Messages out")
	case !r.net.solo:
		return Errorf(InvalidArgument, "network %q cannot run an agent thread, which is one agent's", r.net.name).
			WithHint("give the network a History, and name its thread")
	case cmp.Or(t.Tenant(), DefaultTenant) != r.scope.Tenant: // a host of several tenants has no request of DefaultTenant
		return Errorf(PermissionDenied, "thread %q is not this tenant's", t.ID())
	case owner.Name != r.net.name || owner.Digest != r.net.agents[0].threadDigest():
		return Errorf(FailedPrecondition, "thread %q is one of agent %q, not of %q", t.ID(), owner.Name, r.net.name).
			WithHint("restore it with the agent that is to go on with it: see ThreadOptions.AnyAgent")
	}
	history, err := NewHistory(threadHistory{t.Access()}, nil)
	r.service.thread, r.scope.Thread, r.thread.history = t, t.ID(), history
	return err
}

// takeLoaded takes over which of the loaded messages the service has.
func (s *serviceConversation) takeLoaded(loaded *Loaded) {
	if s.id = loaded.conversation; s.id == "" {
		return
	}
	s.storedIDs = map[string]bool{}
	for _, m := range loaded.Messages[:loaded.known] {
		s.storedIDs[m.ID] = true
	}
}

// takeReplay takes over which messages the service has of a run whose process has ended:
// everything up to its last answer.
func (s *serviceConversation) takeReplay(loaded *Loaded, said []*Message, p *replay.Run) {
	if p.Service == "" {
		s.takeLoaded(loaded)
		return
	}
	s.storedIDs = map[string]bool{}
	if p.Current != nil {
		said = append(said, p.Current.Result.Messages...)
	}
	for _, m := range said {
		s.storedIDs[m.ID] = true
	}
}

// noteConversation records from an answer whether the service keeps the
// conversation.
func (t *turn) noteConversation(ctx context.Context, resp *llm.Response) error {
	thread := t.run.service.thread
	if thread == nil || t.run.events.Depth > 0 {
		return nil
	}
	switch {
	case resp.Conversation == "" && t.run.service.id == "":
		t.run.service.answered = true
		return nil
	case resp.Conversation == "":
		return Errorf(FailedPrecondition, "thread %q is kept by the model's service, and model %q says that its service does not keep it", t.run.scope.Thread, t.model.Name()).
			WithHint("run it with the model that began it, told to store")
	case t.run.service.id == "":
		service, err := t.run.service.chooseKeeper(ctx, &t.run.events, t.model.Name())
		if t.run.service.answered = err == nil; err != nil || !service {
			return err
		}
	}
	t.run.service.answered, t.run.service.id = true, resp.Conversation
	if t.run.service.storedIDs == nil {
		t.run.service.storedIDs = map[string]bool{}
	}
	for _, m := range append(t.run.conv.messages(), t.result.Messages...) {
		t.run.service.storedIDs[m.ID] = true
	}
	t.providers.messages = nil // it was sent
	return nil
}

// chooseKeeper decides between a message store and a service that keeps the
// conversation as well. The service wins where nothing is stored yet; a
// conversation in a store stays there.
func (s *serviceConversation) chooseKeeper(ctx context.Context, events *report.Reporter, model string) (service bool, err error) {
	k := s.thread.Access().Keepers()
	service = k.Kind != ThreadStore
	if service && !k.Chosen {
		return true, nil
	}
	if k.Strict {
		return false, Errorf(FailedPrecondition, "thread %q has a message store of the type %s, and the service of model %q keeps the conversation too",
			s.scope.Thread, k.Store, model).WithHint("tell the model not to store, or choose no message store")
	}
	if k.Warned {
		return service, nil
	}
	ev := &runevent.ThreadDecided{Kind: ThreadStore, Store: k.Store}
	if service {
		ev.Kind = ThreadService
	}
	events.Log(ctx, slog.LevelWarn, "two keep one conversation: a message store, and the model's service", "store", ev.Store, "kept", string(ev.Kind))
	events.Emit(ev)
	return service, nil
}

// noteStored notes that the service has a message: its own answer.
func (s *serviceConversation) noteStored(m *Message) {
	if s.id != "" {
		s.storedIDs[m.ID] = true
	}
}

// unsent returns the messages that a model's service does not know: all, if it
// keeps none.
func (s *serviceConversation) unsent(messages []*Message) []*Message {
	if s.id == "" {
		return messages
	}
	var out []*Message
	for _, m := range messages {
		if !s.storedIDs[m.ID] {
			out = append(out, m)
		}
	}
	return out
}

// viewOfUnsent is the view of a conversation that the model's service keeps: its
// new messages. Results of tools go unchanged, for the service waits for each; the
// rest passes the processors, which do not see the messages sent before.
func (t *turn) viewOfUnsent(ctx context.Context, messages []*Message) ([]*Message, error) {
	var results, rest []*Message
	for _, m := range messages {
		if m.Role == ToolRole {
			results = append(results, m)
		} else {
			rest = append(rest, m)
		}
	}
	if len(rest) == 0 {
		return results, nil
	}
	rest, err := t.processed(ctx, rest)
	return append(results, rest...), err
}
