package host

import (
	"context"
	"log/slog"
	"slices"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/providerstate"
)

// The thread of a run: open, load, store.

// runThread is a run's side of the thread that it works on.
type runThread struct {
	scope    *Scope
	limits   *Limits
	logger   *slog.Logger
	req      *Request
	content  *requestContent
	resume   *resumption
	conv     *conversation
	requests historyRequester

	history     *History
	loaded      *Loaded // the adapter's answer; nil if it was not asked
	branch      string  // of the thread; empty is its own line
	branched    bool    // the run began the branch
	head        string
	inputStored bool               // the thread has the input already
	storedIDs   map[string]bool    // ids of messages that rounds have stored
	clientOwned bool               // the state is the client's, and not for the thread
	providers   *providerstate.All // of context providers
}

// open makes the thread, stores the user's message and loads the earlier messages.
func (r *run) open(ctx context.Context) error {
	created, err := r.thread.enter(ctx)
	if err != nil {
		return err
	}
	loaded, err := r.thread.load(ctx, created)
	if err == nil && r.req.Regenerate != "" {
		err = r.thread.takeInput(loaded)
	}
	if err != nil {
		return err
	}
	r.initial.encode()
	if r.state, err = r.initial.state(loaded.State, r.scope.Thread); err != nil {
		return err
	}
	r.thread.providers = providerstate.NewAll(loaded.Providers)
	r.service.takeLoaded(loaded)
	if r.conv.past, err = r.thread.pastMessages(loaded); err != nil {
		return err
	}
	r.conv.past = chat.CloseCalls(r.conv.past, true)
	if r.conv.input == nil && len(r.conv.past) == 0 {
		return errNothingSaid()
	}
	if r.startFailure = r.hookNetworkStart(ctx); r.startFailure == nil {
		if err := r.beginJournal(ctx); err != nil {
			return err
		}
	}
	r.sendStarted()
	r.events.SendState(r.state.view())
	return nil
}

// enter brings the thread to where the run begins: with the user's message, or
// without the answer to one.
func (t *runThread) enter(ctx context.Context) (created bool, err error) {
	if t.req.Regenerate != "" {
		return false, t.takeAnswerBack(ctx)
	}
	if t.history != nil && t.history.openThread != nil && t.conv.input != nil {
		return t.openWithInput(ctx)
	}
	if created, err = t.ensure(ctx); err != nil {
		return false, err
	}
	return created, t.storeInput(ctx)
}

// openWithInput makes sure that the thread exists and stores the user's message in it, in
// one call of the adapter.
func (t *runThread) openWithInput(ctx context.Context) (created bool, err error) {
	opened, err := callHistory(ctx, t, historyCall[OpenedThread]{method: "OpenThread", limit: historyLimit(t.limits), call: t.history.openThread})
	switch {
	case err != nil && t.scope.Thread == "":
		return false, wrapError(err, "create a thread with the user's message")
	case err != nil:
		return false, wrapError(err, "store the user's message in thread %q", t.scope.Thread)
	}
	t.head = opened.Head
	return opened.Created, t.named(opened.Thread)
}

// named gives a run that named no thread the id of the one that the adapter made.
func (t *runThread) named(id string) error {
	if t.scope.Thread == "" {
		t.scope.Thread = id
	}
	if t.scope.Thread == "" {
		return Errorf(Internal, "history adapter made a thread without an id")
	}
	return nil
}

func (t *runThread) ensure(ctx context.Context) (created bool, err error) {
	if t.history == nil {
		return false, nil
	}
	if t.history.createThread != nil {
		if created, err = t.create(ctx); err != nil {
			return false, wrapError(err, "create thread %q", t.scope.Thread)
		}
	}
	if t.scope.Thread == "" && t.history.get != nil {
		t.scope.Thread, created = NewID(), true
	}
	return created, nil
}

func (t *runThread) create(ctx context.Context) (created bool, err error) {
	type answer struct {
		id      string
		created bool
	}
	a, err := callHistory(ctx, t, historyCall[answer]{method: "CreateThread", limit: historyLimit(t.limits), call: func(ctx context.Context, req *HistoryRequest) (answer, error) {
		id, created, err := t.history.createThread(ctx, req)
		return answer{id, created}, err
	}})
	if err != nil {
		return false, err
	}
	return a.created, t.named(a.id)
}

func (t *runThread) storeInput(ctx context.Context) error {
	if t.history == nil || t.history.appendUser == nil || t.conv.input == nil {
		return nil
	}
	head, err := callHistory(ctx, t, historyCall[string]{method: "AppendUserMessage", limit: historyLimit(t.limits), call: t.history.appendUser})
	if err != nil {
		return wrapError(err, "store the user's message in thread %q", t.scope.Thread)
	}
	t.head = head
	return nil
}

func (t *runThread) load(ctx context.Context, created bool) (*Loaded, error) {
	if len(t.content.messages) > 0 {
		t.clientOwned = !created && t.req.State == nil
		return &Loaded{Messages: t.content.messages, Providers: t.content.providers}, nil
	}
	if t.history == nil {
		return &Loaded{Providers: t.content.providers}, nil
	}
	if t.history.get == nil {
		return &Loaded{}, nil
	}
	if created {
		t.loaded = &Loaded{}
		return t.loaded, nil
	}
	loaded, err := callHistory(ctx, t, historyCall[*Loaded]{method: "Get", limit: historyLimit(t.limits), call: t.history.get})
	if err != nil {
		return nil, wrapError(err, "load thread %q", t.scope.Thread)
	}
	if t.loaded = loaded; loaded == nil {
		t.loaded = &Loaded{}
		return t.loaded, nil
	}
	if err := t.checkLoaded(loaded); err != nil {
		return nil, wrapError(err, "load thread %q", t.scope.Thread)
	}
	if t.head == "" {
		t.head = loaded.Head
	}
	return loaded, nil
}

// checkLoaded refuses a conversation other than the one asked for. The error does
// not name the owner of the other: another tenant may read it.
func (t *runThread) checkLoaded(loaded *Loaded) error {
	if loaded.Tenant != "" && loaded.Tenant != t.scope.Tenant || loaded.Thread != "" && loaded.Thread != t.scope.Thread {
		return Errorf(DataLoss, "history adapter returned another conversation").WithHint("nothing of it was used; the adapter mixes threads up")
	}
	if err := chat.CheckForm(loaded.Messages); err != nil {
		return Errorf(DataLoss, "history adapter returned a damaged conversation: %w", err)
	}
	return providerstate.Check(loaded.Providers)
}

// pastMessages returns the conversation before this turn, each message once. The
// message just stored keeps the place that the thread gave it, if only messages of
// runs follow it there: the client sent it again, after an answer that was cut
// short. If another user message follows, it moves to the end, for it is the one to
// answer.
func (t *runThread) pastMessages(loaded *Loaded) ([]*Message, error) {
	if err := chat.CheckForm(loaded.Messages); err != nil {
		return nil, Errorf(InvalidArgument, "the conversation cannot be used: %w", err)
	}
	seen := make(map[string]bool, len(loaded.Messages)+1)
	past := make([]*Message, 0, len(loaded.Messages))
	at := -1
	for _, m := range loaded.Messages {
		m = m.WithIdentity()
		if seen[m.ID] {
			continue
		}
		seen[m.ID] = true
		if t.conv.input != nil && m.ID == t.conv.input.ID {
			if m.Role != User { // it would speak in its place
				return nil, Errorf(Conflict, "the conversation has a message %q that is the %s's", m.ID, m.Role).
					WithHint("leave the id of the input out for a fresh one")
			}
			if !m.SameContent(t.conv.input) {
				return nil, Errorf(Conflict, "the conversation has a message %q that says something else", m.ID).
					WithHint("leave the id of the input out for a fresh one")
			}
			at, m = len(past), t.conv.input
		}
		past = append(past, m)
	}
	if t.inputStored = t.inputStored || at >= 0; at < 0 {
		return past, nil
	}
	if slices.ContainsFunc(past[at+1:], func(m *Message) bool { return m.Role == User }) {
		return slices.Delete(past, at, at+1), nil
	}
	t.conv.inputInHistory = true
	return past, nil
}

// storeRound stores the messages of the run that are not stored yet, current being
// the result of the agent at work. The journal of a run that has one does so
// already, and a run that is resumed wants the thread as it left it.
func (t *turn) storeRound(ctx context.Context) error {
	thread := &t.run.thread
	if thread.history == nil || !thread.history.eachRound || t.run.events.Depth > 0 || t.run.journal.recorder != nil {
		return nil
	}
	return thread.storeRound(ctx, t.result)
}

func (t *runThread) storeRound(ctx context.Context, current *Result) error {
	round := &Round{Head: t.head}
	for _, r := range t.conv.results {
		round.Messages = append(round.Messages, t.notStored(r)...)
	}
	round.Messages = append(round.Messages, t.notStored(current)...)
	if len(round.Messages) == 0 {
		return nil
	}
	head, err := callHistory(ctx, t, historyCall[string]{method: "AppendRound", limit: historyLimit(t.limits), call: func(ctx context.Context, req *HistoryRequest) (string, error) {
		return t.history.appendRound(ctx, req, round)
	}})
	if err != nil {
		return wrapError(err, "store a round of the run in thread %q", t.scope.Thread)
	}
	t.head = head
	return nil
}

// notStored returns copies of a result's messages that no round has stored, and
// takes them for stored: a round that fails ends the run.
func (t *runThread) notStored(result *Result) []*Message {
	var out []*Message
	for _, m := range result.Messages {
		if t.storedIDs[m.ID] {
			continue
		}
		if t.storedIDs == nil {
			t.storedIDs = map[string]bool{}
		}
		t.storedIDs[m.ID] = true
		out = append(out, m.DeepClone())
	}
	return out
}

// commit stores the turn of the run, once, also when it failed or was canceled.
func (r *run) commit(ctx context.Context, reason FinishReason, failure error) error {
	if r.thread.history == nil || r.thread.history.appendResult == nil || r.routes.iterations == 0 && failure == nil {
		return nil
	}
	turn := &Turn{Head: r.thread.head, Results: r.conv.results, Artifacts: r.ledger.Artifacts, Status: reason, Usage: r.ledger.Usage,
		inputKept: r.thread.inputStored, inputNamed: r.req.Input != nil && r.req.Input.ID != "", answered: r.service.answered, conversation: r.service.id, known: r.service.storedIDs}
	if !r.net.opts.StateOfRun && !r.thread.clientOwned {
		turn.State = r.state.JSON()
	}
	if !r.thread.clientOwned {
		turn.Providers = r.thread.providers.JSON(failure != nil)
	}
	if failure != nil {
		turn.Error = fault.ForClient(failure, r.scope.Run)
		if r.net.opts.DiscardOnFailure {
			turn.Results, turn.State, turn.Artifacts, turn.Providers = nil, nil, nil, nil
		}
	}
	turn.Entries = r.ledger.Close(true)
	return r.thread.storeTurn(ctx, turn)
}

// storeTurn stores the turn of a run, with a timeout of its own, also after a
// cancel.
func (t *runThread) storeTurn(ctx context.Context, turn *Turn) error {
	_, err := callHistory(context.WithoutCancel(ctx), t, historyCall[struct{}]{method: "AppendResults", limit: commitLimit(t.limits), call: func(ctx context.Context, req *HistoryRequest) (struct{}, error) {
		return struct{}{}, t.history.appendResult(ctx, req, turn.copyOf())
	}})
	return wrapError(err, "store the results of the run in thread %q", t.scope.Thread)
}
