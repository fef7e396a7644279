package runs

import (
	"context"

	"github.com/agenthost/agenthost/host"
)

// Attachment is a client that a run is made for: a reader that counts as one also while it
// reads nothing. It is used by one goroutine.
type Attachment struct {
	run *liveRun // nil for a run of another host, and after the end
}

// Attach returns a run with a reader of it, which stays until Detach or Abandon. It is for a
// client that may send the request of a run again: a run that is canceled because its last
// reader has left is not found, so that the client starts another one. Codes are those of
// [Registry.Get].
func (r *Registry) Attach(ctx context.Context, tenant, id string) (*Run, *Attachment, error) {
	l, err := r.find(tenant, id)
	if err != nil {
		run, err := r.Get(ctx, tenant, id)
		return run, &Attachment{}, err
	}
	if !l.attach() {
		return nil, nil, errNoRun(id)
	}
	return l.snapshot(), &Attachment{l}, nil
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
