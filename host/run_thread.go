package host

import (
	"context"
	"maps"
)

// What a run has to do with its thread: lock, open, load, commit.

func (r *run) lockThread(ctx context.Context) (func(), error) {
	if r.history == nil || r.history.lock == nil || r.thread == "" {
		return func() {}, nil
	}
	unlock, err := r.history.lock(ctx, &HistoryRequest{Tenant: r.tenant, Thread: r.thread, Run: r.id, Network: r.net.name})
	if unlock == nil {
		unlock = func() {}
	}
	return unlock, err
}

// open makes the thread, stores the user's message and loads what was before.
func (r *run) open(ctx context.Context) error {
	r.hreq = &HistoryRequest{Tenant: r.tenant, Thread: r.thread, Run: r.id, Network: r.net.name, Input: r.input}
	created, err := r.ensureThread(ctx)
	if err != nil {
		return err
	}
	if err := r.storeInput(ctx); err != nil {
		return err
	}
	loaded, err := r.load(ctx, created)
	if err != nil {
		return err
	}
	if err := r.setState(loaded); err != nil {
		return err
	}
	if r.past, err = r.pastMessages(loaded); err != nil {
		return err
	}
	if r.input == nil && len(r.past) == 0 {
		return errNothingSaid()
	}
	r.start()
	r.emitState()
	return nil
}

// start sends the first event, once.
func (r *run) start() {
	if r.opened {
		return
	}
	r.opened = true
	started := &RunStarted{Tenant: r.tenant, Thread: r.thread}
	if r.input != nil {
		started.Message = r.input.ID
	}
	r.emit(started)
}

func (r *run) ensureThread(ctx context.Context) (created bool, err error) {
	if r.history == nil {
		return false, nil
	}
	if r.history.createThread != nil {
		var id string
		if id, created, err = r.history.createThread(ctx, r.hreq); err != nil {
			return false, wrapError(err, "create thread %q", r.thread)
		}
		if r.thread == "" {
			r.thread = id
		}
	}
	if r.thread == "" && r.history.get != nil {
		r.thread, created = NewID(), true
	}
	r.hreq.Thread = r.thread
	return created, nil
}

func (r *run) storeInput(ctx context.Context) error {
	if r.history == nil || r.history.appendUser == nil || r.input == nil {
		return nil
	}
	head, err := r.history.appendUser(ctx, r.hreq)
	if err != nil {
		return wrapError(err, "store the user's message in thread %q", r.thread)
	}
	r.head = head
	return nil
}

func (r *run) load(ctx context.Context, created bool) (*Loaded, error) {
	if r.history == nil || r.history.get == nil || created || len(r.req.Messages) > 0 {
		return &Loaded{Messages: r.req.Messages}, nil
	}
	loaded, err := r.history.get(ctx, r.hreq)
	if err != nil {
		return nil, wrapError(err, "load thread %q", r.thread)
	}
	if loaded == nil {
		return &Loaded{}, nil
	}
	if r.head == "" {
		r.head = loaded.Head
	}
	return loaded, nil
}

// pastMessages returns the conversation before this turn: without the message
// just stored, each message once, no call left open.
func (r *run) pastMessages(loaded *Loaded) ([]*Message, error) {
	seen := make(map[string]bool, len(loaded.Messages)+1)
	if r.input != nil {
		seen[r.input.ID] = true
	}
	past := make([]*Message, 0, len(loaded.Messages))
	for i, m := range loaded.Messages {
		if m == nil || !m.Role.Valid() {
			return nil, Errorf(InvalidArgument, "message %d of the conversation is nil or has no known role", i)
		}
		m = withIdentity(m, nil)
		if !seen[m.ID] {
			seen[m.ID] = true
			past = append(past, m)
		}
	}
	return closeOpenCalls(past), nil
}

func (r *run) setState(loaded *Loaded) error {
	layers := []any{r.net.opts.State, nil, r.req.State}
	if loaded.State != nil && !r.net.opts.StateOfRun {
		layers[1] = loaded.State
	}
	merged := map[string]any{}
	for _, layer := range layers {
		if layer == nil {
			continue
		}
		raw, err := stateJSON(layer)
		if err != nil {
			return err
		}
		members, err := decodeState(raw)
		if err != nil {
			return err
		}
		maps.Copy(merged, members)
	}
	s, err := newState(merged, r.limits.StateBytes)
	if err != nil {
		return err
	}
	s.watched = true
	r.state = s
	return nil
}

// emitState sends what has changed of the state since it was last sent.
func (r *run) emitState() {
	if r.depth > 0 {
		return // the run around it does, when the call has returned
	}
	ops := r.state.takeChanges()
	if !r.patched {
		r.patched = true
		r.emit(&StatePatched{Ops: []PatchOp{{Op: "replace", Path: "", Value: r.state.JSON()}}})
		return
	}
	if len(ops) > 0 {
		r.emit(&StatePatched{Ops: ops})
	}
}

// commit stores what the run leaves behind, once, also when it failed or was
// cancelled.
func (r *run) commit(ctx context.Context, reason FinishReason, failure error) error {
	if r.history == nil || r.history.appendResult == nil || r.iterations == 0 && failure == nil {
		return nil
	}
	turn := &Turn{Head: r.head, Results: r.results, Artifacts: r.artifacts, Status: reason, Usage: r.usage}
	if !r.net.opts.StateOfRun {
		turn.State = r.state.JSON()
	}
	if failure != nil {
		turn.Error = AsError(failure)
		if r.net.opts.DiscardOnFailure {
			turn.Results, turn.State, turn.Artifacts = nil, nil, nil
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.limits.CommitTimeout)
	defer cancel()
	if err := r.history.appendResult(ctx, r.hreq, turn); err != nil {
		return wrapError(err, "store the results of the run in thread %q", r.thread)
	}
	return nil
}
