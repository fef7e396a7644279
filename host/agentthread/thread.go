package agentthread

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/foreign"
	"github.com/agenthost/agenthost/host/internal/replay"
	"github.com/agenthost/agenthost/host/runlog"
)

// Thread is a conversation with one agent that the caller holds: give it with
// host.Request.AgentThread, and serialize it between turns. No other store is needed.
// (A thread of a host.History is the host's to keep, by its id; an agent thread is a
// value. The name, and what it does, are Agent Framework's.)
//
// It is of one of three kinds, which the first answer decides. If the model's
// service says that it keeps the conversation, the thread has only its id, and each
// turn sends the new messages. If not, the messages are in a [Store]: that
// of host.AgentOptions.Messages, or one in memory. A thread that has had no answer is
// undecided.
//
// A turn is stored when it ends, in one write: its input and everything that was
// finished, also if it failed, unless [Options].DiscardOnFailure is set.
// A message that is sent again is answered with its turn, as in host.Request.Input, if
// it is one of the last 32 with ids of their client's; the state is the thread's
// present one. The messages of a thread that a service keeps are not here to answer with.
// Custom state goes with the thread. Runs of one thread wait for each other.
// Safe for concurrent use.
type Thread struct {
	owner  Owner
	opts   Options
	stores Stores
	turns  chan struct{} // holds a value while a run has the thread

	mu        sync.Mutex
	kind      Kind
	store     Store           // nil as long as a store in memory is not needed
	service   string          // the service's id of the conversation
	open      []*chat.Message // the messages that no store has: see [tail]
	known     int             // how many of open the service has
	state     json.RawMessage
	providers map[string]json.RawMessage // states of context providers, by their key
	warned    bool                       // that two keep the conversation
	answers   []answer                   // to its last messages with ids of a client's
	waiting   *replay.Kept               // of the last run, if it asks and no journal keeps it
}

// Kind says who keeps the messages of an agent thread.
type Kind = chat.ThreadKind

// The kinds of agent threads.
const (
	Undecided = chat.ThreadUndecided // before the first answer
	Service   = chat.ThreadService   // the model's service
	InStore   = chat.ThreadStore     // a message store
)

// Options are the optional parts of an agent thread.
type Options struct {
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
	// host.AgentOptions.Messages; a serialized thread can then be restored only with
	// a Store again.
	Store Store

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

// Owner is the agent whose thread it is.
type Owner struct {
	Name   string
	Digest string // of the configuration that a serialized thread depends on: see [Digest]
	Stores Stores // of the agent; nil keeps messages in memory
}

// New returns an undecided thread, or one of the service's with Options.Conversation.
// opts may be nil. Code invalid_argument if a conversation and a store are given or the
// id is one that no store takes, and the errors of [Stores].OpenStore.
func New(ctx context.Context, owner Owner, opts *Options) (*Thread, error) {
	t, err := newThread(owner, opts)
	if err != nil {
		return nil, err
	}
	if t.service = t.opts.Conversation; t.service != "" {
		t.kind = Service
		return t, nil
	}
	if err := t.openStore(ctx, nil); err != nil {
		return nil, err
	}
	return t, nil
}

func newThread(owner Owner, opts *Options) (*Thread, error) {
	t := &Thread{owner: owner, kind: Undecided, stores: owner.Stores, turns: make(chan struct{}, 1)}
	if opts != nil {
		t.opts = *opts
	}
	if t.opts.Conversation != "" && t.opts.Store != nil {
		return nil, fault.Errorf(fault.InvalidArgument, "thread of agent %q has a conversation of the service's and a message store", owner.Name).
			WithHint("give one of Conversation and Store")
	}
	if t.opts.ID == "" {
		t.opts.ID = chat.NewID()
	}
	if !validThreadID(t.opts.ID) {
		return nil, fault.Errorf(fault.InvalidArgument, "thread of agent %q has an id of %d bytes that no store takes", owner.Name, len(t.opts.ID)).
			WithHint("use at most %d bytes of UTF-8 without control characters that are not all blank, or leave it out", chat.MaxIDBytes)
	}
	if t.opts.Store != nil {
		t.stores = givenStore{t.opts.Store}
	}
	return t, nil
}

// validID reports whether an id is empty or one that a message can have.
func validID(id string) bool {
	return id == "" || chat.ValidateID("message", id, chat.MaxIDBytes) == nil
}

func validThreadID(id string) bool { return validID(id) && strings.TrimSpace(id) != "" }

// openStore opens the store that was chosen, if one was, or that the state is of.
func (t *Thread) openStore(ctx context.Context, state json.RawMessage) error {
	if t.stores == nil && state == nil {
		return nil
	}
	var err error
	t.store, err = t.storesOrMemory().OpenStore(ctx, &StoreRequest{Tenant: t.opts.Tenant, Thread: t.opts.ID, State: state})
	return fault.Wrap(err, "open the messages of thread %q", t.opts.ID)
}

func (t *Thread) storesOrMemory() Stores {
	if t.stores == nil {
		return &memoryStores{MemoryOptions{Trigger: BeforeMessagesRetrieval}}
	}
	return t.stores
}

// givenStore is the one store of one thread.
type givenStore struct{ Store }

func (givenStore) StoreType() string { return "given" }

func (s givenStore) OpenStore(context.Context, *StoreRequest) (Store, error) {
	return s.Store, nil
}

// ID returns the thread's id.
func (t *Thread) ID() string { return t.opts.ID }

// Tenant returns whose thread it is.
func (t *Thread) Tenant() string { return t.opts.Tenant }

// Questions returns what the last run asks, if it was interrupted on a host without a
// journal: a request with the thread and the Answers resumes it. A serialized
// thread has them if none is about an approval or an agent used as a tool: a client
// that can change the thread must not answer those. They are answered to the thread
// itself, or with a host.Journal.
func (t *Thread) Questions() []*runlog.Question {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waiting == nil {
		return nil
	}
	return replay.QuestionsOf(t.waiting.Left.Calls)
}

// Kind returns who keeps the thread's messages.
func (t *Thread) Kind() Kind {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.kind
}

// Conversation returns the id by which the model's service keeps the
// conversation; "" if it does not. It may change with every turn. A stored one can
// be continued by another thread: a fork.
func (t *Thread) Conversation() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.service
}

// State returns the custom state that the last run left, or nil.
func (t *Thread) State() json.RawMessage {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.state)
}

// Messages returns the conversation, oldest first. Code failed_precondition if the
// model's service has it, for then the thread has no copy.
func (t *Thread) Messages(ctx context.Context) ([]*chat.Message, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kind == Service {
		return nil, fault.Errorf(fault.FailedPrecondition, "the messages of thread %q are with the model's service, as conversation %q", t.opts.ID, t.service)
	}
	return t.messages(ctx)
}

// EditMessages replaces the conversation by the one that edit returns, in one
// write. It waits for a run that has the thread. The messages that edit gets are
// shared and must not be changed; it returns others in the place of those. Codes:
// failed_precondition if the model's service has the conversation, unimplemented if
// the thread's store is no [Editor] (the one in memory is), invalid_argument
// for a conversation that no model can be sent, such as a result without its call.
// Then nothing has changed, and likewise if edit fails.
func (t *Thread) EditMessages(ctx context.Context, edit func(messages []*chat.Message) ([]*chat.Message, error)) error {
	unlock, err := t.Access().Lock(ctx)
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
	if err := chat.CheckForm(list); err != nil {
		return fault.Errorf(fault.InvalidArgument, "edit the messages of thread %q: %w", t.opts.ID, err)
	}
	list = slices.Clone(list)
	for i, m := range list {
		list[i] = m.WithIdentity()
	}
	if err := chat.Check(list); err != nil {
		return fault.Errorf(fault.InvalidArgument, "edit the messages of thread %q: %w", t.opts.ID, err)
	}
	return t.setMessages(ctx, list)
}

func (t *Thread) setMessages(ctx context.Context, list []*chat.Message) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.store == nil {
		t.open = list
		return nil
	}
	e, ok := t.store.(Editor)
	if !ok {
		return fault.Errorf(fault.Unimplemented, "the messages of thread %q are in a %T, which cannot change them", t.opts.ID, t.store)
	}
	if err := e.SetMessages(ctx, list); err != nil {
		return fault.Wrap(err, "edit the messages of thread %q", t.opts.ID)
	}
	t.open = nil
	return nil
}

func (t *Thread) messages(ctx context.Context) ([]*chat.Message, error) {
	if t.kind == Service || t.store == nil {
		return slices.Clone(t.open), nil
	}
	list, err := foreign.NamePanic(t.storeName(), func() ([]*chat.Message, error) { return t.store.ListMessages(ctx) })
	return append(list, t.open...), err
}

// storeName names the store in the error of its panic.
func (t *Thread) storeName() string { return fmt.Sprintf("message store %T", t.store) }
