package plugin

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
	"github.com/agenthost/agenthost/host/queue"
)

// memoryQueue returns a queue in memory that runs nothing until it is started.
func memoryQueue(t *testing.T) *queue.Queue {
	t.Helper()
	q := queue.New(kv.NewMemory(), nil)
	t.Cleanup(func() { _ = q.Close() })
	return q
}

func TestQueueOperation(t *testing.T) {
	wasm := opsGuest(t, manifestAt(80))
	granted := Permissions{Queue: true}
	for _, row := range []opRow{
		{name: "a job", op: `queue.send {"handler":"t","payload":{"n":1}}`, granted: granted, want: `{"id":"`},
		{name: "not granted", op: `queue.send {"handler":"t"}`, code: host.PermissionDenied, says: `"queue"`},
		{name: "a handler that there is not", op: `queue.send {"handler":"x"}`, granted: granted, code: host.InvalidArgument},
		{name: "a key that was used", before: []string{`queue.send {"handler":"t","idempotency_key":"k"}`}, op: `queue.send {"handler":"t","idempotency_key":"k"}`, granted: granted, code: host.AlreadyExists, says: `the key "k"`},
		{name: "a payload too large", op: `queue.send {"handler":"t","payload":"` + strings.Repeat("x", maxJobBytes) + `"}`, granted: granted, code: host.ResourceExhausted},
		{name: "a delay too long", op: `queue.send {"handler":"t","delay_ms":86400001}`, granted: granted, code: host.InvalidArgument},
		{name: "a delay of less than nothing", op: `queue.send {"handler":"t","delay_ms":-1}`, granted: granted, code: host.InvalidArgument},
	} {
		t.Run(row.name, func(t *testing.T) {
			row.check(t, startRuntime(t, &Options{Queue: memoryQueue(t)}), wasm)
		})
	}
}

// A host that keeps nothing for plugins says so, and not before it has looked at
// the grants.
func TestOperationsWithoutAStoreAndAQueueAreUnimplemented(t *testing.T) {
	rt, err := NewRuntime(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rt.Close(context.Background()) })
	wasm := opsGuest(t, manifestAt(80))
	granted := Permissions{Queue: true, KV: Write}
	for _, row := range []opRow{
		{name: "queue.send", op: `queue.send {"handler":"t"}`, granted: granted, code: host.Unimplemented},
		{name: "kv.get", op: `kv.get {"key":"k"}`, granted: granted, code: host.Unimplemented},
		{name: "kv.put", op: `kv.put {"key":"k","value":"aGk="}`, granted: granted, code: host.Unimplemented},
		{name: "kv.delete", op: `kv.delete {"key":"k"}`, granted: granted, code: host.Unimplemented},
		{name: "kv.list", op: `kv.list {}`, granted: granted, code: host.Unimplemented},
		{name: "queue.send without its grant", op: `queue.send {"handler":"t"}`, code: host.PermissionDenied},
		{name: "kv.get without its grant", op: `kv.get {"key":"k"}`, code: host.PermissionDenied},
	} {
		t.Run(row.name, func(t *testing.T) { row.check(t, rt, wasm) })
	}
}

// A job runs when the turn that sent it is stored, as a call of the tool.
func TestJobsRunAfterTheTurn(t *testing.T) {
	ran := make(chan *host.Job, 1)
	q := memoryQueue(t)
	q.Handle(JobName, func(_ context.Context, job *host.Job) error { ran <- job; return nil })
	if err := q.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	rt := startRuntime(t, &Options{Queue: q})
	p, err := rt.Load(t.Context(), "ops", fixedGuest(t, "queue.send", `{"handler":"t","payload":{"n":1}}`), &LoadOptions{Granted: Permissions{Queue: true}})
	if err != nil {
		t.Fatal(err)
	}
	model := hosttest.ModelFunc(func(_ context.Context, req *llm.Request) hosttest.Reply {
		if len(req.Messages) > 1 {
			select {
			case job := <-ran:
				t.Errorf("a job ran before the turn was stored: %+v", job)
			default:
			}
			return hosttest.Say("done")
		}
		return hosttest.Say("").Call("t", "{}")
	})
	if res := runAgent(t, p, model); res.ToolResults()[0].IsError {
		t.Errorf("the tool answers %s", res.ToolResults()[0].Content)
	}
	job := <-ran
	var sent pluginJob
	if err := json.Unmarshal(job.Payload, &sent); err != nil {
		t.Fatal(err)
	}
	if sent.Plugin != "ops" || sent.Handler != "t" || string(sent.Payload) != `{"n":1}` || job.Scope.Tenant != "acme" || job.Scope.Run == "" {
		t.Errorf("the job is %+v: %+v", job, sent)
	}
	if err := rt.HandleJob(t.Context(), job); err != nil {
		t.Errorf("HandleJob: %v", err)
	}
	for name, other := range map[string]pluginJob{
		"another plugin": {Plugin: "gone", Handler: "t"}, "another handler": {Plugin: "ops", Handler: "gone"},
	} {
		other.Payload = abi.OrNull(nil)
		wrong := &host.Job{Scope: job.Scope, Payload: other.encode()}
		if err := rt.HandleJob(t.Context(), wrong); host.CodeOf(err) != host.NotFound {
			t.Errorf("HandleJob of %s: %v, want not_found", name, err)
		}
	}
	for _, payload := range []string{`{`, `[]`, `null`, `{"plugin":1}`} {
		if err := rt.HandleJob(t.Context(), &host.Job{Payload: json.RawMessage(payload)}); err == nil {
			t.Errorf("HandleJob of %s succeeds", payload)
		}
	}
}

// sentJob keeps the job that it is given.
type sentJob struct{ job *host.Job }

func (e *sentJob) Enqueue(_ context.Context, job *host.Job) (string, error) {
	e.job = job
	return "1", nil
}

// The queue sees whose job it is, and little more than the plugin's payload.
func TestJobsOfPluginsInTheHostsQueue(t *testing.T) {
	var sent sentJob
	rt := startRuntime(t, &Options{Queue: &sent})
	payload := `"` + strings.Repeat("<", 100) + `"`
	p, err := rt.Load(t.Context(), "p", fixedGuest(t, "queue.send", `{"handler":"t","idempotency_key":"k","payload":`+payload+`}`), &LoadOptions{Granted: Permissions{Queue: true}})
	if err != nil {
		t.Fatal(err)
	}
	if res := runAgent(t, p, hosttest.NewModel(hosttest.Call("t", "{}"), hosttest.Say("done"))); res.ToolResults()[0].IsError {
		t.Fatalf("the tool answers %s", res.ToolResults()[0].Content)
	}
	if sent.job.Name != JobName || sent.job.Key != "p/k" || sent.job.Scope.Tenant != "acme" || sent.job.Scope.Run == "" {
		t.Errorf("%+v", sent.job)
	}
	if n := len(sent.job.Payload) - len(payload); n > 100 {
		t.Errorf("the payload grows by %d bytes: %s", n, sent.job.Payload)
	}
}
