package runs

import (
	"cmp"
	"context"
	"iter"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
)

// Attachment is a client that a run is made for: a reader that counts as one also while it
// reads nothing, and that can read the run when the registry has forgotten it, as Options.MaxEnded
// others have ended. It is used by one goroutine.
type Attachment struct {
	registry   *Registry
	tenant, id string
	run        *liveRun // nil for a run of another host, and after the end
}

// StartAttached is [Registry.Start] with a reader of the run from its beginning on, as of
// [Registry.Attach].
func (r *Registry) StartAttached(ctx context.Context, target host.Target, req *host.Request, opts *StartOptions) (*Run, *Attachment, error) {
	l, err := r.begin(ctx, target, req, opts)
	if err != nil {
		return nil, nil, err
	}
	run, err := r.awaitStart(ctx, l)
	if err != nil {
		l.leave()
		return nil, nil, err
	}
	return run, &Attachment{registry: r, tenant: run.Tenant, id: run.ID, run: l}, nil
}

// AnswerAttached is [Registry.Answer] with a reader of the run from its beginning on, as of
// [Registry.Attach].
func (r *Registry) AnswerAttached(ctx context.Context, tenant, id string, answers []host.Answer, opts *StartOptions) (*Run, *Attachment, error) {
	target, _, req, err := r.interrupted(ctx, tenant, id)
	if err != nil {
		return nil, nil, err
	}
	if req.Answers = answers; opts != nil {
		req.Run, req.Key = opts.Run, cmp.Or(opts.Key, req.Key)
	}
	return r.StartAttached(ctx, target, req, opts)
}

// Attach returns a run with a reader of it, which stays until Detach or Abandon. It is for a
// client that may send the request of a run again: a run that is canceled because its last
// reader has left is not found, so that the client starts another one. Codes are those of
// [Registry.Get].
func (r *Registry) Attach(ctx context.Context, tenant, id string) (*Run, *Attachment, error) {
	l, err := r.find(tenant, id)
	if err != nil {
		run, err := r.Get(ctx, tenant, id)
		return run, &Attachment{registry: r, tenant: tenant, id: id}, err
	}
	if !l.attach() {
		return nil, nil, errNoRun(id)
	}
	return l.snapshot(), &Attachment{registry: r, tenant: tenant, id: id, run: l}, nil
}

// Events is [Registry.Events] of the run.
func (a *Attachment) Events(ctx context.Context, from int64) iter.Seq2[host.Event, error] {
	if a.run == nil {
		return a.registry.Events(ctx, a.tenant, a.id, from)
	}
	return a.run.read(ctx, from)
}

// Wait is [Registry.Wait] of the run.
func (a *Attachment) Wait(ctx context.Context) (*Run, error) {
	if a.run == nil {
		return a.registry.Wait(ctx, a.tenant, a.id)
	}
	return a.run.wait(ctx)
}

// read yields the run's events to a reader of its own.
func (l *liveRun) read(ctx context.Context, from int64) iter.Seq2[host.Event, error] {
	return func(yield func(host.Event, error) bool) {
		l.enter()
		defer l.leave()
		l.events.read(ctx, from)(yield)
	}
}

// wait waits for the end of the run, as a reader.
func (l *liveRun) wait(ctx context.Context) (*Run, error) {
	l.enter()
	defer l.leave()
	select {
	case <-l.over:
	case <-ctx.Done():
		return nil, fault.AsError(fault.ContextError(ctx))
	}
	info := l.snapshot()
	l.mu.Lock()
	defer l.mu.Unlock()
	return info, l.err
}

// Detach ends the attachment. The run continues; one of [LeaveCancels] for its grace, if that
// was its last reader. It may be called twice.
func (a *Attachment) Detach() {
	if a.run != nil {
		a.run.leave()
		a.run = nil
	}
}

// Abandon ends the attachment, and cancels the run at once if it was started with
// [LeaveCancels] and has no other reader.
func (a *Attachment) Abandon() {
	if a.run != nil {
		a.run.abandon()
		a.run = nil
	}
}

// attach counts a reader, unless the run is canceled because its last one has left.
func (l *liveRun) attach() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.abandoned && (!l.ended || l.info.Status == Canceled) {
		return false
	}
	l.addReader()
	return true
}

// abandon is leave without a grace.
func (l *liveRun) abandon() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.readers--; l.readers > 0 || l.grace == 0 || l.ended {
		return
	}
	l.abandoned = true
	l.cancel(host.Errorf(host.Canceled, "the client of the run has left, and the run was started to be canceled then"))
}
