package agentthread

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/agenthost/agenthost/host/chat"
)

// Store keeps the messages of one [Thread]: a list to append to and
// to read. The returned messages are sent to the model, so keeping them short
// enough is the store's business. Implementations are safe for concurrent use,
// prove themselves with hosttest.TestMessageStores, and may also be a
// [Clearer] and a [Editor].
//
// The names are Agent Framework's, whose ChatMessageStore this is.
type Store interface {
	// AddMessages appends messages in one commit, all or none. No messages are no
	// commit. Adding the last messages again changes nothing, so a write whose
	// answer got lost can be sent again. The messages are shared and must not be
	// changed.
	AddMessages(ctx context.Context, messages []*chat.Message) error

	// ListMessages returns the messages, oldest first, in a slice that is the
	// caller's. The messages are shared and must not be changed. Code data_loss
	// for one that cannot be read.
	ListMessages(ctx context.Context) ([]*chat.Message, error)

	// Serialize returns the argument with which [Stores].OpenStore opens the
	// store again: a JSON object without secrets. It is opaque to all other code.
	Serialize(ctx context.Context) (json.RawMessage, error)
}

// Clearer is an optional interface of a [Store].
type Clearer interface {
	// ClearMessages forgets all messages.
	ClearMessages(ctx context.Context) error
}

// Editor is an optional interface of a [Store]: see
// [Thread.EditMessages]. The store in memory is one.
type Editor interface {
	// SetMessages puts messages in the place of all that the store has, in one
	// commit. The messages are shared and must not be changed. Code
	// invalid_argument for one that is nil or has no known role.
	SetMessages(ctx context.Context, messages []*chat.Message) error
}

// Stores opens the message stores of agent threads: see
// host.AgentOptions.Messages. Implementations are safe for concurrent use.
type Stores interface {
	// StoreType names the kind of store, such as "memory" or "redis". It is
	// written down with a thread, and a thread of another type is refused.
	StoreType() string

	// OpenStore opens the store of one thread. Without a state it is a new
	// thread's, and empty unless the caller named a thread that has messages;
	// with one it is the store that serialized itself so. Nothing has to be
	// written. Code data_loss for a state that this kind of store does not write.
	OpenStore(ctx context.Context, req *StoreRequest) (Store, error)
}

// StoreRequest says whose store is opened.
type StoreRequest struct {
	// Tenant is whose thread it is, from a credential. It is never read from a
	// state, which may have been in other hands: a store must not find another
	// tenant's messages, whatever the state says.
	Tenant string

	// Thread is the thread's id, which no other thread of the tenant's has.
	Thread string

	// State is the store's serialized form; nil for a new thread.
	State json.RawMessage
}

// KeepNewest returns the newest limit messages of a conversation, and before
// them its first system message if that is older, which does not count. A tool
// call and its results stay together: where the limit would part them, both go;
// if nothing else is left, both stay. A limit below 1 is none. The same slice is
// returned if no message goes, and a new one otherwise.
func KeepNewest(messages []*chat.Message, limit int) []*chat.Message {
	system := slices.IndexFunc(messages, func(m *chat.Message) bool { return m.Role == chat.System })
	rest := messages
	if system >= 0 {
		rest = slices.Delete(slices.Clone(messages), system, system+1)
	}
	if limit < 1 || len(rest) <= limit {
		return messages
	}
	from := wholeFrom(rest, len(rest)-limit)
	if system < 0 {
		return slices.Clone(rest[from:])
	}
	if from <= system {
		return slices.Clone(messages[from:])
	}
	return slices.Insert(slices.Clone(rest[from:]), 0, messages[system])
}

// wholeFrom returns the first place from at on, or else the last before it,
// where a conversation can be cut without parting a call from its results.
func wholeFrom(messages []*chat.Message, at int) int {
	calls := map[string]int{}          // open ones, and where they are
	ends := make([]int, len(messages)) // the last result of a call there
	for i, m := range messages {
		for _, p := range m.Parts {
			switch p := p.(type) {
			case *chat.ToolCall:
				calls[p.ID] = i
			case *chat.ToolResult:
				if from, ok := calls[p.ID]; ok {
					ends[from] = max(ends[from], i)
					delete(calls, p.ID)
				}
			}
		}
	}
	last, reach := 0, -1
	for i := range messages {
		if reach < i {
			if last = i; i >= at {
				return i
			}
		}
		reach = max(reach, ends[i])
	}
	return last
}
