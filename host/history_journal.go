package host

import (
	"context"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/internal/replay"
	"github.com/agenthost/agenthost/host/providerstate"
)

// The journal of a durable run has the history adapter's answer, so that a resumed
// run asks the adapter only whether the thread has moved on.

// maxJournaledHistory is how many bytes of a conversation are written down. A
// longer one is loaded again: it would cost each durable run a write of its length,
// where the run itself writes new messages only.
const maxJournaledHistory = 256 << 10

// journaledHistory returns the loaded conversation as a step of the journal; nil if nothing was, or
// too much. The messages of an agent thread are not an adapter's answer.
func (t *runThread) journaledHistory() *replay.LoadedStep {
	if t.loaded == nil || t.req.AgentThread != nil {
		return nil
	}
	size := 0
	for _, m := range t.loaded.Messages { // a first guess, and cheap
		bytes, _ := m.Size()
		if size += bytes; size > maxJournaledHistory {
			return nil
		}
	}
	raw := chat.AppendMessagesJSON(nil, t.loaded.Messages)
	if len(raw) > maxJournaledHistory {
		return nil
	}
	return &replay.LoadedStep{Messages: raw, Providers: t.loaded.Providers}
}

// readLoaded returns the journaled conversation, nil if the journal has none.
func readLoaded(s *replay.LoadedStep) (*Loaded, error) {
	if s == nil {
		return nil, nil
	}
	messages, err := chat.DecodeMessages(s.Messages)
	if err == nil {
		err = providerstate.Check(s.Providers)
	}
	if err != nil {
		return nil, Errorf(DataLoss, "the conversation of a run in the journal cannot be read: %w", err)
	}
	return &Loaded{Messages: messages, Providers: s.Providers}, nil
}

// checkHead fails if the thread has moved on since the run wrote to it last. An
// adapter that cannot tell says so when the results are stored.
func (t *runThread) checkHead(ctx context.Context) error {
	if t.history == nil || t.history.threadHead == nil || t.head == "" {
		return nil
	}
	head, err := callHistory(ctx, t, historyCall[string]{method: "ThreadHead", limit: historyLimit(t.limits), call: t.history.threadHead})
	if err != nil {
		return wrapError(err, "read the head of thread %q", t.scope.Thread)
	}
	if head != t.head {
		return errMovedOn(t.scope)
	}
	return nil
}
