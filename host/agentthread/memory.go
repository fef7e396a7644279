package agentthread

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/foreign"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
	"github.com/agenthost/agenthost/host/llm"
)

// Reducer makes a list of messages shorter: see package reduce, whose
// reducers are these.
type Reducer interface {
	Reduce(ctx context.Context, view *llm.View) ([]*chat.Message, error)
}

// ReducerTrigger says when a store in memory reduces its messages. The names are
// Agent Framework's.
type ReducerTrigger string

// The triggers.
const (
	// BeforeMessagesRetrieval reduces whenever the messages are listed, which is
	// once a run. It is the default.
	BeforeMessagesRetrieval ReducerTrigger = "before_messages_retrieval"
	// AfterMessageAdded reduces after messages were added, once for all of them.
	AfterMessageAdded ReducerTrigger = "after_message_added"
)

// MemoryOptions are the optional parts of [NewMemory].
type MemoryOptions struct {
	// Reducer makes the list shorter. Messages that it leaves out are gone: the list
	// is the only copy. (On package threads, and as a processor, nothing is lost.)
	// Its failure fails the call, and the list stays unchanged.
	Reducer Reducer
	Trigger ReducerTrigger // default: BeforeMessagesRetrieval

	// Model names the token tables that a reducer counts with.
	Model  string
	Tokens chat.TokenCounter
}

// NewMemory returns stores that keep a thread's messages in memory, and
// in the serialized thread. Without host.AgentOptions.Messages a thread has one of
// these. Code invalid_argument for an unknown trigger.
func NewMemory(opts *MemoryOptions) (Stores, error) {
	s := &memoryStores{}
	if opts != nil {
		s.MemoryOptions = *opts
	}
	switch s.Trigger {
	case "":
		s.Trigger = BeforeMessagesRetrieval
	case BeforeMessagesRetrieval, AfterMessageAdded:
	default:
		return nil, fault.Errorf(fault.InvalidArgument, "reducer trigger %q", string(s.Trigger)).
			WithHint("use %s or %s", BeforeMessagesRetrieval, AfterMessageAdded)
	}
	return s, nil
}

// memoryType is the type of a store in memory.
const memoryType = "memory"

type memoryStores struct{ MemoryOptions }

func (*memoryStores) StoreType() string { return memoryType }

func (s *memoryStores) OpenStore(_ context.Context, req *StoreRequest) (Store, error) {
	m := &memoryMessages{stores: s}
	if req.State == nil {
		return m, nil
	}
	var messages json.RawMessage
	err := jsondoc.DecodeMembers(req.State, jsondoc.Required("messages", &messages))
	if err == nil {
		m.list, err = chat.DecodeMessages(messages)
	}
	if err == nil {
		err = chat.CheckForm(m.list)
	}
	if err != nil {
		return nil, fault.Errorf(fault.DataLoss, "the messages of thread %q cannot be read: %w", req.Thread, err)
	}
	return m, nil
}

type memoryMessages struct {
	stores *memoryStores

	mu   sync.Mutex
	list []*chat.Message
	seen map[string]bool // ids that were added; nil until something is
}

func (m *memoryMessages) AddMessages(ctx context.Context, messages []*chat.Message) error {
	if err := ctx.Err(); err != nil {
		return fault.ContextError(ctx)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	fresh := m.unseen(messages)
	if len(fresh) == 0 {
		return nil
	}
	list := append(m.list, fresh...) // no other slice shares the memory it grows into
	if m.stores.Trigger == AfterMessageAdded {
		var err error
		if list, err = m.reduced(ctx, list); err != nil {
			return err
		}
	}
	m.list = list
	for _, n := range fresh {
		m.seen[n.ID] = true
	}
	return nil
}

// unseen returns the messages that were not added before, each once.
func (m *memoryMessages) unseen(messages []*chat.Message) []*chat.Message {
	if m.seen == nil {
		m.seen = make(map[string]bool, len(m.list)+len(messages))
		for _, old := range m.list {
			m.seen[old.ID] = true
		}
	}
	var fresh []*chat.Message
	now := map[string]bool{}
	for _, n := range messages {
		if !m.seen[n.ID] && !now[n.ID] {
			now[n.ID] = true
			fresh = append(fresh, n)
		}
	}
	return fresh
}

func (m *memoryMessages) ListMessages(ctx context.Context) ([]*chat.Message, error) {
	if err := ctx.Err(); err != nil {
		return nil, fault.ContextError(ctx)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stores.Trigger == BeforeMessagesRetrieval {
		list, err := m.reduced(ctx, m.list)
		if err != nil {
			return nil, err
		}
		m.list = list
	}
	return slices.Clone(m.list), nil
}

func (m *memoryMessages) reduced(ctx context.Context, list []*chat.Message) ([]*chat.Message, error) {
	if m.stores.Reducer == nil {
		return list, nil
	}
	view := llm.NewView(slices.Clone(list), m.stores.Model, m.stores.Tokens)
	out, err := foreign.NamePanic(fmt.Sprintf("reducer %T", m.stores.Reducer), func() ([]*chat.Message, error) { return m.stores.Reducer.Reduce(ctx, view) })
	if err != nil {
		return nil, fault.Wrap(err, "reduce a thread's messages")
	}
	if err := chat.CheckForm(out); err != nil {
		return nil, fault.Errorf(fault.Internal, "the reducer returned a damaged conversation: %w", err)
	}
	return slices.Clone(out), nil
}

func (m *memoryMessages) Serialize(context.Context) (json.RawMessage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append(chat.AppendMessagesJSON([]byte(`{"messages":`), m.list), '}'), nil
}

// SetMessages implements [Editor].
func (m *memoryMessages) SetMessages(ctx context.Context, messages []*chat.Message) error {
	if err := ctx.Err(); err != nil {
		return fault.ContextError(ctx)
	}
	if err := chat.CheckForm(messages); err != nil {
		return fault.Errorf(fault.InvalidArgument, "set the messages: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.list, m.seen = slices.Clone(messages), nil
	return nil
}

func (m *memoryMessages) ClearMessages(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.list, m.seen = nil, nil
	return nil
}
