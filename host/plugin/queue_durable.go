package plugin

import (
	"context"
	"encoding/json"

	"github.com/agenthost/agenthost/host"
)

// JobName is the name under which plugins' jobs are in a queue of the host: see
// [QueueOn] and [Runtime.HandleJob].
const JobName = "agenthost/plugin"

// pluginJob is a plugin's job as a payload.
type pluginJob struct {
	Plugin  string
	Handler string
	Key     string
	Payload json.RawMessage
}

func (p pluginJob) encode() []byte {
	o := newObject(len(p.Payload) + 128)
	o.str("plugin", p.Plugin)
	o.str("handler", p.Handler)
	o.str("key", p.Key)
	o.raw("payload", p.Payload)
	return o.end()
}

// QueueOn returns a queue for a runtime over one of the host's, such as
// queue.Queue: jobs are as durable, as fair and as often tried as that makes
// them. Have it call [Runtime.HandleJob] for jobs named [JobName].
func QueueOn(q host.Enqueuer) Queue { return hostQueue{q} }

type hostQueue struct{ jobs host.Enqueuer }

// Send implements [Queue]. The host's queue waits for the turn by itself.
func (q hostQueue) Send(ctx context.Context, job *Job, _ func(func(stored bool))) (string, error) {
	left := pluginJob{job.Owner.Plugin, job.Handler, job.IdempotencyKey, job.Payload}
	out := &host.Job{Name: JobName, Payload: left.encode(), NotBefore: job.NotBefore, Scope: job.Scope}
	if job.IdempotencyKey != "" {
		out.Key = job.Owner.Plugin + "/" + job.IdempotencyKey
	}
	out.Scope.Tenant = job.Owner.Tenant
	id, err := q.jobs.Enqueue(ctx, out)
	if host.CodeOf(err) == host.AlreadyExists && err != nil {
		return "", host.Errorf(host.AlreadyExists, "a job with the key %q was sent before", clean(job.IdempotencyKey))
	}
	return id, err
}

// HandleJob does a job that a plugin has left through [QueueOn]: see
// [Runtime.RunJob].
func (rt *Runtime) HandleJob(ctx context.Context, job *host.Job) error {
	var p pluginJob
	if err := json.Unmarshal(job.Payload, &p); err != nil {
		return host.Errorf(host.InvalidArgument, "read a plugin's job: %w", err)
	}
	return rt.RunJob(ctx, &Job{ID: job.ID, Owner: Owner{Tenant: job.Scope.Tenant, Plugin: p.Plugin}, Handler: p.Handler,
		Payload: p.Payload, IdempotencyKey: p.Key, Scope: job.Scope, Attempt: job.Attempt})
}
