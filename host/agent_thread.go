package host

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/internal/foreign"
	"github.com/agenthost/agenthost/host/internal/replay"
)

// AgentThread is a conversation with one agent that the caller holds: give it with
// [Request].AgentThread, and serialize it between turns. No other store is needed.
// (A thread of a [History] is the host's to keep, by its id; an agent thread is a
// value. The name, and what it does, are Agent Framework's.)
//
// It is of one of three kinds, which the first answer decides. If the model's
// service says that it keeps the conversation, the thread has only its id, and each
// turn sends the new messages. If not, the messages are in a [MessageStore]: that
// of [AgentOptions].Messages, or one in memory. A thread that has had no answer is
// undecided.
//
// A turn is stored when it ends, in one write: its input and everything that was
// finished, also if it failed, unless [ThreadOptions].DiscardOnFailure is set.
// A message that is sent again is answered with its turn, as in [Request].Input, if
// it is one of the last 32 with ids of their client's; the state is the thread's
// present one. The messages of a thread that a service keeps are not here to answer with.
// Custom state goes with the thread. Runs of one thread wait for each other.
// Safe for concurrent use.
type AgentThread struct {
	agent   *Agent
	opts    ThreadOptions
	stores  MessageStores
	turns   chan struct{} // holds a value while a run has the thread
	history *History      // the thread as a run sees it

	mu        sync.Mutex
	kind      ThreadKind
	store     MessageStore // nil as long as a store in memory is not needed
	service   string       // the service's id of the conversation
	open      []*Message   // the messages that no store has: see [tail]
	known     int          // how many of open the service has
	state     json.RawMessage
	providers map[string]json.RawMessage // states of context providers, by their key
	told      bool                       // that the store is passed over
	answers   []threadAnswer             // to its last messages with ids of a client's
	waiting   *Checkpoint                // of the last run, if it asks and no journal keeps it
}

// ThreadKind says who keeps the messages of an agent thread.
type ThreadKind = chat.ThreadKind

// The kinds: see [chat.ThreadKind].
const (
	ThreadUndecided = chat.ThreadUndecided
	ThreadService   = chat.ThreadService
	ThreadStore     = chat.ThreadStore
)

// ThreadOptions are the optional parts of an agent thread.
type ThreadOptions struct {
	// Tenant is whose thread it is, from a credential. Only requests of that
	// tenant can use it.
	Tenant string

	// ID names the thread, and so do stores that keep several. Default: a fresh
	// one. With a store that keeps messages by name, an id that has messages already
	// continues with them.
	ID string

	// Conversation is one that the model's service has already: the thread is the
	// service's from the beginning. Not with Store.
	Conversation string

	// Store keeps the messages of this thread, in the place of
	// [AgentOptions].Messages; a serialized thread can then be restored only with
	// a Store again.
	Store MessageStore

	// StrictStore fails a run if a message store was chosen, and the model's
	// service says that it keeps the conversation: nothing is stored then. Without
	// it the service wins, which an event and the log say, once.
	StrictStore bool

	// DiscardOnFailure leaves the thread unchanged if a run fails or is canceled.
	DiscardOnFailure bool

	// AnyAgent restores a thread that another agent serialized, or this one with
	// other stores or providers.
	AnyAgent bool
}

// NewThread returns an undecided thread, or one of the service's with
// ThreadOptions.Conversation. opts may be nil. Code invalid_argument if a
// conversation and a store are given or the id is one that no store takes, and the
// errors of [MessageStores].OpenStore.
func (a *Agent) NewThread(ctx context.Context, opts *ThreadOptions) (*AgentThread, error) {
	t, err := a.newThread(opts)
	if err != nil {
		return nil, err
	}
	if t.service = t.opts.Conversation; t.service != "" {
		t.kind = ThreadService
		return t, nil
	}
	if err := t.openStore(ctx, nil); err != nil {
		return nil, err
	}
	return t, nil
}

func (a *Agent) newThread(opts *ThreadOptions) (*AgentThread, error) {
	t := &AgentThread{agent: a, kind: ThreadUndecided, stores: a.opts.Messages, turns: make(chan struct{}, 1)}
	if opts != nil {
		t.opts = *opts
	}
	if t.opts.Conversation != "" && t.opts.Store != nil {
		return nil, Errorf(InvalidArgument, "thread of agent %q has a conversation of the service's and a message store", a.name).
			WithHint("give one of Conversation and Store")
	}
	if t.opts.ID == "" {
		t.opts.ID = NewID()
	}
	if !validThreadID(t.opts.ID) {
		return nil, Errorf(InvalidArgument, "thread of agent %q has an id of %d bytes that no store takes", a.name, len(t.opts.ID)).
			WithHint("use at most %d bytes of UTF-8 without control characters that are not all blank, or leave it out", maxMessageID)
	}
	if t.opts.Store != nil {
		t.stores = givenStore{t.opts.Store}
	}
	var err error
	t.history, err = NewHistory((*threadHistory)(t), nil)
	return t, err
}

func validThreadID(id string) bool { return validMessageID(id) && strings.TrimSpace(id) != "" }

// openStore opens the store that was chosen, if one was, or that the state is of.
func (t *AgentThread) openStore(ctx context.Context, state json.RawMessage) error {
	if t.stores == nil && state == nil {
		return nil
	}
	var err error
	t.store, err = t.storesOrMemory().OpenStore(ctx, &StoreRequest{Tenant: t.opts.Tenant, Thread: t.opts.ID, State: state})
	return wrapError(err, "open the messages of thread %q", t.opts.ID)
}

func (t *AgentThread) storesOrMemory() MessageStores {
	if t.stores == nil {
		return &memoryStores{MemoryMessagesOptions{Trigger: BeforeMessagesRetrieval}}
	}
	return t.stores
}

// givenStore is the one store of one thread.
type givenStore struct{ MessageStore }

func (givenStore) StoreType() string { return "given" }

func (s givenStore) OpenStore(context.Context, *StoreRequest) (MessageStore, error) {
	return s.MessageStore, nil
}

// ID returns the thread's id.
func (t *AgentThread) ID() string { return t.opts.ID }

// Tenant returns whose thread it is.
func (t *AgentThread) Tenant() string { return t.opts.Tenant }

// Questions returns what the last run asks, if it was interrupted on a host without a
// journal: a request with the thread and the Answers resumes it. A serialized
// thread has them if none is about an approval or an agent used as a tool: a client
// that can change the thread must not answer those. They are answered to the thread
// itself, or with a [Journal].
func (t *AgentThread) Questions() []*Question {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waiting == nil {
		return nil
	}
	return replay.QuestionsOf(t.waiting.Kept().Left.Calls)
}

// keepCheckpoint keeps where an interrupted run stopped.
func (t *AgentThread) keepCheckpoint(c *Checkpoint) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting = c
}

// checkpointOf returns where the run stopped that a request resumes, nil if the thread
// does not have it.
func (t *AgentThread) checkpointOf(req *Request) *Checkpoint {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.waiting; c != nil && (req.Resume == c.Kept().Run || req.Resume == "" && len(req.Answers) > 0) {
		return c
	}
	return nil
}

// Kind returns who keeps the thread's messages.
func (t *AgentThread) Kind() ThreadKind {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.kind
}

// Conversation returns the id by which the model's service keeps the
// conversation; "" if it does not. It may change with every turn. A stored one can
// be continued by another thread: a fork.
func (t *AgentThread) Conversation() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.service
}

// State returns the custom state that the last run left, or nil.
func (t *AgentThread) State() json.RawMessage {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.state)
}

// Messages returns the conversation, oldest first. Code failed_precondition if the
// model's service has it, for then the thread has no copy.
func (t *AgentThread) Messages(ctx context.Context) ([]*Message, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kind == ThreadService {
		return nil, Errorf(FailedPrecondition, "the messages of thread %q are with the model's service, as conversation %q", t.opts.ID, t.service)
	}
	return t.messages(ctx)
}

// EditMessages replaces the conversation by the one that edit returns, in one
// write. It waits for a run that has the thread. The messages that edit gets are
// shared and must not be changed; it returns others in the place of those. Codes:
// failed_precondition if the model's service has the conversation, unimplemented if
// the thread's store is no [MessageEditor] (the one in memory is), invalid_argument
// for a conversation that no model can be sent, such as a result without its call.
// Then nothing has changed, and likewise if edit fails.
func (t *AgentThread) EditMessages(ctx context.Context, edit func(messages []*Message) ([]*Message, error)) error {
	unlock, err := (*threadHistory)(t).LockThread(ctx, nil)
	if err != nil {
		return err
	}
	defer unlock()
	list, err := t.Messages(ctx)
	if err != nil {
		return err
	}
	if list, err = edit(list); err != nil {
		return err
	}
	if err := checkMessages(list); err != nil {
		return Errorf(InvalidArgument, "edit the messages of thread %q: %w", t.opts.ID, err)
	}
	list = slices.Clone(list)
	for i, m := range list {
		list[i] = m.WithIdentity()
	}
	if err := chat.Check(list); err != nil {
		return Errorf(InvalidArgument, "edit the messages of thread %q: %w", t.opts.ID, err)
	}
	return t.setMessages(ctx, list)
}

func (t *AgentThread) setMessages(ctx context.Context, list []*Message) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.store == nil {
		t.open = list
		return nil
	}
	e, ok := t.store.(MessageEditor)
	if !ok {
		return Errorf(Unimplemented, "the messages of thread %q are in a %T, which cannot change them", t.opts.ID, t.store)
	}
	if err := e.SetMessages(ctx, list); err != nil {
		return wrapError(err, "edit the messages of thread %q", t.opts.ID)
	}
	t.open = nil
	return nil
}

func (t *AgentThread) messages(ctx context.Context) ([]*Message, error) {
	if t.kind == ThreadService || t.store == nil {
		return slices.Clone(t.open), nil
	}
	list, err := foreign.NamePanic(t.storeName(), func() ([]*Message, error) { return t.store.ListMessages(ctx) })
	return append(list, t.open...), err
}

// storeName names the store in the error of its panic.
func (t *AgentThread) storeName() string { return fmt.Sprintf("message store %T", t.store) }

// threadHistory is an agent thread as a run sees it.
type threadHistory AgentThread

var (
	_ ThreadLocker   = (*threadHistory)(nil)
	_ HistoryLoader  = (*threadHistory)(nil)
	_ ResultAppender = (*threadHistory)(nil)
	_ TurnReader     = (*threadHistory)(nil)
)

// LockThread implements [ThreadLocker].
func (h *threadHistory) LockThread(ctx context.Context, _ *HistoryRequest) (func(), error) {
	select {
	case h.turns <- struct{}{}:
		return func() { <-h.turns }, nil
	case <-ctx.Done():
		return nil, ContextError(ctx)
	}
}

// Get implements [HistoryLoader].
func (h *threadHistory) Get(ctx context.Context, _ *HistoryRequest) (*Loaded, error) {
	t := (*AgentThread)(h)
	t.mu.Lock()
	defer t.mu.Unlock()
	messages, err := t.messages(ctx)
	if err != nil {
		return nil, err
	}
	return &Loaded{Messages: messages, State: t.state, Providers: t.providers, conversation: t.service, known: t.known}, nil
}

// AppendResults implements [ResultAppender]: one write of a store, or none.
func (h *threadHistory) AppendResults(ctx context.Context, req *HistoryRequest, turn *Turn) error {
	t := (*AgentThread)(h)
	t.mu.Lock()
	defer t.mu.Unlock()
	if turn.Status == FinishFailed || turn.Status == FinishCanceled {
		if t.opts.DiscardOnFailure {
			return nil
		}
	}
	said := t.open
	if req.Input != nil && !turn.inputKept {
		said = append(said[:len(said):len(said)], req.Input)
	}
	said = append(said[:len(said):len(said)], turn.Messages()...)
	if err := t.settle(ctx, turn, said); err != nil {
		return err
	}
	t.noteAnswer(req, turn)
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
func (t *AgentThread) settle(ctx context.Context, turn *Turn, said []*Message) error {
	switch {
	case turn.conversation != "":
		t.kind, t.service = ThreadService, turn.conversation
		t.open, t.known = tail(said, turn.known)
		return nil
	case t.kind == ThreadUndecided && !turn.answered:
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
	t.kind, t.open = ThreadStore, nil
	return nil
}

// tail returns the messages to keep beside a service that has some of the
// conversation: those that it has not received, behind its last answer if that
// called tools whose results it does not have. known counts that answer.
func tail(said []*Message, knows map[string]bool) (open []*Message, known int) {
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
