package plugin

import (
	"context"
	"encoding/json"
	"time"

	"github.com/agenthost/agenthost/host"
)

// Queue takes work that a plugin leaves for after the turn. It is safe for
// concurrent use. [MemoryQueue] is one for a single process.
type Queue interface {
	// Send takes a job. It must not be begun before the turn that sent it is
	// stored, and never if that is not: ready, which the queue gets, says so. The
	// id names the job in logs. Code already_exists for an idempotency key that
	// the tenant's plugin has used, resource_exhausted for a queue that is full.
	Send(ctx context.Context, job *Job, ready func(func(stored bool))) (id string, err error)
}

// Job is work for a plugin's tool.
type Job struct {
	ID             string // given by the queue
	Owner          Owner
	Handler        string // a tool in the plugin's manifest
	Payload        json.RawMessage
	IdempotencyKey string
	NotBefore      time.Time
	Scope          host.Scope // of the call that sent it
	Attempt        int        // from 1
}

// The bounds of a job.
const (
	maxJobBytes = 256 << 10
	maxJobKey   = 256
	maxJobDelay = 24 * time.Hour
)

func (s *seat) send(ctx context.Context, scope host.Scope, req []byte) ([]byte, error) {
	if !s.rights().granted.Queue {
		return nil, s.denied("queue", "leave work for after the turn")
	}
	s.usage.note(func(p *Permissions) { p.Queue = true })
	queue := s.plugin.runtime.queue
	var in struct {
		Handler        string
		Payload        json.RawMessage
		IdempotencyKey string `json:"idempotency_key"`
		DelayMS        int64  `json:"delay_ms"`
	}
	if err := readRequest("queue.send", req, &in); err != nil {
		return nil, err
	}
	switch {
	case s.plugin.manifest.tool(in.Handler) == nil:
		return nil, host.Errorf(host.InvalidArgument, "request of queue.send: the plugin has no tool %q", clean(in.Handler))
	case len(in.Payload) > maxJobBytes || len(in.IdempotencyKey) > maxJobKey:
		return nil, host.Errorf(host.ResourceExhausted, "request of queue.send: a payload has at most %d bytes, a key %d", maxJobBytes, maxJobKey)
	case in.DelayMS < 0 || in.DelayMS > maxJobDelay.Milliseconds():
		return nil, host.Errorf(host.InvalidArgument, "request of queue.send: delay_ms is %d, not up to %d", in.DelayMS, maxJobDelay.Milliseconds())
	}
	job := &Job{
		Owner: s.owner(), Handler: in.Handler, Payload: orNull(in.Payload), IdempotencyKey: in.IdempotencyKey,
		NotBefore: time.Now().Add(time.Duration(in.DelayMS) * time.Millisecond), Scope: scope, Attempt: 1,
	}
	var id string
	var err error
	outside(ctx, func(ctx context.Context) {
		id, err = queue.Send(ctx, job, func(fn func(bool)) {
			if !host.AfterCommit(ctx, fn) {
				fn(true) // there is no turn to wait for
			}
		})
	})
	if err != nil {
		return nil, err
	}
	out := newObject(64)
	out.str("id", id)
	return out.end(), nil
}
