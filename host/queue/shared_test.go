package queue_test

// Scenario: several processes share one store; some stall, and clocks jump.

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/queue"
	"github.com/agenthost/agenthost/internal/testdriver"
)

// mortal is the driver of a process that dies, or stalls: meanwhile it writes
// nothing.
type mortal struct {
	kv.Driver
	dead atomic.Bool
}

func (m *mortal) die() { m.dead.Store(true) }

// Commit implements [kv.Driver].
func (m *mortal) Commit(ctx context.Context, txs ...kv.Tx) []kv.Result {
	if !m.dead.Load() {
		return m.Driver.Commit(ctx, txs...)
	}
	results := make([]kv.Result, len(txs))
	for i := range results {
		results[i].Err = kv.ErrClosed
	}
	return results
}

// nobodyKnows is the RunStatus of runs whose turns are not stored.
func nobodyKnows(context.Context, host.Scope) (host.RunStatus, error) {
	return "", host.Errorf(host.NotFound, "no such run")
}

func noDead(t *testing.T, q *queue.Queue, tenant string) {
	t.Helper()
	if dead, err := q.Dead(t.Context(), tenant, 0); err != nil || len(dead) != 0 {
		t.Errorf("dead: %+v, %v", dead, err)
	}
}

// A run takes its time in one process while another begins and looks at what is
// there, for hours.
func TestJobsOfARunOfAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		driver := testdriver.New(t)
		l := &log{}
		opts := &queue.Options{RunStatus: nobodyKnows}
		a := start(t, driver, opts, note(l))
		over, finish := held(t, a)
		b := start(t, driver, opts, note(l))
		time.Sleep(3 * time.Hour)
		l.is(t, "while the run runs")
		noDead(t, b, "acme")
		waiting(t, b, "acme", 1)
		finish()
		<-over
		synctest.Wait()
		l.is(t, "after the run", `"t1"`)
		time.Sleep(time.Hour)
		l.is(t, "later", `"t1"`)
		noDead(t, b, "acme")
		waiting(t, a, "acme", 0)
		waiting(t, b, "acme", 0)
	})
}

// A process that was stopped for longer than its lease is taken for dead. What its
// run left runs all the same, when the run is stored.
func TestJobsOfARunOfAStalledProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		driver := testdriver.New(t)
		stalls := &mortal{Driver: driver}
		l := &log{}
		opts := &queue.Options{RunStatus: nobodyKnows}
		a := start(t, stalls, opts, note(l))
		over, finish := held(t, a)
		b := start(t, driver, opts, note(l))
		stalls.die()
		time.Sleep(time.Hour)
		if dead, err := b.Dead(t.Context(), "acme", 0); err != nil || len(dead) != 1 {
			t.Errorf("dead: %v, %v, want the job of the run", dead, err)
		}
		stalls.dead.Store(false)
		finish()
		<-over
		synctest.Wait()
		l.is(t, "after the run", `"t1"`)
		noDead(t, a, "acme")
		waiting(t, a, "acme", 0)
	})
}

// The handler of a job that its process cannot hold is told before another begins.
func TestAStalledProcessStopsItsHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		driver := testdriver.New(t)
		stalls := &mortal{Driver: driver}
		l := &log{}
		handler := func(who string) map[string]queue.Handler {
			return map[string]queue.Handler{"note": func(ctx context.Context, job *host.Job) error {
				l.add("%s begins", who)
				select {
				case <-ctx.Done():
					l.add("%s stops: %s", who, host.CodeOf(context.Cause(ctx)))
					return ctx.Err()
				case <-time.After(2 * time.Minute):
					l.add("%s ends", who)
					return nil
				}
			}}
		}
		leave(t, start(t, stalls, nil, handler("a")), jobOf("acme", "1"))
		synctest.Wait()
		b := start(t, driver, nil, handler("b"))
		time.Sleep(time.Second)
		stalls.die()
		time.Sleep(time.Hour)
		l.is(t, "two processes", "a begins", "a stops: conflict", "b begins", "b ends")
		waiting(t, b, "acme", 0)
	})
}

// sign is a holder's sign of life, as the store has it.
func sign(t *testing.T, driver kv.Driver, holder string, until time.Time) {
	t.Helper()
	raw, err := kv.EncodeRecord(map[string]any{"v": 1, "until": until, "lease": queue.DefaultLease})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Apply(t.Context(), driver, kv.Tx{Partition: "agenthost/queue", Writes: []kv.Write{kv.Put(kv.NewKey("queue", "holder", holder), raw)}}); err != nil {
		t.Fatal(err)
	}
}

// running is a job that a holder runs, whose lease was over an hour ago by the
// clock that has jumped since.
func running(t *testing.T, driver kv.Driver, holder string) {
	t.Helper()
	due := time.Now().Add(-time.Hour)
	raw, err := kv.EncodeRecord(map[string]any{"v": 1, "id": "j", "name": "note", "payload": 1, "left": due, "due": due, "attempts": 1,
		"running": true, "holder": holder, "scope": host.Scope{Tenant: "acme"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Apply(t.Context(), driver, kv.Tx{Partition: "acme", Writes: []kv.Write{
		kv.Put(kv.NewKey("queue", "job", "j"), raw), kv.Put(kv.NewKey("queue", "due").WithUint(uint64(due.UnixMilli())).With("j"), nil)}}); err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Apply(t.Context(), driver, kv.Tx{Partition: "agenthost/queue", Writes: []kv.Write{kv.Put(kv.NewKey("queue", "tenant", "acme"), nil)}}); err != nil {
		t.Fatal(err)
	}
}

// The clock of the machine jumps: whoever lives keeps what it holds, as long as it
// says so, and whoever does not keeps nothing.
func TestClocksThatJump(t *testing.T) {
	for _, c := range []struct {
		name   string
		until  time.Duration // of the signs, by a clock that was set meanwhile
		signs  int           // one every third of a lease
		renews bool          // the job's own lease as well
		after  time.Duration // when the job is taken
	}{
		{"forward, and it renews all", -time.Hour, 30, true, 300*time.Second + 30*time.Second},
		{"forward, and the job is lost", time.Hour, 30, false, 30 * time.Second},
		{"backward, and it is dead", 24 * time.Hour, 1, false, 30 * time.Second},
		{"not at all, and it is dead", -time.Minute, 1, false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				driver := testdriver.New(t)
				var taken atomic.Int64
				first := c.until
				if c.signs > 1 {
					first = time.Minute // it was seen to live before the clock jumped
				}
				sign(t, driver, "a", time.Now().Add(first))
				running(t, driver, "a")
				began := time.Now()
				start(t, driver, nil, map[string]queue.Handler{"note": func(context.Context, *host.Job) error {
					taken.Store(int64(time.Since(began)))
					return nil
				}})
				for range c.signs {
					time.Sleep(queue.DefaultLease / 3)
					if taken.Load() > 0 || c.signs == 1 {
						break
					}
					sign(t, driver, "a", time.Now().Add(c.until))
					if c.renews {
						running(t, driver, "a")
					}
				}
				time.Sleep(time.Hour)
				if got := time.Duration(taken.Load()); got < c.after || got > c.after+queue.DefaultLease+time.Second {
					t.Errorf("taken after %s, want %s or a little more", got, c.after)
				}
			})
		})
	}
}

func TestSerialJobsOfTwoProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		driver := testdriver.New(t)
		l := &log{}
		work := map[string]queue.Handler{"note": func(_ context.Context, job *host.Job) error {
			l.add("%s begins", job.Payload)
			time.Sleep(time.Minute)
			l.add("%s ends", job.Payload)
			return nil
		}}
		a, b := start(t, driver, nil, work), start(t, driver, nil, work)
		leaveInSerial(t, a, b, a, b)
		time.Sleep(10 * time.Minute)
		l.is(t, "serial", "0 begins", "0 ends", "1 begins", "1 ends", "2 begins", "2 ends", "3 begins", "3 ends")
		page, err := driver.Scan(t.Context(), "acme", kv.Range{Prefix: kv.NewKey("queue")})
		if err != nil || len(page.Entries) != 0 {
			t.Errorf("%v, %v are left", page.Entries, err)
		}
	})
}

// A process that could not write down the end of a job runs it again when its lease is
// over, although another job of the serial was due before.
func TestSerialAfterAnOutcomeThatIsNotWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &mortal{Driver: testdriver.New(t)}
		l := &log{}
		q := start(t, d, nil, map[string]queue.Handler{"note": func(_ context.Context, job *host.Job) error {
			time.Sleep(time.Second)
			l.add("%s, attempt %d", job.Payload, job.Attempt)
			return nil
		}})
		leaveInSerial(t, q, q)
		d.die()
		time.Sleep(2 * time.Second)
		d.dead.Store(false)
		time.Sleep(3 * queue.DefaultLease)
		l.is(t, "after the lease", "0, attempt 1", "0, attempt 2", "1, attempt 1")
		waiting(t, q, "acme", 0)
	})
}

// What one process leaves and another does counts for neither afterwards.
func TestLimitsOfTwoProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		driver := testdriver.New(t)
		l := &log{}
		a := queue.New(driver, &queue.Options{MaxPerTenant: 3})
		defer func() { _ = a.Close() }()
		start(t, driver, &queue.Options{Workers: 1}, note(l))
		for i := range 3 {
			leave(t, a, jobOf("acme", fmt.Sprint(i)))
			time.Sleep(2 * time.Millisecond)
		}
		time.Sleep(2 * queue.DefaultHeldPoll) // the other one looks
		if err := a.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * queue.DefaultHeldPoll)
		l.is(t, "done", "0", "1", "2")
		waiting(t, a, "acme", 0)
		leave(t, a, jobOf("acme", "3"))
	})
}

// A command has a dead job run again in the process that runs jobs.
func TestRetryFromAProcessThatRunsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		driver := testdriver.New(t)
		l := &log{}
		var works atomic.Bool
		q := start(t, driver, nil, map[string]queue.Handler{"note": func(_ context.Context, job *host.Job) error {
			if !works.Load() {
				return host.Errorf(host.InvalidArgument, "no")
			}
			l.add("%s", job.Payload)
			return nil
		}})
		id := leave(t, q, jobOf("acme", "1"))
		time.Sleep(time.Hour)
		works.Store(true)
		command := queue.New(driver, nil)
		if err := command.Retry(t.Context(), "acme", id); err != nil {
			t.Fatal(err)
		}
		if err := command.Close(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(queue.DefaultHeldPoll + queue.DefaultLease)
		l.is(t, "retried", "1")
	})
}

// TestProcessesOnOneStore has several processes leave jobs and run them, some of
// which die or stall, and holds that no job, and no two of one serial, run at one time in
// processes that live; that what was left is done; and that jobs of runs are done
// unless their process died.
func TestProcessesOnOneStore(t *testing.T) {
	rounds, failed := testdriver.Rounds(math.MaxInt, 25), false
	rapid.Check(t, func(rt *rapid.T) {
		if rounds--; rounds < 0 && !failed { // a failure is made smaller on any driver
			return
		}
		steps := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) processStep {
			return processStep{
				do:     rapid.SampledFrom([]string{"start", "die", "leave", "leave", "serial", "serial", "run", "wait", "close", "stall"}).Draw(rt, "do"),
				who:    rapid.IntRange(0, 2).Draw(rt, "who"),
				takes:  time.Duration(rapid.IntRange(1, 90_000).Draw(rt, "takes")) * time.Millisecond,
				serial: rapid.SampledFrom([]string{"x", "y"}).Draw(rt, "serial"),
			}
		}), 1, 25).Draw(rt, "steps")
		var w *processes
		synctest.Test(t, func(t *testing.T) {
			w = &processes{t: t, store: testdriver.New(t), running: map[string]*process{}, serials: map[string]*process{}, left: map[string]*process{}, done: map[string]int{}}
			for _, s := range steps {
				w.step(s)
			}
			w.end()
		})
		for _, wrong := range w.wrong {
			failed = true
			rt.Error(wrong)
		}
	})
}

type processStep struct {
	do     string
	who    int
	takes  time.Duration
	serial string
}

type processes struct {
	t     *testing.T
	store kv.Driver

	mu      sync.Mutex
	slots   [3]*process
	all     []*process
	runs    int
	running map[string]*process // by job
	serials map[string]*process // by serial, who runs one
	left    map[string]*process // by job; nil unless it is of a run
	done    map[string]int
	wrong   []string
	ends    sync.WaitGroup
}

type process struct {
	w    *processes
	d    *mortal
	q    *queue.Queue
	over bool

	stalled atomic.Bool // once, for a while
}

func (w *processes) wrongly(format string, args ...any) {
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

func (w *processes) step(s processStep) {
	p := w.slots[s.who]
	switch {
	case s.do == "wait":
		time.Sleep(s.takes)
	case p == nil:
		w.slots[s.who] = w.start()
	case s.do == "die":
		w.slots[s.who] = nil
		p.die()
	case s.do == "stall":
		p.stalled.Store(true)
		p.d.die()
		time.Sleep(s.takes)
		p.d.dead.Store(false)
	case s.do == "close":
		w.slots[s.who] = nil
		p.stop() // what of it runs is told to
		_ = p.q.Close()
	case s.do == "leave", s.do == "serial":
		job := jobOf("acme", fmt.Sprint(int64(s.takes)))
		if s.do == "serial" {
			job.Serial = s.serial
		}
		p.leave(context.Background(), job, nil)
	case s.do == "run":
		w.runs++
		p.run(fmt.Sprint("run-", w.runs), s.takes)
	}
	synctest.Wait()
}

func (w *processes) start() *process {
	p := &process{w: w, d: &mortal{Driver: w.store}}
	p.q = queue.New(p.d, &queue.Options{RunStatus: nobodyKnows, Attempts: 100})
	p.q.Handle("note", p.work)
	w.all = append(w.all, p)
	if err := p.q.Start(context.Background()); err != nil {
		w.wrongly("start: %v", err)
	}
	return p
}

func (p *process) leave(ctx context.Context, job *host.Job, run *process) {
	id, err := p.q.Enqueue(ctx, job)
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	if err == nil {
		p.w.left[id] = run
	}
}

// run is a run that leaves a job and ends when its time is over.
func (p *process) run(id string, takes time.Duration) {
	tool := host.NewTool("leave", "", func(ctx context.Context, _ *host.Call, _ struct{}) (string, error) {
		p.leave(ctx, &host.Job{Name: "note", Payload: []byte("1"), Scope: host.Scope{Tenant: "acme", Run: id}}, p)
		time.Sleep(takes)
		return "", nil
	}, nil)
	agent, err := host.NewAgent("clerk", &host.AgentOptions{Tools: []*host.Tool{tool}, Model: hosttest.NewModel(hosttest.Call("leave", `{}`), hosttest.Say("ok"))})
	if err != nil {
		p.w.wrongly("%v", err)
		return
	}
	h, err := host.New(&host.Options{SingleTenant: true, Limits: host.Limits{ToolTimeout: time.Hour}})
	if err != nil {
		p.w.wrongly("%v", err)
		return
	}
	p.w.ends.Go(func() { _, _ = h.Run(context.Background(), agent, &host.Request{Tenant: "acme", Text: "go"}) })
}

func (p *process) work(ctx context.Context, job *host.Job) error {
	var takes time.Duration
	if err := json.Unmarshal(job.Payload, &takes); err != nil {
		return err
	}
	if !p.begin(job) {
		return context.Canceled
	}
	select {
	case <-time.After(takes):
	case <-ctx.Done():
	}
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	if p.over {
		return context.Canceled
	}
	delete(p.w.running, job.ID)
	delete(p.w.serials, job.Serial)
	if ctx.Err() != nil && p.stalled.Load() {
		return ctx.Err()
	}
	if ctx.Err() != nil {
		p.w.wrongly("job %s was taken from a process that lives", job.ID)
		return ctx.Err()
	}
	p.w.done[job.ID]++
	return nil
}

func (p *process) begin(job *host.Job) bool {
	w := p.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.over {
		return false
	}
	if w.running[job.ID] != nil {
		w.wrongly("job %s runs in two processes", job.ID)
	}
	if job.Serial != "" && w.serials[job.Serial] != nil {
		w.wrongly("two jobs of serial %s run", job.Serial)
	}
	w.running[job.ID] = p
	if job.Serial != "" {
		w.serials[job.Serial] = p
	}
	return true
}

// die ends a process, which writes nothing any more.
func (p *process) die() {
	p.d.die()
	p.stop()
}

// stop says that nothing of a process runs any more.
func (p *process) stop() {
	w := p.w
	w.mu.Lock()
	defer w.mu.Unlock()
	p.over = true
	for _, runs := range []map[string]*process{w.running, w.serials} {
		maps.DeleteFunc(runs, func(_ string, by *process) bool { return by == p })
	}
}

// end gives what is left time to be done, by one that lives, and looks at what was.
func (w *processes) end() {
	w.ends.Wait()
	last := w.start()
	for range 180 { // minutes
		time.Sleep(time.Minute)
		n, err := last.q.Waiting(context.Background(), "acme")
		if err != nil {
			w.wrongly("%v", err)
		}
		if n == 0 {
			break
		}
	}
	for _, p := range w.all {
		p.stop()
		_ = p.q.Close()
	}
	for id, run := range w.left {
		if n := w.done[id]; n == 0 && (run == nil || !run.d.dead.Load() && !run.stalled.Load()) {
			w.wrongly("job %s was never done", id)
		}
	}
}

// A sign of life that cannot be read is one: of a newer version, for a lease.
func TestSignsOfLifeThatCannotBeRead(t *testing.T) {
	for name, value := range map[string][]byte{"damaged": {1, '{'}, "of a newer format": {9}, "empty": {}, "without a lease": []byte("\x01" + `{"v":1}`)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				driver := testdriver.New(t)
				if _, err := kv.Apply(t.Context(), driver, kv.Tx{Partition: "agenthost/queue", Writes: []kv.Write{kv.Put(kv.NewKey("queue", "holder", "a"), value)}}); err != nil {
					t.Fatal(err)
				}
				running(t, driver, "a")
				l := &log{}
				start(t, driver, nil, note(l))
				time.Sleep(queue.DefaultLease / 2)
				l.is(t, "before its lease is over")
				time.Sleep(2 * queue.DefaultLease)
				l.is(t, "after its lease", "1")
			})
		})
	}
}
