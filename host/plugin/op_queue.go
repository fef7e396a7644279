package plugin

import (
	"context"
	"encoding/json"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
	"github.com/agenthost/agenthost/host/plugin/internal/callmeter"
)

// The bounds of a job.
const (
	maxJobBytes = 256 << 10
	maxJobKey   = 256
	maxJobDelay = 24 * time.Hour
)

func (b *binding) send(ctx context.Context, scope host.Scope, req []byte) ([]byte, error) {
	if !b.rights().granted.Queue {
		return nil, b.denied("queue", "leave work for after the turn")
	}
	b.usage.note(func(p *Permissions) { p.Queue = true })
	queue := b.plugin.runtime.opts.Queue
	if queue == nil {
		return nil, host.Errorf(host.Unimplemented, "this host runs no jobs of plugins").WithHint("give the runtime the option Queue")
	}
	var in struct {
		Handler        string
		Payload        json.RawMessage
		IdempotencyKey string `json:"idempotency_key"`
		DelayMS        int64  `json:"delay_ms"`
	}
	if err := abi.ReadRequest("queue.send", req, &in); err != nil {
		return nil, err
	}
	switch {
	case b.plugin.manifest.Tool(in.Handler) == nil:
		return nil, host.Errorf(host.InvalidArgument, "request of queue.send: the plugin has no tool %q", clean(in.Handler))
	case len(in.Payload) > maxJobBytes || len(in.IdempotencyKey) > maxJobKey:
		return nil, host.Errorf(host.ResourceExhausted, "request of queue.send: a payload has at most %d bytes, a key %d", maxJobBytes, maxJobKey)
	case in.DelayMS < 0 || in.DelayMS > maxJobDelay.Milliseconds():
		return nil, host.Errorf(host.InvalidArgument, "request of queue.send: delay_ms is %d, not up to %d", in.DelayMS, maxJobDelay.Milliseconds())
	}
	left := pluginJob{Plugin: b.plugin.id, Handler: in.Handler, Key: in.IdempotencyKey, Payload: abi.OrNull(in.Payload)}
	job := &host.Job{
		Name: JobName, Payload: left.encode(), Key: left.queueKey(),
		NotBefore: time.Now().Add(time.Duration(in.DelayMS) * time.Millisecond), Scope: scope,
	}
	job.Scope.Tenant = b.account.id
	var id string
	var err error
	callmeter.WhileBlocked(ctx, func(ctx context.Context) { id, err = queue.Enqueue(ctx, job) })
	if err != nil && host.CodeOf(err) == host.AlreadyExists {
		return nil, host.Errorf(host.AlreadyExists, "a job with the key %q was sent before", clean(in.IdempotencyKey))
	}
	if err != nil {
		return nil, err
	}
	out := abi.NewObject(64)
	out.Text("id", id)
	return out.End(), nil
}
