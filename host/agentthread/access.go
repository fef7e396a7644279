package agentthread

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/foreign"
	"github.com/agenthost/agenthost/host/internal/replay"
)

// Access is a thread as the runs of a host use it. Programs use [Thread].
type Access Thread

// Access returns the thread for a run.
func (t *Thread) Access() *Access { return (*Access)(t) }

func (a *Access) thread() *Thread { return (*Thread)(a) }

// Owner returns the agent whose thread it is.
func (a *Access) Owner() Owner { return a.owner }

// Lock waits for the thread until ctx ends. The caller unlocks it after its last write.
func (a *Access) Lock(ctx context.Context) (unlock func(), err error) {
	select {
	case a.turns <- struct{}{}:
		return func() { <-a.turns }, nil
	case <-ctx.Done():
		return nil, fault.ContextError(ctx)
	}
}

// Content is the conversation that a run begins with.
type Content struct {
	Messages     []*chat.Message // those that the service does not keep
	State        json.RawMessage
	Providers    map[string]json.RawMessage
	Conversation string // the id by which the model's service keeps the conversation
	Known        int    // how many of Messages, from the first, the service has
}

// Load returns the thread's content. The messages are shared and must not be changed.
func (a *Access) Load(ctx context.Context) (*Content, error) {
	t := a.thread()
	t.mu.Lock()
	defer t.mu.Unlock()
	messages, err := t.messages(ctx)
	if err != nil {
		return nil, err
	}
	return &Content{Messages: messages, State: t.state, Providers: t.providers, Conversation: t.service, Known: t.known}, nil
}

// Turn is the part of a turn that a thread stores.
type Turn struct {
	Run        string
	Input      *chat.Message // nil if the turn has none
	InputKept  bool          // the thread had the input before
	InputNamed bool          // the input has an id of its client's
	Messages   []*chat.Message
	Status     chat.FinishReason
	Completed  bool
	Rounds     int                        // of the first result
	State      json.RawMessage            // nil keeps the thread's
	Providers  map[string]json.RawMessage // nil keeps the thread's

	Answered     bool            // a model has answered, so the kind of the thread is decided
	Conversation string          // the id by which the model's service keeps the conversation
	Known        map[string]bool // ids of the messages that the service has
}

// Append stores a turn: one write of a store, or none.
func (a *Access) Append(ctx context.Context, turn *Turn) error {
	t := a.thread()
	t.mu.Lock()
	defer t.mu.Unlock()
	if turn.Status == chat.FinishFailed || turn.Status == chat.FinishCanceled {
		if t.opts.DiscardOnFailure {
			return nil
		}
	}
	said := t.open
	if turn.Input != nil && !turn.InputKept {
		said = append(said[:len(said):len(said)], turn.Input)
	}
	said = append(said[:len(said):len(said)], turn.Messages...)
	if err := t.settle(ctx, turn, said); err != nil {
		return err
	}
	t.noteAnswer(turn)
	t.waiting = nil
	if turn.State != nil {
		t.state = turn.State
	}
	if turn.Providers != nil {
		t.providers = turn.Providers
	}
	return nil
}

// settle decides the kind of the thread and keeps the turn's messages accordingly:
// in the store, or in t.open until the service or a store has them.
func (t *Thread) settle(ctx context.Context, turn *Turn, said []*chat.Message) error {
	switch {
	case turn.Conversation != "":
		t.kind, t.service = Service, turn.Conversation
		t.open, t.known = tail(said, turn.Known)
		return nil
	case t.kind == Undecided && !turn.Answered:
		t.open = said
		return nil
	}
	if t.store == nil {
		if err := t.openStore(ctx, json.RawMessage(`{"messages":[]}`)); err != nil {
			return err
		}
	}
	if _, err := foreign.NamePanic(t.storeName(), func() (struct{}, error) { return struct{}{}, t.store.AddMessages(ctx, said) }); err != nil {
		return err
	}
	t.kind, t.open = InStore, nil
	return nil
}

// tail returns the messages to keep beside a service that has some of the
// conversation: those that it has not received, behind its last answer if that
// called tools whose results it does not have. known counts that answer.
func tail(said []*chat.Message, knows map[string]bool) (open []*chat.Message, known int) {
	last := -1
	for i, m := range said {
		if knows[m.ID] {
			last = i
		}
	}
	if last >= 0 && len(said[last].ToolCalls()) > 0 {
		return slices.Clone(said[last:]), 1
	}
	return slices.Clone(said[last+1:]), 0
}

// Answer is a turn that answered a message.
type Answer struct {
	Run       string
	Messages  []*chat.Message
	Status    chat.FinishReason
	Rounds    int
	CreatedAt time.Time
	State     json.RawMessage // the present one of the thread
}

// FindAnswer returns the turn that answered an input with an id of its client's; nil if
// the thread does not know the message, or its turn did not complete or is not whole
// any more. Code conflict if the thread's message of that id has another content.
func (a *Access) FindAnswer(ctx context.Context, input *chat.Message) (*Answer, error) {
	t := a.thread()
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.IndexFunc(t.answers, func(a answer) bool { return a.Message == input.ID })
	if i < 0 {
		return nil, nil
	}
	messages, err := t.messages(ctx)
	if err != nil {
		return nil, err
	}
	found := t.answers[i]
	asked := slices.IndexFunc(messages, func(m *chat.Message) bool { return m.ID == found.Message })
	if asked < 0 {
		return nil, nil // it was reduced away
	}
	if !messages[asked].SameContent(input) {
		return nil, fault.Errorf(fault.Conflict, "thread %q has a message %q that says something else", t.opts.ID, found.Message).
			WithHint("leave the id out for a fresh one")
	}
	first := slices.IndexFunc(messages, func(m *chat.Message) bool { return m.ID == found.First })
	if found.Run == "" || first < asked || first+found.Count > len(messages) || messages[first+found.Count-1].ID != found.Last {
		return nil, nil // it failed, or the messages were edited or reduced since
	}
	return &Answer{Run: found.Run, Messages: slices.Clone(messages[first : first+found.Count]), Status: found.Status, Rounds: found.Rounds,
		CreatedAt: messages[first].CreatedAt, State: t.state}, nil
}

// KeepCheckpoint keeps where an interrupted run stopped.
func (a *Access) KeepCheckpoint(c *replay.Kept) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting = c
}

// CheckpointOf returns where the run stopped that a request resumes by its id, or only
// by its answers; nil if the thread does not have it.
func (a *Access) CheckpointOf(run string, answers int) *replay.Kept {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.waiting; c != nil && (run == c.Run || run == "" && answers > 0) {
		return c
	}
	return nil
}

// Keepers says who could keep the messages of a thread.
type Keepers struct {
	Kind   Kind
	Chosen bool   // a message store was chosen
	Strict bool   // a second keeper fails the run
	Store  string // the type of the store
	Warned bool   // an earlier call has returned the thread's keepers
}

// Keepers returns who could keep the messages, for a run whose model's service keeps
// the conversation as well.
func (a *Access) Keepers() Keepers {
	t := a.thread()
	t.mu.Lock()
	defer t.mu.Unlock()
	k := Keepers{Kind: t.kind, Chosen: t.stores != nil, Strict: t.opts.StrictStore, Store: t.storesOrMemory().StoreType(), Warned: t.warned}
	t.warned = true
	return k
}
