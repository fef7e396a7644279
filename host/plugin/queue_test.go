package plugin

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
)

// jobs notes what is run, and when.
type jobs struct {
	mu   sync.Mutex
	ran  []string
	fail map[string]error // by handler
}

func (j *jobs) run(_ context.Context, job *Job) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ran = append(j.ran, fmt.Sprintf("%s/%d", job.Handler, job.Attempt))
	return j.fail[job.Handler]
}

func (j *jobs) list() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.ran)
}

func now(fn func(bool))   { fn(true) }
func never(fn func(bool)) { fn(false) }

func TestMemoryQueueRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &jobs{fail: map[string]error{
			"down":  host.Errorf(host.Unavailable, "down"),
			"wrong": host.Errorf(host.InvalidArgument, "wrong"),
		}}
		q := NewMemoryQueue(j.run, &QueueOptions{Attempts: 3, Workers: 1})
		defer q.Close()
		for _, handler := range []string{"good", "down", "wrong"} {
			if _, err := q.Send(t.Context(), &Job{Owner: Owner{"acme", "p"}, Handler: handler, Attempt: 1}, now); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Hour)
		got := j.list()
		slices.Sort(got)
		if diff := cmp.Diff([]string{"down/1", "down/2", "down/3", "good/1", "wrong/1"}, got); diff != "" {
			t.Errorf("ran (-want +got):\n%s", diff)
		}
		if n := q.Waiting(); n != 0 {
			t.Errorf("%d jobs are left", n)
		}
	})
}

func TestMemoryQueueWaitsLongerEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries []time.Time
		q := NewMemoryQueue(func(context.Context, *Job) error {
			tries = append(tries, time.Now())
			return host.Errorf(host.Unavailable, "down")
		}, &QueueOptions{FirstRetry: time.Second, LastRetry: 8 * time.Second, Attempts: 7})
		defer q.Close()
		if _, err := q.Send(t.Context(), &Job{Owner: Owner{"acme", "p"}, Handler: "h", Attempt: 1}, now); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(tries) != 7 {
			t.Fatalf("%d tries, want 7", len(tries))
		}
		for i, base := range []time.Duration{1, 2, 4, 8, 8, 8} {
			if d := tries[i+1].Sub(tries[i]); d < base*time.Second || d > base*time.Second*5/4+1 {
				t.Errorf("after %d failures it waits %s, want %ds and at most a quarter more", i+1, d, base)
			}
		}
	})
}

func TestMemoryQueueWaitsForTheTurnAndTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &jobs{}
		q := NewMemoryQueue(j.run, nil)
		defer q.Close()
		send := func(job Job, ready func(func(bool))) {
			t.Helper()
			job.Owner, job.Attempt = Owner{"acme", "p"}, 1
			if _, err := q.Send(t.Context(), &job, ready); err != nil {
				t.Fatal(err)
			}
		}
		var stored func(bool)
		send(Job{Handler: "turn"}, func(fn func(bool)) { stored = fn })
		send(Job{Handler: "later", NotBefore: time.Now().Add(time.Minute)}, now)
		send(Job{Handler: "discarded"}, never)
		synctest.Wait()
		if got := j.list(); len(got) > 0 {
			t.Errorf("before the turn is stored, and the time has come, %v ran", got)
		}
		stored(true)
		synctest.Wait()
		if diff := cmp.Diff([]string{"turn/1"}, j.list()); diff != "" {
			t.Errorf("after the turn (-want +got):\n%s", diff)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if diff := cmp.Diff([]string{"turn/1", "later/1"}, j.list()); diff != "" {
			t.Errorf("after a minute (-want +got):\n%s", diff)
		}
		if q.Waiting() != 0 {
			t.Errorf("%d jobs are left", q.Waiting())
		}
	})
}

func TestMemoryQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewMemoryQueue((&jobs{}).run, &QueueOptions{Jobs: 3, OfTenant: 2})
		hold := func(func(bool)) {}
		send := func(tenant, key string, ready func(func(bool))) host.Code {
			_, err := q.Send(t.Context(), &Job{Owner: Owner{tenant, "p"}, IdempotencyKey: key, Attempt: 1}, ready)
			return host.CodeOf(err)
		}
		for _, row := range []struct {
			tenant, key string
			ready       func(func(bool))
			want        host.Code
		}{
			{"acme", "k", hold, ""}, {"acme", "k", hold, host.AlreadyExists}, {"globex", "k", never, ""}, {"globex", "k", hold, ""},
			{"acme", "", hold, ""}, {"acme", "", hold, host.ResourceExhausted}, {"initech", "", hold, host.ResourceExhausted},
		} {
			if got := send(row.tenant, row.key, row.ready); got != row.want {
				t.Errorf("%s with key %q: %q, want %q", row.tenant, row.key, got, row.want)
			}
		}
		q.Close()
		q.Close()
		if got := send("new", "", hold); got != host.FailedPrecondition {
			t.Errorf("after Close: %q, want failed_precondition", got)
		}
	})
}

// A job is as large as its payload: a thousand large ones are more than a tenant
// may have this host keep in its memory. What has ended has room for others.
func TestMemoryQueueIsBoundedInBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewMemoryQueue((&jobs{}).run, &QueueOptions{Bytes: 300, BytesOfTenant: 200})
		defer q.Close()
		var ready func(bool)
		send := func(tenant string, bytes int) host.Code {
			_, err := q.Send(t.Context(), &Job{Owner: Owner{tenant, "p"}, Payload: make([]byte, bytes), Attempt: 1}, func(fn func(bool)) { ready = fn })
			return host.CodeOf(err)
		}
		for _, row := range []struct {
			tenant string
			bytes  int
			want   host.Code
		}{{"acme", 150, ""}, {"acme", 51, host.ResourceExhausted}, {"globex", 151, host.ResourceExhausted}, {"globex", 150, ""}} {
			if got := send(row.tenant, row.bytes); got != row.want {
				t.Errorf("%d bytes of %s: %q, want %q", row.bytes, row.tenant, got, row.want)
			}
		}
		ready(true)
		synctest.Wait()
		if got := send("initech", 150); got != "" {
			t.Errorf("when a job has ended: %q", got)
		}
	})
}

func TestQueueOperation(t *testing.T) {
	wasm := opsGuest(t, manifestAt(80))
	granted := Permissions{Queue: true}
	for _, row := range []opRow{
		{name: "a job", op: `queue.send {"handler":"t","payload":{"n":1}}`, granted: granted, want: `{"id":"1"}`},
		{name: "not granted", op: `queue.send {"handler":"t"}`, code: host.PermissionDenied, says: `"queue"`},
		{name: "a handler that there is not", op: `queue.send {"handler":"x"}`, granted: granted, code: host.InvalidArgument},
		{name: "a key that was used", before: []string{`queue.send {"handler":"t","idempotency_key":"k"}`}, op: `queue.send {"handler":"t","idempotency_key":"k"}`, granted: granted, code: host.AlreadyExists},
		{name: "a payload too large", op: `queue.send {"handler":"t","payload":"` + strings.Repeat("x", maxJobBytes) + `"}`, granted: granted, code: host.ResourceExhausted},
		{name: "a delay too long", op: `queue.send {"handler":"t","delay_ms":86400001}`, granted: granted, code: host.InvalidArgument},
		{name: "a delay of less than nothing", op: `queue.send {"handler":"t","delay_ms":-1}`, granted: granted, code: host.InvalidArgument},
	} {
		t.Run(row.name, func(t *testing.T) {
			q := NewMemoryQueue((&jobs{}).run, nil)
			defer q.Close()
			row.check(t, startRuntime(t, &Options{Queue: q}), wasm)
		})
	}
}

// A job runs when the turn that sent it is stored, as a call of the tool.
func TestJobsRunAfterTheTurn(t *testing.T) {
	ran := make(chan *Job, 1)
	q := NewMemoryQueue(func(_ context.Context, job *Job) error { ran <- job; return nil }, nil)
	defer q.Close()
	rt := startRuntime(t, &Options{Queue: q})
	p, err := rt.Load(t.Context(), "ops", fixedGuest(t, "queue.send", `{"handler":"t","payload":{"n":1}}`), &LoadOptions{Granted: Permissions{Queue: true}})
	if err != nil {
		t.Fatal(err)
	}
	model := hosttest.ModelFunc(func(_ context.Context, req *host.ModelRequest) hosttest.Reply {
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
	if job.Owner != (Owner{"acme", "ops"}) || job.Handler != "t" || string(job.Payload) != `{"n":1}` || job.Scope.Run == "" {
		t.Errorf("the job is %+v", job)
	}
	if err := rt.RunJob(t.Context(), job); err != nil {
		t.Errorf("RunJob: %v", err)
	}
	for name, other := range map[string]*Job{
		"another plugin": {Owner: Owner{"acme", "gone"}, Handler: "t"}, "another handler": {Owner: job.Owner, Handler: "gone"},
	} {
		if err := rt.RunJob(t.Context(), other); host.CodeOf(err) != host.NotFound {
			t.Errorf("RunJob of %s: %v, want not_found", name, err)
		}
	}
}
