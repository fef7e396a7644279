package hosttest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/agenthost/agenthost/host"
)

// History is a history adapter in memory, for tests: it has every method that an
// adapter can have and remembers how they were called. Safe for concurrent use.
type History struct {
	mu      sync.Mutex
	threads map[threadKey]*memoryThread
	locks   map[threadKey]chan struct{} // each holds a value while a turn is under way
	calls   []string
	turns   []*host.Turn
}

type threadKey struct{ tenant, thread string }

type memoryThread struct {
	messages []*host.Message
	seen     map[string]bool // ids of messages
	runs     map[string]bool // runs whose results are stored
	state    json.RawMessage
	head     int
}

// NewHistory returns an empty history.
func NewHistory() *History {
	return &History{threads: map[threadKey]*memoryThread{}, locks: map[threadKey]chan struct{}{}}
}

// Seed puts messages into a thread, as if earlier turns had left them there.
func (h *History) Seed(tenant, thread string, messages ...*host.Message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t, _ := h.thread(tenant, thread)
	t.add(messages)
}

// Calls returns what the history was asked, in order, one line each.
func (h *History) Calls() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.calls)
}

// Turns returns the turns that were stored, in order.
func (h *History) Turns() []*host.Turn {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.turns)
}

// Messages returns a thread's messages.
func (h *History) Messages(tenant, thread string) []*host.Message {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.threads[threadKey{tenant, thread}]; t != nil {
		return slices.Clone(t.messages)
	}
	return nil
}

// Note adds a line to what Calls returns, for a test that wraps the history.
func (h *History) Note(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.note(format, args...)
}

func (h *History) note(format string, args ...any) {
	h.calls = append(h.calls, fmt.Sprintf(format, args...))
}

// thread returns a thread, which it makes if there is none.
func (h *History) thread(tenant, id string) (t *memoryThread, created bool) {
	key := threadKey{tenant, id}
	t = h.threads[key]
	if t == nil {
		t, created = &memoryThread{seen: map[string]bool{}, runs: map[string]bool{}}, true
		h.threads[key] = t
	}
	return t, created
}

func (t *memoryThread) add(messages []*host.Message) {
	for _, m := range messages {
		if !t.seen[m.ID] {
			t.seen[m.ID] = true
			t.messages = append(t.messages, m)
		}
	}
	t.head++
}

func (t *memoryThread) headName() string { return strconv.Itoa(t.head) }

// CreateThread makes the thread if there is none; a given id stays.
func (h *History) CreateThread(_ context.Context, req *host.HistoryRequest) (string, bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.note("CreateThread %q", req.Thread)
	id := req.Thread
	if id == "" {
		id = host.NewID()
	}
	_, created := h.thread(req.Tenant, id)
	return id, created, nil
}

// AppendUserMessage stores the user's message once.
func (h *History) AppendUserMessage(_ context.Context, req *host.HistoryRequest) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.note("AppendUserMessage %q", req.Input.Text())
	t, _ := h.thread(req.Tenant, req.Thread)
	if !t.seen[req.Input.ID] {
		t.add([]*host.Message{req.Input})
	}
	return t.headName(), nil
}

// Get returns the thread; an unknown one is empty.
func (h *History) Get(_ context.Context, req *host.HistoryRequest) (*host.Loaded, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.threads[threadKey{req.Tenant, req.Thread}]
	if t == nil {
		h.note("Get: no such thread")
		return &host.Loaded{}, nil
	}
	h.note("Get: %d messages", len(t.messages))
	return &host.Loaded{Messages: slices.Clone(t.messages), State: t.state, Head: t.headName()}, nil
}

// AppendRound stores messages that the thread does not have, if its head is
// still the round's.
func (h *History) AppendRound(_ context.Context, req *host.HistoryRequest, round *host.Round) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.note("AppendRound: %d messages", len(round.Messages))
	t, _ := h.thread(req.Tenant, req.Thread)
	if !slices.ContainsFunc(round.Messages, func(m *host.Message) bool { return !t.seen[m.ID] }) {
		return t.headName(), nil
	}
	if round.Head != "" && round.Head != t.headName() {
		return "", host.Errorf(host.Conflict, "thread %q has moved on from %s to %s", req.Thread, round.Head, t.headName())
	}
	t.add(round.Messages)
	return t.headName(), nil
}

// AppendResults stores a turn once, if the thread's head is still the turn's.
func (h *History) AppendResults(_ context.Context, req *host.HistoryRequest, turn *host.Turn) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.note("AppendResults: %d results, %s", len(turn.Results), turn.Status)
	t, _ := h.thread(req.Tenant, req.Thread)
	if t.runs[req.Run] {
		return nil
	}
	if turn.Head != "" && turn.Head != t.headName() {
		return host.Errorf(host.Conflict, "thread %q has moved on from %s to %s", req.Thread, turn.Head, t.headName())
	}
	t.runs[req.Run] = true
	t.add(turn.Messages())
	if turn.State != nil {
		t.state = slices.Clone(turn.State)
	}
	h.turns = append(h.turns, turn)
	return nil
}

// LockThread waits until no other turn is under way in the thread.
func (h *History) LockThread(ctx context.Context, req *host.HistoryRequest) (func(), error) {
	lock := h.lock(threadKey{req.Tenant, req.Thread})
	select {
	case lock <- struct{}{}:
		return func() { <-lock }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (h *History) lock(key threadKey) chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.locks[key] == nil {
		h.locks[key] = make(chan struct{}, 1)
	}
	return h.locks[key]
}

var (
	_ host.ThreadCreator       = (*History)(nil)
	_ host.UserMessageAppender = (*History)(nil)
	_ host.HistoryLoader       = (*History)(nil)
	_ host.ResultAppender      = (*History)(nil)
	_ host.RoundAppender       = (*History)(nil)
	_ host.ThreadLocker        = (*History)(nil)
)
