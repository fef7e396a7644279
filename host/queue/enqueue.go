package queue

import (
	"context"
	"encoding/json"
	"time"

	"github.com/agenthost/agenthost/host"
)

// Enqueue implements [host.Enqueuer]. The payload is JSON; none is null. Code
// resource_exhausted, retryable, if the tenant has Options.MaxPerTenant jobs, or with
// this one more than Options.MaxBytes.
func (q *Queue) Enqueue(ctx context.Context, job *host.Job) (id string, err error) {
	if err := checkJob(job); err != nil {
		return "", err
	}
	t, err := q.schedule.tenantNamed(ctx, job.Scope.Tenant)
	if err != nil {
		return "", err
	}
	r := newRecord(job, q.store.keepKeys)
	if err := q.schedule.countNew(t, r.amount()); err != nil {
		return "", err
	}
	held := q.held.hold(ctx, t, r)
	if held != nil {
		err = q.register(ctx)
	}
	if err != nil {
		q.schedule.countGone(t, r.amount())
		return "", err
	}
	revision, err := q.store.add(ctx, t.name, r, held != nil)
	if err != nil {
		q.schedule.countGone(t, r.amount())
		return "", err
	}
	if held != nil {
		held.added(r, revision)
		return r.ID, nil
	}
	q.schedule.announce(ctx, t, r.Due)
	return r.ID, nil
}

func newRecord(job *host.Job, keepKey time.Duration) *record {
	now := time.Now().UTC()
	r := &record{V: layout, ID: host.NewID(), Name: job.Name, Payload: job.Payload, Key: job.Key, Serial: job.Serial,
		Scope: job.Scope, Left: now, Due: now}
	if len(r.Payload) == 0 {
		r.Payload = []byte("null")
	}
	if job.NotBefore.After(now) {
		r.Due = job.NotBefore.UTC()
	}
	if r.Key != "" {
		r.Until = now.Add(keepKey)
	}
	return r
}

// checkJob refuses a job over the bounds.
func checkJob(job *host.Job) error {
	switch {
	case job.Name == "" || len(job.Name) > MaxNameBytes:
		return host.Errorf(host.InvalidArgument, "a job for the handler %s: a name has 1 to %d bytes", quoted(job.Name), MaxNameBytes)
	case len(job.Key) > MaxNameBytes || len(job.Serial) > MaxNameBytes:
		return host.Errorf(host.InvalidArgument, "a job for %s: its key or serial has more than %d bytes", quoted(job.Name), MaxNameBytes)
	case len(job.Payload) > MaxPayloadBytes:
		return host.Errorf(host.ResourceExhausted, "a job for %s: its payload has %d bytes, more than %d", quoted(job.Name), len(job.Payload), MaxPayloadBytes).
			WithHint("leave it the name of what it needs, such as an artifact's")
	case len(job.Payload) > 0 && !json.Valid(job.Payload):
		return host.Errorf(host.InvalidArgument, "a job for %s: its payload is not JSON", quoted(job.Name))
	case time.Until(job.NotBefore) > MaxDelay:
		return host.Errorf(host.InvalidArgument, "a job for %s: it is to wait for more than %s", quoted(job.Name), MaxDelay)
	}
	return nil
}
