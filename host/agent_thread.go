package host

import (
	"context"
	"fmt"

	"github.com/agenthost/agenthost/host/agentthread"
)

// The threads of agents and their message stores are those of the package agentthread.
type (
	// AgentThread is a conversation with one agent that the caller holds: give it with
	// [Request].AgentThread, and serialize it between turns. No other store is needed.
	// (A thread of a [History] is the host's to keep, by its id; an agent thread is a
	// value.) See [agentthread.Thread].
	AgentThread = agentthread.Thread

	// ThreadKind says who keeps the messages of an agent thread.
	ThreadKind = agentthread.Kind

	// ThreadOptions are the optional parts of an agent thread: see [agentthread.Options].
	ThreadOptions = agentthread.Options

	// MessageStore keeps the messages of one [AgentThread]: see [agentthread.Store].
	MessageStore = agentthread.Store

	// MessageClearer is an optional interface of a [MessageStore].
	MessageClearer = agentthread.Clearer

	// MessageEditor is an optional interface of a [MessageStore]: see
	// [agentthread.Editor].
	MessageEditor = agentthread.Editor

	// MessageStores opens the message stores of agent threads: see [AgentOptions].Messages
	// and [agentthread.Stores].
	MessageStores = agentthread.Stores

	// StoreRequest says whose store is opened.
	StoreRequest = agentthread.StoreRequest

	// MemoryMessagesOptions are the optional parts of [NewMemoryMessages].
	MemoryMessagesOptions = agentthread.MemoryOptions

	// MessageReducer makes a list of messages shorter: see package reduce, whose
	// reducers are these.
	MessageReducer = agentthread.Reducer

	// ReducerTrigger says when a store in memory reduces its messages.
	ReducerTrigger = agentthread.ReducerTrigger
)

// The kinds of agent threads.
const (
	ThreadUndecided = agentthread.Undecided // before the first answer
	ThreadService   = agentthread.Service   // the model's service
	ThreadStore     = agentthread.InStore   // a message store
)

// The triggers of reducers.
const (
	BeforeMessagesRetrieval = agentthread.BeforeMessagesRetrieval
	AfterMessageAdded       = agentthread.AfterMessageAdded
)

// MaxThreadBytes is the longest serialized agent thread.
const MaxThreadBytes = agentthread.MaxBytes

// NewMemoryMessages returns stores that keep a thread's messages in memory, and
// in the serialized thread. Without [AgentOptions].Messages a thread has one of
// these. Code invalid_argument for an unknown trigger.
func NewMemoryMessages(opts *MemoryMessagesOptions) (MessageStores, error) {
	return agentthread.NewMemory(opts)
}

// KeepNewest returns the newest limit messages of a conversation: see
// [agentthread.KeepNewest].
func KeepNewest(messages []*Message, limit int) []*Message {
	return agentthread.KeepNewest(messages, limit)
}

// NewThread returns an undecided thread of the agent, or one of the service's with
// ThreadOptions.Conversation. opts may be nil. Errors are those of [agentthread.New].
func (a *Agent) NewThread(ctx context.Context, opts *ThreadOptions) (*AgentThread, error) {
	return agentthread.New(ctx, a.threadOwner(), opts)
}

// RestoreThread returns the thread that [agentthread.Thread.Serialize] wrote. Its store is
// opened by the factory of [AgentOptions].Messages. Errors are those of
// [agentthread.Restore].
func (a *Agent) RestoreThread(ctx context.Context, data []byte, opts *ThreadOptions) (*AgentThread, error) {
	return agentthread.Restore(ctx, a.threadOwner(), data, opts)
}

func (a *Agent) threadOwner() agentthread.Owner {
	return agentthread.Owner{Name: a.name, Digest: a.threadDigest(), Stores: a.opts.Messages}
}

// threadDigest names the configuration that a serialized thread of the agent depends on.
func (a *Agent) threadDigest() string {
	names := make([]string, len(a.opts.Providers))
	for i, p := range a.opts.Providers {
		names[i] = p.Name()
	}
	return agentthread.Digest(a.opts.Messages, names)
}

// threadHistory is an agent thread as the history of a run.
type threadHistory struct{ thread *agentthread.Access }

var (
	_ ThreadLocker   = threadHistory{}
	_ HistoryLoader  = threadHistory{}
	_ ResultAppender = threadHistory{}
	_ TurnReader     = threadHistory{}
)

// LockThread implements [ThreadLocker].
func (h threadHistory) LockThread(ctx context.Context, _ *HistoryRequest) (func(), error) {
	return h.thread.Lock(ctx)
}

// Get implements [HistoryLoader].
func (h threadHistory) Get(ctx context.Context, _ *HistoryRequest) (*Loaded, error) {
	c, err := h.thread.Load(ctx)
	if err != nil {
		return nil, err
	}
	return &Loaded{Messages: c.Messages, State: c.State, Providers: c.Providers, conversation: c.Conversation, known: c.Known}, nil
}

// AppendResults implements [ResultAppender].
func (h threadHistory) AppendResults(ctx context.Context, req *HistoryRequest, turn *Turn) error {
	t := &agentthread.Turn{Run: req.Run, Input: req.Input, InputKept: turn.inputKept, InputNamed: turn.inputNamed,
		Messages: turn.Messages(), Status: turn.Status, Completed: turn.Completed(), State: turn.State, Providers: turn.Providers,
		Answered: turn.answered, Conversation: turn.conversation, Known: turn.known}
	if t.Completed {
		t.Rounds = turn.Results[0].Rounds
	}
	return h.thread.Append(ctx, t)
}

// ReadTurn implements [TurnReader].
func (h threadHistory) ReadTurn(ctx context.Context, req *HistoryRequest) (*StoredTurn, error) {
	a, err := h.thread.FindAnswer(ctx, req.Input)
	if a == nil || err != nil {
		return nil, err
	}
	return &StoredTurn{Run: a.Run, State: a.State, Status: a.Status, Results: []*Result{{
		ID: fmt.Sprintf("%s/0", a.Run), Agent: h.thread.Owner().Name, Messages: a.Messages,
		FinishReason: a.Status, Rounds: a.Rounds, CreatedAt: a.CreatedAt,
	}}}, nil
}
