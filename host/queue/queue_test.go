package queue_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/queue"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/internal/testdriver"
	"github.com/agenthost/agenthost/internal/testhost"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// log is what handlers did, in order.
type log struct {
	mu    sync.Mutex
	lines []string
}

func (l *log) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

func (l *log) is(t *testing.T, what string, want ...string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Equal(l.lines, want) {
		t.Errorf("%s: %q, want %q", what, l.lines, want)
	}
}

// leaveInSerial leaves a job of one serial in each queue, one after the other: 0, 1, ...
func leaveInSerial(t *testing.T, queues ...*queue.Queue) {
	t.Helper()
	for i, q := range queues {
		job := jobOf("acme", fmt.Sprint(i))
		job.Serial = "ada"
		leave(t, q, job)
		time.Sleep(2 * time.Millisecond) // the ids' times differ
	}
}

// start begins a queue whose handler "note" logs payloads, and ends it with the
// test.
func start(t *testing.T, driver kv.Driver, opts *queue.Options, handlers map[string]queue.Handler) *queue.Queue {
	t.Helper()
	q := queue.New(driver, opts)
	for name, fn := range handlers {
		q.Handle(name, fn)
	}
	if err := q.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = q.Close() })
	return q
}

func note(l *log) map[string]queue.Handler {
	return map[string]queue.Handler{"note": func(_ context.Context, job *host.Job) error {
		l.add("%s", job.Payload)
		return nil
	}}
}

func leave(t *testing.T, q *queue.Queue, job *host.Job) string {
	t.Helper()
	id, err := q.Enqueue(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func jobOf(tenant, payload string) *host.Job {
	return &host.Job{Name: "note", Payload: json.RawMessage(payload), Scope: host.Scope{Tenant: tenant}}
}

func wantCode(t *testing.T, what string, err error, code host.Code) {
	t.Helper()
	if host.CodeOf(err) != code || err == nil {
		t.Errorf("%s: %v, want code %s", what, err, code)
	}
}

func waiting(t *testing.T, q *queue.Queue, tenant string, want int) {
	t.Helper()
	if n, err := q.Waiting(t.Context(), tenant); err != nil || n != want {
		t.Errorf("%d jobs of %q wait (%v), want %d", n, tenant, err, want)
	}
}

func TestRunsWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &log{}
		q := start(t, testdriver.New(t), nil, note(l))
		leave(t, q, jobOf("acme", `{"n":1}`))
		synctest.Wait()
		leave(t, q, jobOf("", ""))
		synctest.Wait()
		late := jobOf("acme", `"late"`)
		late.NotBefore = time.Now().Add(time.Hour)
		leave(t, q, late)
		synctest.Wait()
		l.is(t, "before its time", `{"n":1}`, "null")
		waiting(t, q, "acme", 1)
		if err := q.Drain(t.Context()); err != nil {
			t.Errorf("Drain waits for what waits for a time: %v", err)
		}
		time.Sleep(time.Hour + time.Second)
		synctest.Wait()
		l.is(t, "at its time", `{"n":1}`, "null", `"late"`)
		waiting(t, q, "acme", 0)
	})
}

// slowScans is a driver whose scans wait, once there is a gate, until that is
// closed.
type slowScans struct {
	kv.Driver
	gate atomic.Pointer[chan struct{}]
}

func (d *slowScans) Scan(ctx context.Context, partition string, r kv.Range) (kv.Page, error) {
	if gate := d.gate.Load(); gate != nil {
		<-*gate
	}
	return d.Driver.Scan(ctx, partition, r)
}

// A job is waited for also while the queue reads what is due.
func TestDrainWaitsForWhatIsBeingRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var done log
		d := &slowScans{Driver: testdriver.New(t)}
		q := start(t, d, nil, note(&done))
		leave(t, q, jobOf("acme", "0"))
		if err := q.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		gate := make(chan struct{})
		d.gate.Store(&gate)
		leave(t, q, jobOf("acme", "1"))
		synctest.Wait() // the queue reads
		drained := make(chan error, 1)
		go func() { drained <- q.Drain(t.Context()) }()
		synctest.Wait()
		if len(drained) > 0 {
			t.Error("Drain did not wait for a job that is being read")
		}
		close(gate)
		if err := <-drained; err != nil {
			t.Error(err)
		}
		done.is(t, "done", "0", "1")
	})
}

func TestRefusesWhatIsNoJob(t *testing.T) {
	q := queue.New(testdriver.New(t), &queue.Options{MaxPerTenant: 1})
	for name, c := range map[string]struct {
		change func(*host.Job)
		code   host.Code
	}{
		"no name":           {func(j *host.Job) { j.Name = "" }, host.InvalidArgument},
		"long name":         {func(j *host.Job) { j.Name = strings.Repeat("n", queue.MaxNameBytes+1) }, host.InvalidArgument},
		"long key":          {func(j *host.Job) { j.Key = strings.Repeat("n", queue.MaxNameBytes+1) }, host.InvalidArgument},
		"not JSON":          {func(j *host.Job) { j.Payload = []byte("{") }, host.InvalidArgument},
		"too late":          {func(j *host.Job) { j.NotBefore = time.Now().Add(queue.MaxDelay + time.Hour) }, host.InvalidArgument},
		"too large":         {func(j *host.Job) { j.Payload = []byte(`"` + strings.Repeat("x", queue.MaxPayloadBytes) + `"`) }, host.ResourceExhausted},
		"too long a tenant": {func(j *host.Job) { j.Scope.Tenant = strings.Repeat("t", kv.MaxPartitionBytes+1) }, host.InvalidArgument},
		"the index's name":  {func(j *host.Job) { j.Scope.Tenant = "agenthost/queue" }, host.InvalidArgument},
	} {
		job := jobOf("acme", "1")
		c.change(job)
		_, err := q.Enqueue(t.Context(), job)
		wantCode(t, name, err, c.code)
	}
	leave(t, q, jobOf("acme", "1"))
	_, err := q.Enqueue(t.Context(), jobOf("acme", "2"))
	wantCode(t, "one too many", err, host.ResourceExhausted)
	leave(t, q, jobOf("other", "1"))
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = q.Enqueue(t.Context(), jobOf("third", "1"))
	wantCode(t, "after Close", err, host.Unavailable)
	wantCode(t, "Start after Close", q.Drain(t.Context()), host.Unavailable)
	if err := q.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

func TestTriesAgainAndGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &log{}
		fail := map[string]error{
			"passing": errors.New("the line is dead"),
			"wrong":   host.Errorf(host.InvalidArgument, "no such street"),
			"asked":   &host.Error{Code: host.NotFound, Message: "not yet", Retryable: true},
		}
		began := time.Now()
		handlers := map[string]queue.Handler{"panics": func(context.Context, *host.Job) error { panic("oops") }}
		for name, err := range fail {
			handlers[name] = func(_ context.Context, job *host.Job) error {
				l.add("%s %d", name, job.Attempt)
				if job.Attempt == 3 && name == "asked" {
					return nil
				}
				return err
			}
		}
		q := start(t, testdriver.New(t), &queue.Options{Attempts: 3, Workers: 1}, handlers)
		for _, name := range []string{"passing", "wrong", "asked", "panics", "nobody"} {
			job := jobOf("acme", `{"name":"`+name+`"}`)
			job.Name = name
			leave(t, q, job)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		slices.Sort(l.lines)
		l.is(t, "attempts", "asked 1", "asked 2", "asked 3", "passing 1", "passing 2", "passing 3", "wrong 1")
		dead, err := q.Dead(t.Context(), "acme", 0)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]host.Code{}
		ids := map[string]string{}
		for _, d := range dead {
			got[fmt.Sprint(d.Name, d.Attempts)], ids[d.Name] = d.Error.Code, d.ID
			if text := d.Error.Message; d.Error.Code == host.Internal && text != "internal error" {
				t.Errorf("a tenant may read %q of job %s", text, d.Name) // decision 39: the log has the rest
			}
			if d.Died.Before(began) || len(d.Payload) == 0 || d.Scope.Tenant != "acme" {
				t.Errorf("dead job %+v", d)
			}
		}
		want := map[string]host.Code{"passing3": host.Internal, "wrong1": host.InvalidArgument, "panics3": host.Internal, "nobody3": host.NotFound}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("dead: %v, want %v", got, want)
		}
		waiting(t, q, "acme", 0)

		wantCode(t, "Retry of another tenant's", q.Retry(t.Context(), "other", ids["wrong"]), host.NotFound)
		if err := q.Drop(t.Context(), "acme", ids["panics"]); err != nil {
			t.Error(err)
		}
		wantCode(t, "Drop again", q.Drop(t.Context(), "acme", ids["panics"]), host.NotFound)
		q.Handle("nobody", func(_ context.Context, job *host.Job) error { l.add("nobody %d", job.Attempt); return nil })
		if err := q.Retry(t.Context(), "acme", ids["nobody"]); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if !slices.Contains(l.lines, "nobody 1") {
			t.Errorf("a job that is retried does not run: %q", l.lines)
		}
		if dead, err := q.Dead(t.Context(), "acme", 1); err != nil || len(dead) != 1 {
			t.Errorf("Dead(1) = %v, %v", dead, err)
		}
		if dead, err := q.Dead(t.Context(), "acme", 0); err != nil || len(dead) != 2 {
			t.Errorf("%d dead jobs are left (%v), want 2", len(dead), err)
		}
	})
}

func TestWaitsTwiceAsLong(t *testing.T) {
	synctest.Test(t, waitsTwiceAsLong)
}

func waitsTwiceAsLong(t *testing.T) {
	var at []time.Time
	q := start(t, testdriver.New(t), &queue.Options{Attempts: 6, FirstRetry: time.Second, LastRetry: 4 * time.Second},
		map[string]queue.Handler{"note": func(context.Context, *host.Job) error {
			at = append(at, time.Now())
			return errors.New("no")
		}})
	leave(t, q, jobOf("acme", "1"))
	time.Sleep(time.Hour)
	synctest.Wait()
	least := []time.Duration{0, time.Second, 2 * time.Second, 4 * time.Second, 4 * time.Second, 4 * time.Second}
	if len(at) != len(least) {
		t.Fatalf("%d attempts at %v, want %d", len(at), at, len(least))
	}
	for i, d := range least {
		if i == 0 {
			continue
		}
		if wait := at[i].Sub(at[i-1]); wait < d || wait > d+d/4+time.Millisecond {
			t.Errorf("attempt %d came %s after the one before, want %s and up to a quarter more", i+1, wait, d)
		}
	}
}

func TestOneJobAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &log{}
		driver := testdriver.New(t)
		q := start(t, driver, &queue.Options{KeepKeys: time.Hour}, note(l))
		keyed := func(tenant, name, key string) error {
			job := jobOf(tenant, `"`+tenant+name+key+`"`)
			job.Name, job.Key = name, key
			_, err := q.Enqueue(t.Context(), job)
			return err
		}
		q.Handle("other", note(l)["note"])
		for _, c := range []struct{ tenant, name, key string }{
			{"acme", "note", "a"}, {"acme", "note", "b"}, {"acme", "other", "a"}, {"globex", "note", "a"},
		} {
			if err := keyed(c.tenant, c.name, c.key); err != nil {
				t.Errorf("first %v: %v", c, err)
			}
			synctest.Wait()
		}
		wantCode(t, "again", keyed("acme", "note", "a"), host.AlreadyExists)
		l.is(t, "done", `"acmenotea"`, `"acmenoteb"`, `"acmeothera"`, `"globexnotea"`)
		time.Sleep(2 * time.Hour)
		if err := keyed("acme", "note", "a"); err != nil {
			t.Errorf("when the key is forgotten: %v", err)
		}
		if err := keyed("acme", "note", "c"); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		page, err := driver.Scan(t.Context(), "acme", kv.Range{Prefix: kv.NewKey("queue")})
		if err != nil || len(page.Entries) != 4 {
			t.Errorf("%d entries are left (%v): keys are not forgotten", len(page.Entries), err)
		}
	})
}

func TestOneKeyAtOnce(t *testing.T) {
	l := &log{}
	q := start(t, testdriver.New(t), nil, note(l))
	var wg sync.WaitGroup
	var mu sync.Mutex
	codes := map[host.Code]int{}
	for range 16 {
		wg.Go(func() {
			job := jobOf("acme", "1")
			job.Key = "k"
			_, err := q.Enqueue(context.Background(), job)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				codes["taken"]++
			} else {
				codes[host.CodeOf(err)]++
			}
		})
	}
	wg.Wait()
	if err := q.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if codes["taken"] != 1 || codes[host.AlreadyExists] != 15 {
		t.Errorf("16 at once: %v", codes)
	}
	l.is(t, "done", "1")
}

func TestTenantsShareTheWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		running, most := map[string]int{}, map[string]int{}
		var order []string
		q := start(t, testdriver.New(t), &queue.Options{Workers: 4}, map[string]queue.Handler{"note": func(ctx context.Context, job *host.Job) error {
			mu.Lock()
			tenant := job.Scope.Tenant
			running[tenant]++
			most[tenant] = max(most[tenant], running[tenant])
			order = append(order, tenant)
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			defer mu.Unlock()
			running[tenant]--
			return nil
		}})
		for range 20 {
			leave(t, q, jobOf("loud", "1"))
		}
		synctest.Wait()
		for range 2 {
			leave(t, q, jobOf("quiet", "1"))
		}
		synctest.Wait()
		mu.Lock()
		if !slices.Contains(order, "quiet") {
			t.Errorf("a tenant waits behind another's twenty jobs: %v", order)
		}
		if most["loud"] != 2 {
			t.Errorf("one tenant alone has %d of 4 workers, want 2", most["loud"])
		}
		mu.Unlock()
		time.Sleep(time.Minute)
		waiting(t, q, "loud", 0)
		waiting(t, q, "quiet", 0)
	})
}

func TestSerialJobsAreApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &log{}
		q := start(t, testdriver.New(t), &queue.Options{Workers: 8}, map[string]queue.Handler{"note": func(_ context.Context, job *host.Job) error {
			l.add("%s begins", job.Payload)
			time.Sleep(time.Second)
			l.add("%s ends", job.Payload)
			return nil
		}})
		leaveInSerial(t, q, q, q)
		time.Sleep(time.Minute)
		l.is(t, "serial", "0 begins", "0 ends", "1 begins", "1 ends", "2 begins", "2 ends")
	})
}

func TestCloseGivesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		driver := testdriver.New(t)
		q := start(t, driver, nil, map[string]queue.Handler{"note": func(ctx context.Context, _ *host.Job) error {
			<-ctx.Done()
			return ctx.Err()
		}})
		leave(t, q, jobOf("acme", "1"))
		synctest.Wait()
		if err := q.Close(); err != nil {
			t.Fatal(err)
		}
		l := &log{}
		again := start(t, driver, nil, map[string]queue.Handler{"note": func(_ context.Context, job *host.Job) error {
			l.add("attempt %d", job.Attempt)
			return nil
		}})
		synctest.Wait()
		l.is(t, "the next process", "attempt 1")
		waiting(t, again, "acme", 0)
	})
}

func TestTimeoutIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := start(t, testdriver.New(t), &queue.Options{Timeout: time.Minute, Attempts: 1, Lease: 10 * time.Second},
			map[string]queue.Handler{"note": func(ctx context.Context, _ *host.Job) error {
				<-ctx.Done()
				return ctx.Err()
			}})
		leave(t, q, jobOf("acme", "1"))
		time.Sleep(2 * time.Minute)
		dead, err := q.Dead(t.Context(), "acme", 0)
		if err != nil || len(dead) != 1 || dead[0].Error.Code != host.DeadlineExceeded || dead[0].Attempts != 1 {
			t.Errorf("dead: %+v, %v", dead, err)
		}
	})
}

func TestOldDeadJobsGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := start(t, testdriver.New(t), &queue.Options{MaxDeadLetters: 2, Workers: 1}, map[string]queue.Handler{
			"note": func(context.Context, *host.Job) error { return host.Errorf(host.InvalidArgument, "no") }})
		for i := range 4 {
			leave(t, q, jobOf("acme", fmt.Sprint(i)))
			time.Sleep(time.Second)
		}
		dead, err := q.Dead(t.Context(), "acme", 0)
		if err != nil || len(dead) != 2 || string(dead[0].Payload) != "3" || string(dead[1].Payload) != "2" {
			t.Errorf("dead: %+v, %v", dead, err)
		}
	})
}

// runWith runs an agent whose tool leaves a job, in a thread.
func runWith(t *testing.T, q *queue.Queue, history any, after hosttest.Reply, discard bool) (*host.RunResult, error) {
	t.Helper()
	remember := host.NewTool("remember", "leaves a job", func(ctx context.Context, call *host.Call, _ struct{}) (string, error) {
		return host.Enqueue(ctx, "note", call.Scope.Thread, &host.EnqueueOptions{Key: call.IdempotencyKey})
	}, nil)
	agent := testhost.NewAgent(t, "clerk", &host.AgentOptions{Description: "keeps notes", Tools: []*host.Tool{remember}, Model: hosttest.NewModel(hosttest.Call("remember", `{}`), after)})
	h := testhost.NewHistory(t, history)
	net, err := host.NewNetwork("net", []*host.Agent{agent}, &host.NetworkOptions{DiscardOnFailure: discard, Router: host.InOrder("all", "clerk")})
	if err != nil {
		t.Fatal(err)
	}
	server := testhost.NewSingle(t, &host.Options{History: h, Queue: q})
	return server.Run(t.Context(), net, &host.Request{Tenant: "acme", Thread: "t1", Text: "remember me"})
}

func TestJobsOfARunWaitForItsTurn(t *testing.T) {
	for _, c := range []struct {
		name    string
		after   hosttest.Reply
		discard bool
		want    []string
	}{
		{"stored", hosttest.Say("done"), false, []string{`"t1"`}},
		{"failed and stored", hosttest.Fail(errors.New("no")), false, []string{`"t1"`}},
		{"discarded", hosttest.Fail(errors.New("no")), true, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &log{}
				driver := testdriver.New(t)
				store := threads.New(driver, nil)
				q := start(t, driver, nil, map[string]queue.Handler{"note": func(ctx context.Context, job *host.Job) error {
					if status, err := store.RunStatus(ctx, job.Scope); err != nil || status != host.RunEnded {
						t.Errorf("the job runs while the run is %q, %v", status, err)
					}
					l.add("%s", job.Payload)
					return nil
				}})
				if _, err := runWith(t, q, store, c.after, c.discard); (err != nil) != (c.after.Err != nil) {
					t.Fatalf("the run: %v", err)
				}
				synctest.Wait()
				l.is(t, c.name, c.want...)
				waiting(t, q, "acme", 0)
			})
		})
	}
}

func TestEnqueueOutsideOfARun(t *testing.T) {
	_, err := host.Enqueue(t.Context(), "note", 1, nil)
	wantCode(t, "outside of a run", err, host.FailedPrecondition)
	var enqueued error
	tool := host.NewTool("leave", "", func(ctx context.Context, _ *host.Call, _ struct{}) (string, error) {
		_, enqueued = host.Enqueue(ctx, "note", 1, nil)
		return "", nil
	}, nil)
	agent := testhost.NewAgent(t, "clerk", &host.AgentOptions{Tools: []*host.Tool{tool}, Model: hosttest.NewModel(hosttest.Call("leave", `{}`), hosttest.Say("ok"))})
	h := testhost.NewSingle(t, nil)
	if _, err := h.Run(t.Context(), agent, &host.Request{Text: "go"}); err != nil {
		t.Fatal(err)
	}
	wantCode(t, "without a queue", enqueued, host.FailedPrecondition)
}

func TestJobsOfAProcessThatDied(t *testing.T) {
	for _, c := range []struct {
		name   string
		status host.RunStatus
		err    error
		done   []string
		dead   int
		waits  int
	}{
		{"its turn is stored", host.RunEnded, nil, []string{`"t1"`}, 0, 0},
		{"it can be resumed", host.RunOpen, nil, nil, 0, 1},
		{"it is lost", "", host.Errorf(host.NotFound, "no run"), nil, 1, 0},
		{"nobody can say now", "", errors.New("no line"), nil, 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				driver := testdriver.New(t)
				died := &mortal{Driver: driver}
				left := queue.New(died, nil)
				h, cancel := held(t, left)
				died.die()
				defer func() { _ = left.Close() }()
				l := &log{}
				var mu sync.Mutex
				status, failure := c.status, c.err
				q := start(t, driver, &queue.Options{RunStatus: func(_ context.Context, s host.Scope) (host.RunStatus, error) {
					mu.Lock()
					defer mu.Unlock()
					if s.Run != "run-1" || s.Thread != "t1" || s.Tenant != "acme" {
						t.Errorf("asked for %+v", s)
					}
					return status, failure
				}}, note(l))
				synctest.Wait()
				l.is(t, "before its lease is over")
				time.Sleep(queue.DefaultLease + queue.DefaultLease/2)
				synctest.Wait()
				l.is(t, c.name, c.done...)
				waiting(t, q, "acme", c.waits)
				dead, err := q.Dead(t.Context(), "acme", 0)
				if err != nil || len(dead) != c.dead {
					t.Errorf("dead: %v, %v, want %d", dead, err, c.dead)
				}
				if c.waits > 0 {
					mu.Lock()
					status, failure = host.RunEnded, nil
					mu.Unlock()
					time.Sleep(2 * time.Minute)
					synctest.Wait()
					l.is(t, "later", `"t1"`)
				}
				cancel()
				<-h
			})
		})
	}
}

// held leaves a job in a run that does not end before cancel is called; the
// channel is closed when it has.
func held(t *testing.T, q *queue.Queue) (over chan struct{}, cancel func()) {
	t.Helper()
	release, over, ready := make(chan struct{}), make(chan struct{}), make(chan struct{})
	tool := host.NewTool("leave", "", func(ctx context.Context, _ *host.Call, _ struct{}) (string, error) {
		_, err := q.Enqueue(ctx, &host.Job{Name: "note", Payload: []byte(`"t1"`), Scope: host.Scope{Tenant: "acme", Thread: "t1", Run: "run-1"}})
		close(ready)
		<-release
		return "", err
	}, nil)
	agent := testhost.NewAgent(t, "clerk", &host.AgentOptions{Tools: []*host.Tool{tool}, Model: hosttest.NewModel(hosttest.Call("leave", `{}`), hosttest.Say("ok"))})
	h := testhost.NewSingle(t, &host.Options{Limits: host.Limits{ToolTimeout: 24 * time.Hour, RunTimeout: 24 * time.Hour}})
	go func() {
		defer close(over)
		_, _ = h.Run(context.Background(), agent, &host.Request{Tenant: "acme", Text: "go"})
	}()
	<-ready
	return over, sync.OnceFunc(func() { close(release) })
}

// What cannot be read, and what belongs to nothing, holds up nothing else.
func TestDamagedJobs(t *testing.T) {
	for name, record := range map[string][]byte{"damaged": {1, '{'}, "of a newer format": {9}, "of a newer layout": []byte("\x01" + `{"v":99}`), "gone": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				driver := testdriver.New(t)
				l := &log{}
				left := queue.New(driver, nil)
				id := leave(t, left, jobOf("acme", `"bad"`))
				held := kv.NewKey("queue", "held", "h")
				writes := []kv.Write{kv.Delete(kv.NewKey("queue", "job", id))}
				if record != nil {
					writes = []kv.Write{kv.Put(kv.NewKey("queue", "job", id), record), kv.Put(kv.NewKey("queue", "job", "h"), record), kv.Put(held, nil)}
				}
				if _, err := kv.Apply(t.Context(), driver, kv.Tx{Partition: "acme", Writes: writes}); err != nil {
					t.Fatal(err)
				}
				q := start(t, driver, &queue.Options{Workers: 1}, note(l))
				leave(t, q, jobOf("acme", `"good"`))
				if err := q.Drain(t.Context()); err != nil {
					t.Fatal(err)
				}
				l.is(t, "done", `"good"`)
			})
		})
	}
}
