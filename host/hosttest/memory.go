package hosttest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
)

// History is a history adapter in memory, for tests: it has every method that an
// adapter can have and remembers how they were called. Safe for concurrent use.
type History struct {
	mu      sync.Mutex
	threads map[threadKey]*memoryThread
	begun   map[threadKey]*memoryThread // copies of threads from before their running turn
	locks   map[threadKey]chan struct{} // each holds a value while a turn is under way
	calls   []string
	turns   []*host.Turn
}

type threadKey struct{ tenant, thread, branch string }

// tenantOf returns the tenant of a call, or the default tenant, as shipped stores do.
func tenantOf(name string) string { return cmp.Or(name, host.DefaultTenant) }

func keyOf(req *host.HistoryRequest) threadKey {
	return threadKey{tenantOf(req.Tenant), req.Thread, req.Branch}
}

type memoryThread struct {
	messages  []*host.Message
	seen      map[string]bool     // ids of messages
	runs      map[string][]string // ids of the messages of the runs that have a turn
	state     json.RawMessage
	providers map[string]json.RawMessage
	artifacts []host.Artifact
	head      int
	ends      []memoryEnd // of turns
	branches  int
}

// memoryEnd is the position of a turn's end and the state at that end.
type memoryEnd struct {
	messages  int
	input     string // id of the message that it answers
	run       string
	network   string
	turn      *host.Turn
	state     json.RawMessage
	providers map[string]json.RawMessage
	artifacts []host.Artifact
}

// NewHistory returns an empty history.
func NewHistory() *History {
	return &History{threads: map[threadKey]*memoryThread{}, begun: map[threadKey]*memoryThread{}, locks: map[threadKey]chan struct{}{}}
}

// Seed puts messages into a thread, as if earlier turns had left them there.
func (h *History) Seed(tenant, thread string, messages ...*host.Message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t, _ := h.thread(threadKey{tenantOf(tenant), thread, ""})
	t.add(messages)
}

// Calls returns the calls of the history, in order, one line each.
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
	if t := h.threads[threadKey{tenantOf(tenant), thread, ""}]; t != nil {
		return slices.Clone(t.messages)
	}
	return nil
}

// Note adds a line to the result of Calls, for a test that wraps the history.
func (h *History) Note(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.note(format, args...)
}

func (h *History) note(format string, args ...any) {
	h.calls = append(h.calls, fmt.Sprintf(format, args...))
}

// thread returns a thread and makes a missing one.
func (h *History) thread(key threadKey) (t *memoryThread, created bool) {
	t = h.threads[key]
	if t == nil {
		t, created = &memoryThread{seen: map[string]bool{}, runs: map[string][]string{}}, true
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

// CreateThread makes a missing thread; a given id stays.
func (h *History) CreateThread(_ context.Context, req *host.HistoryRequest) (string, bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.note("CreateThread %q", req.Thread)
	id := req.Thread
	if id == "" {
		id = host.NewID()
	}
	_, created := h.thread(threadKey{tenantOf(req.Tenant), id, ""})
	return id, created, nil
}

// AppendUserMessage stores the user's message once.
func (h *History) AppendUserMessage(_ context.Context, req *host.HistoryRequest) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.note("AppendUserMessage %q", req.Input.Text())
	t, _ := h.thread(keyOf(req))
	if !t.seen[req.Input.ID] {
		t.add([]*host.Message{req.Input})
	}
	return t.headName(), nil
}

// Get returns the thread; an unknown one is empty.
func (h *History) Get(_ context.Context, req *host.HistoryRequest) (*host.Loaded, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.threads[keyOf(req)]
	if t == nil {
		h.note("Get: no such thread")
		return &host.Loaded{}, nil
	}
	h.note("Get: %d messages", len(t.messages))
	return &host.Loaded{Messages: slices.Clone(t.messages), State: t.state, Providers: t.providers, Head: t.headName()}, nil
}

// ThreadHead returns the thread's head.
func (h *History) ThreadHead(_ context.Context, req *host.HistoryRequest) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.note("ThreadHead")
	if t := h.threads[keyOf(req)]; t != nil {
		return t.headName(), nil
	}
	return "", nil
}

// AppendRound stores messages that the thread does not have, if its head is
// still the round's.
func (h *History) AppendRound(_ context.Context, req *host.HistoryRequest, round *host.Round) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.note("AppendRound: %d messages", len(round.Messages))
	t, _ := h.thread(keyOf(req))
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
	t, _ := h.thread(keyOf(req))
	said := idsOf(turn.Messages())
	if stored, ok := t.runs[req.Run]; ok && !slices.Equal(stored, said) {
		return host.Errorf(host.AlreadyExists, "thread %q has another turn of run %q", req.Thread, req.Run).WithHint("give each run an id of its own")
	} else if ok {
		return nil
	}
	if turn.Head != "" && turn.Head != t.headName() {
		return host.Errorf(host.Conflict, "thread %q has moved on from %s to %s", req.Thread, turn.Head, t.headName())
	}
	t.runs[req.Run] = said
	t.add(turn.Messages())
	if turn.State != nil {
		t.state = slices.Clone(turn.State)
	}
	if turn.Providers != nil {
		t.providers = turn.Providers
	}
	t.artifacts = slices.Clone(t.artifacts) // earlier ends share the old list
	for _, a := range turn.Artifacts {
		t.put(a)
	}
	t.ends = append(t.ends, memoryEnd{messages: len(t.messages), input: inputOf(req), run: req.Run, network: req.Network, turn: turn, state: t.state, providers: t.providers, artifacts: t.artifacts})
	h.turns = append(h.turns, turn)
	return nil
}

// put adds an artifact: a named one replaces the artifact with the same name.
func (t *memoryThread) put(a host.Artifact) {
	i := slices.IndexFunc(t.artifacts, func(b host.Artifact) bool { return a.Name != "" && b.Name == a.Name })
	if i < 0 {
		t.artifacts = append(t.artifacts, a)
		return
	}
	t.artifacts[i] = a
}

// ThreadArtifacts lists the artifacts that the thread's turns have put.
func (h *History) ThreadArtifacts(_ context.Context, req *host.HistoryRequest) ([]host.ArtifactRef, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.note("ThreadArtifacts")
	t := h.threads[keyOf(req)]
	if t == nil {
		return nil, nil
	}
	refs := make([]host.ArtifactRef, len(t.artifacts))
	for i, a := range t.artifacts {
		raw, err := a.MarshalJSON()
		if err != nil {
			return nil, err
		}
		refs[i] = host.ArtifactRef{Name: a.Name, Digest: a.Digest(), Size: int64(len(raw)), Open: func(context.Context) (*host.Artifact, error) {
			h.Note("Open %q", a.Name)
			out := &host.Artifact{}
			return out, out.UnmarshalJSON(raw)
		}}
	}
	return refs, nil
}

func idsOf(messages []*host.Message) (ids []string) {
	for _, m := range messages {
		ids = append(ids, m.ID)
	}
	return ids
}

// Regenerate makes a user's message the last one of the thread.
func (h *History) Regenerate(_ context.Context, req *host.HistoryRequest, message string) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.note("Regenerate %q", message)
	t := h.threads[keyOf(req)]
	if t == nil {
		return "", host.Errorf(host.NotFound, "there is no thread %q", req.Thread)
	}
	n, err := t.upTo(message)
	if err != nil || n == len(t.messages) {
		return t.headName(), err
	}
	*t = *t.first(n)
	return t.headName(), nil
}

// upTo returns the number of messages up to and including a user's message.
func (t *memoryThread) upTo(message string) (int, error) {
	i := slices.IndexFunc(t.messages, func(m *host.Message) bool { return m.ID == message })
	if i < 0 {
		return 0, host.Errorf(host.NotFound, "there is no message %q", message)
	}
	if t.messages[i].Role != host.User {
		return 0, host.Errorf(host.InvalidArgument, "message %q is not a user's", message)
	}
	return i + 1, nil
}

// first returns a thread with the first n messages of t, at a head that t has not had.
func (t *memoryThread) first(n int) *memoryThread {
	out := &memoryThread{seen: map[string]bool{}, runs: maps.Clone(t.runs), head: t.head, branches: t.branches}
	for _, end := range t.ends {
		if end.messages <= n {
			out.ends, out.state, out.providers, out.artifacts = append(out.ends, end), end.state, end.providers, end.artifacts
		}
	}
	out.add(t.messages[:n])
	return out
}

// Branch begins a branch of the thread.
func (h *History) Branch(_ context.Context, req *host.HistoryRequest, message string) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.note("Branch %q", message)
	key := threadKey{tenantOf(req.Tenant), req.Thread, ""}
	if message != "" && h.threads[key] == nil {
		return "", host.Errorf(host.NotFound, "there is no thread %q", req.Thread)
	}
	t, _ := h.thread(key)
	from := t
	if begun := h.begun[key]; begun != nil && message == "" {
		from = begun
	}
	n := len(from.messages)
	if message != "" {
		var err error
		if n, err = from.upTo(message); err != nil {
			return "", err
		}
	}
	t.branches++
	key.branch = fmt.Sprintf("b%d", t.branches)
	h.threads[key] = from.first(n)
	return key.branch, nil
}

// LockThread waits until no other turn runs in the thread, or refuses a turn that does
// not wait.
func (h *History) LockThread(ctx context.Context, req *host.HistoryRequest) (func(), error) {
	key := keyOf(req)
	lock := h.lock(key)
	if req.Racing != "" && req.Racing != host.RaceWait {
		select {
		case lock <- struct{}{}:
			return h.begin(key, lock), nil
		default:
			return nil, host.Errorf(host.Conflict, "another turn is under way in thread %q", req.Thread)
		}
	}
	select {
	case lock <- struct{}{}:
		return h.begin(key, lock), nil
	case <-ctx.Done():
		return nil, fault.ContextError(ctx)
	}
}

// begin records a copy of a thread before a turn, and returns the function that drops
// the copy and unlocks the thread.
func (h *History) begin(key threadKey, lock chan struct{}) func() {
	h.mu.Lock()
	defer h.mu.Unlock()
	t, ok := h.threads[key]
	if !ok {
		t = &memoryThread{}
	}
	h.begun[key] = t.first(len(t.messages))
	return func() {
		h.mu.Lock()
		delete(h.begun, key)
		h.mu.Unlock()
		<-lock
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
	_ host.HeadReader          = (*History)(nil)
	_ host.ThreadLocker        = (*History)(nil)
	_ host.Regenerator         = (*History)(nil)
	_ host.Brancher            = (*History)(nil)
	_ host.ArtifactLister      = (*History)(nil)
)

func inputOf(req *host.HistoryRequest) string {
	if req.Input == nil {
		return ""
	}
	return req.Input.ID
}

// ReadTurn returns the turn that answered a message.
func (h *History) ReadTurn(_ context.Context, req *host.HistoryRequest) (*host.StoredTurn, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.threads[keyOf(req)]
	if t == nil {
		return nil, nil
	}
	i := slices.IndexFunc(t.messages, func(m *host.Message) bool { return m.ID == req.Input.ID })
	switch {
	case i < 0:
		return nil, nil
	case !t.messages[i].SameContent(req.Input):
		return nil, host.Errorf(host.Conflict, "thread %q has a message %q that says something else", req.Thread, req.Input.ID)
	}
	for _, end := range t.ends {
		switch {
		case end.messages <= i:
			continue
		case end.input != "" && end.input != req.Input.ID:
			return nil, nil
		case end.network != req.Network || !end.turn.Completed():
			continue
		}
		out := &host.StoredTurn{Run: end.run, State: end.state, Artifacts: slices.Clone(end.turn.Artifacts), Status: end.turn.Status}
		for _, r := range end.turn.Results {
			c := *r
			out.Results = append(out.Results, &c)
		}
		return out, nil
	}
	return nil, nil
}
