package plugin

import (
	"context"
	"encoding/json"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
)

// JobName is the name of plugins' jobs in the queue of [Options].Queue. Have that
// queue call [Runtime.HandleJob] for it.
const JobName = "agenthost/plugin"

// pluginJob is the payload of a [host.Job] named [JobName].
type pluginJob struct {
	Plugin  string          // id of the plugin that sent the job
	Handler string          // a tool in the plugin's manifest
	Key     string          // the plugin's idempotency key; "" is none
	Payload json.RawMessage // arguments of the tool
}

func (p pluginJob) encode() []byte {
	o := abi.NewObject(len(p.Payload) + 128)
	o.Text("plugin", p.Plugin)
	o.Text("handler", p.Handler)
	o.Text("key", p.Key)
	o.Raw("payload", p.Payload)
	return o.End()
}

// queueKey is the [host.Job].Key of a plugin's idempotency key: plugins of one
// tenant do not use up each other's.
func (p pluginJob) queueKey() string {
	if p.Key == "" {
		return ""
	}
	return p.Plugin + "/" + p.Key
}

// HandleJob runs a job that a plugin sent with queue.send, in the version of the
// plugin that serves: the handler is called as a tool is, with the payload as
// arguments, and its result dropped. A queue calls it, from several goroutines at
// once. Codes: not_found if no such plugin is loaded (retryable) or it has no such
// tool, invalid_argument for a payload that the tool does not take, and those of a
// call.
func (rt *Runtime) HandleJob(ctx context.Context, job *host.Job) error {
	var sent pluginJob
	if err := json.Unmarshal(job.Payload, &sent); err != nil {
		return host.Errorf(host.InvalidArgument, "read a plugin's job: %w", err)
	}
	if slot := rt.Slot(sent.Plugin); slot != nil {
		v, err := slot.at(ctx)
		if err != nil {
			return err
		}
		defer v.leave()
		_, err = guarded(ctx, v, job.Scope.Tenant, func() (struct{}, error) { return struct{}{}, v.plugin.runJob(ctx, job, &sent) })
		return err
	}
	p := rt.lastLoaded(sent.Plugin)
	if p == nil {
		return &host.Error{Code: host.NotFound, Message: "no plugin of the job's is loaded", Retryable: true}
	}
	return p.runJob(ctx, job, &sent)
}

// lastLoaded returns the plugin of an id that was loaded last.
func (rt *Runtime) lastLoaded(id string) (last *Plugin) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	for p := range rt.plugins {
		if p.id == id && (last == nil || p.number > last.number) {
			last = p
		}
	}
	return last
}

func (p *Plugin) runJob(ctx context.Context, job *host.Job, sent *pluginJob) error {
	info := p.manifest.Tool(sent.Handler)
	if info == nil {
		return host.Errorf(host.NotFound, "plugin %q has no tool %q", p.id, sent.Handler)
	}
	made, err := toolSchemas(p.id, p.schemas, info)
	if err != nil {
		return err
	}
	if len(info.Parameters) > 0 {
		if err := made.Parameters.ValidateContext(ctx, sent.Payload); err != nil {
			return host.Errorf(host.InvalidArgument, "the payload of a job for %q: %w", sent.Handler, err)
		}
	}
	call := host.NewCall(sent.Handler, sent.Payload, nil)
	call.ID, call.Attempt, call.Scope, call.IdempotencyKey = job.ID, job.Attempt, job.Scope, sent.Key
	if call.IdempotencyKey == "" {
		call.IdempotencyKey = "job/" + job.ID
	}
	handle, err := p.toolHandler(info, "", nil)
	if err != nil {
		return err
	}
	_, err = handle(ctx, call)
	return err
}
