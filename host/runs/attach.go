package runs

import (
	"context"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
)

// Attachment is a client that a run is made for: a reader that counts as one also while it
// reads nothing. It is used by one goroutine.
type Attachment struct {
	run *liveRun // nil for a run of another host, and after the end
}

// Attach returns a run with a reader of it, which stays until Detach or Abandon. It is for a
// client that may send the request of a run again: a run that is being canceled because its
// last reader has left is not found, once it has ended, and another one of that id can be
// started. Codes are those of [Registry.Get], and that of ctx.
func (r *Registry) Attach(ctx context.Context, tenant, id string) (*Run, *Attachment, error) {
	l, err := r.find(tenant, id)
	if err != nil {
		run, err := r.Get(ctx, tenant, id)
		return run, &Attachment{}, err
	}
	if l.attach() {
		return l.snapshot(), &Attachment{l}, nil
	}
	select {
	case <-l.over:
	case <-ctx.Done():
		return nil, nil, fault.AsError(fault.ContextError(ctx))
	}
	if l.attach() { // it has ended by itself before it was canceled
		return l.snapshot(), &Attachment{l}, nil
	}
	r.runs.remove(l)
	return nil, nil, errNoRun(id)
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
