package threads

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
)

// MessagesOptions are settings of message stores. The zero value of each is its
// default.
type MessagesOptions struct {
	// MaxMessages is how many messages of a thread are listed: see
	// [host.KeepNewest]. 0 lists all that the store's window holds. Nothing is
	// deleted: the thread keeps all its messages.
	MaxMessages int

	// Reducer shortens the listed messages, as [Tenant.Reduce] does: nothing is deleted.
	// Its error becomes the error of the call.
	Reducer host.MessageReducer
	Trigger host.ReducerTrigger // default: host.BeforeMessagesRetrieval
	ReduceOptions
}

// messagesType is the type of these stores in a serialized thread.
const messagesType = "threads"

// MessageStores returns stores that keep the messages of agent threads here, each
// under the agent thread's id, which is the thread's: it is listed, shown and
// exported like any other. What goes with a turn (state, artifacts, snapshots) an
// agent thread has itself; a [host.History] on the store keeps that here as well.
// opts may be nil. Code invalid_argument for a negative number and an unknown
// trigger.
func (s *Store) MessageStores(opts *MessagesOptions) (host.MessageStores, error) {
	m := &messageStores{store: s}
	if opts != nil {
		m.MessagesOptions = *opts
	}
	if m.MaxMessages < 0 {
		return nil, host.Errorf(host.InvalidArgument, "max_messages is %d", m.MaxMessages).WithHint("0 is all of them")
	}
	switch m.Trigger {
	case "", host.BeforeMessagesRetrieval, host.AfterMessageAdded:
	default:
		return nil, host.Errorf(host.InvalidArgument, "reducer trigger %q", string(m.Trigger)).
			WithHint("use %s or %s", host.BeforeMessagesRetrieval, host.AfterMessageAdded)
	}
	return m, nil
}

type messageStores struct {
	store *Store
	MessagesOptions
}

func (*messageStores) StoreType() string { return messagesType }

// messagesState is the serialized form of a store.
type messagesState struct {
	Thread *string `json:"thread_id"`
}

func (m *messageStores) OpenStore(_ context.Context, req *host.StoreRequest) (host.MessageStore, error) {
	thread := req.Thread
	if req.State != nil {
		var state messagesState
		dec := json.NewDecoder(bytes.NewReader(req.State))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&state); err != nil || dec.More() || state.Thread == nil {
			return nil, host.Errorf(host.DataLoss, "the state of the messages of thread %q is not an object with thread_id", req.Thread)
		}
		thread = *state.Thread
	}
	if _, err := partitionOf(m.store.driver, req.Tenant); err != nil {
		return nil, err
	}
	if err := ValidateID(thread); err != nil {
		return nil, err
	}
	return &messageStore{m, req.Tenant, thread}, nil
}

type messageStore struct {
	stores         *messageStores
	tenant, thread string
}

func (m *messageStore) request() *host.HistoryRequest {
	return &host.HistoryRequest{Tenant: m.tenant, Thread: m.thread}
}

// AddMessages implements [host.MessageStore]. A message whose id the thread has is
// not stored again.
func (m *messageStore) AddMessages(ctx context.Context, messages []*host.Message) error {
	if err := ctx.Err(); err != nil {
		return wrap(fault.ContextError(ctx), "append to thread %q", m.thread)
	}
	if len(messages) == 0 {
		return nil
	}
	_, err := m.stores.store.writer(m.tenant).commit(ctx, m.thread, "append to thread", func(d *draft) error {
		if n, err := d.append(ctx, messages); err != nil {
			return err
		} else if n == 0 {
			return errNothing
		}
		first := slices.IndexFunc(messages, func(m *host.Message) bool { return m.Role == host.User })
		if d.thread.rec.Title == "" && first >= 0 {
			d.thread.rec.Title = titleOf(messages[first])
		}
		d.moveHead()
		return nil
	})
	if err != nil || m.stores.Trigger != host.AfterMessageAdded {
		return err
	}
	return m.reduce(ctx)
}

func (m *messageStore) reduce(ctx context.Context) error {
	if m.stores.Reducer == nil {
		return nil
	}
	_, err := m.stores.store.For(m.tenant).Reduce(ctx, m.thread, m.stores.Reducer, &m.stores.ReduceOptions)
	return err
}

// ListMessages implements [host.MessageStore].
func (m *messageStore) ListMessages(ctx context.Context) ([]*host.Message, error) {
	if err := ctx.Err(); err != nil {
		return nil, wrap(fault.ContextError(ctx), "read thread %q", m.thread)
	}
	if m.stores.Trigger != host.AfterMessageAdded {
		if err := m.reduce(ctx); err != nil {
			return nil, err
		}
	}
	loaded, err := m.stores.store.Get(ctx, m.request())
	if err != nil {
		return nil, err
	}
	return host.KeepNewest(loaded.Messages, m.stores.MaxMessages), nil
}

// Serialize implements [host.MessageStore].
func (m *messageStore) Serialize(context.Context) (json.RawMessage, error) {
	return json.Marshal(messagesState{&m.thread})
}
