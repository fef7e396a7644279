package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/internal/kverror"
	"github.com/agenthost/agenthost/host/kv"
)

// The defaults of [Options].
const (
	DefaultWorkers    = 4
	DefaultOfTenant   = 10_000
	DefaultDead       = 1_000
	DefaultAttempts   = 8
	DefaultFirstRetry = time.Second
	DefaultLastRetry  = 5 * time.Minute
	DefaultTimeout    = 5 * time.Minute
	DefaultLease      = 30 * time.Second
	DefaultKeepKeys   = 7 * 24 * time.Hour
	DefaultHeldPoll   = time.Minute
)

// The bounds of a job.
const (
	MaxPayloadBytes = 320 << 10 // of JSON
	MaxNameBytes    = 512       // of a handler's name, a key and a serial each
	MaxDelay        = 7 * 24 * time.Hour
	maxErrorBytes   = 1 << 10 // of what is kept of an error's text
)

// Options are the optional parts of a queue. A zero field is its default.
type Options struct {
	Workers    int           // jobs running at one time (4)
	OfTenant   int           // jobs of one tenant, waiting or running (10,000)
	Dead       int           // dead jobs of one tenant that are kept (1,000)
	Attempts   int           // of one job (8)
	FirstRetry time.Duration // after the first failure; each later wait is twice as long (1 s)
	LastRetry  time.Duration // at most (5 min)
	Timeout    time.Duration // of one attempt (5 min)
	Lease      time.Duration // how soon after a crash what the process held is taken by another (30 s)
	KeepKeys   time.Duration // how long a key is known, from when its job was left (7 days)

	// RunStatus says where a run stands that left jobs and whose process ended
	// before it said itself whether its turn is stored: [host.RunOpen] if it is not
	// over, and then its jobs wait on; any other status if its turn is stored, and
	// then they run; code not_found if neither, and then they are dead. A method of
	// threads.Store does. It is asked when the lease of that process is over, and
	// every HeldPoll (1 min) while it has no answer. Without it such jobs are dead.
	RunStatus func(ctx context.Context, scope host.Scope) (host.RunStatus, error)
	HeldPoll  time.Duration

	Logger *slog.Logger // told of jobs that fail; nil discards
}

func (o Options) withDefaults() Options {
	for _, f := range []struct {
		v *int
		d int
	}{{&o.Workers, DefaultWorkers}, {&o.OfTenant, DefaultOfTenant}, {&o.Dead, DefaultDead}, {&o.Attempts, DefaultAttempts}} {
		if *f.v <= 0 {
			*f.v = f.d
		}
	}
	for _, f := range []struct {
		v *time.Duration
		d time.Duration
	}{
		{&o.FirstRetry, DefaultFirstRetry}, {&o.LastRetry, DefaultLastRetry}, {&o.Timeout, DefaultTimeout},
		{&o.Lease, DefaultLease}, {&o.KeepKeys, DefaultKeepKeys}, {&o.HeldPoll, DefaultHeldPoll},
	} {
		if *f.v <= 0 {
			*f.v = f.d
		}
	}
	if o.RunStatus == nil {
		o.RunStatus = func(context.Context, host.Scope) (host.RunStatus, error) {
			return "", host.Errorf(host.NotFound, "nobody knows what became of a run")
		}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Handler does a job. It must bear being called again for one that it has done.
// It heeds its context, which ends after Options.Timeout and when the queue is
// closed. Its error decides what follows: see the package.
type Handler func(ctx context.Context, job *host.Job) error

// Queue is a durable queue. It is safe for concurrent use.
type Queue struct {
	driver   kv.Driver
	id       string // of this holder
	opts     Options
	ctx      context.Context // of the handlers
	cancel   context.CancelFunc
	wake     chan struct{} // something may be due
	workers  sync.WaitGroup
	stopped  chan struct{} // closed when the dispatcher has ended
	starting sync.Once

	holding sync.Mutex
	holder  bool // other processes know that this one holds jobs

	mu       sync.Mutex
	handlers map[string]Handler
	tenants  map[string]*tenant
	loading  map[string]chan struct{} // tenants that are being read
	runs     map[runKey]*heldJobs
	orphans  map[runKey][]heldJob // of runs whose process ended
	peers    map[string]*peer     // other holders
	shared   bool                 // there were any
	free     int                  // workers
	served   uint64               // counts who was served
	idle     chan struct{}        // closed, and made anew, whenever less is going on
	started  bool
	closed   bool
}

var _ host.Enqueuer = (*Queue)(nil)

// New returns a queue on a driver, which stays the caller's to close, after the
// queue. Jobs can be left at once; they run from Start on.
func New(driver kv.Driver, opts *Options) *Queue {
	if opts == nil {
		opts = &Options{}
	}
	q := &Queue{driver: kv.Checked(driver), id: host.NewID(), opts: opts.withDefaults(), wake: make(chan struct{}, 1), stopped: make(chan struct{}),
		handlers: map[string]Handler{}, tenants: map[string]*tenant{}, loading: map[string]chan struct{}{},
		runs: map[runKey]*heldJobs{}, orphans: map[runKey][]heldJob{}, peers: map[string]*peer{}, idle: make(chan struct{})}
	q.free = q.opts.Workers
	q.ctx, q.cancel = context.WithCancel(context.Background())
	return q
}

// Handle has jobs of a name done by fn. A job whose name nobody handles is tried
// again later, like one that fails. Handle before Start.
func (q *Queue) Handle(name string, fn Handler) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.handlers[name] = fn
}

// Start finds what earlier processes have left and begins to run jobs. ctx is for
// the finding alone. A second Start does nothing.
func (q *Queue) Start(ctx context.Context) error {
	var err error
	q.starting.Do(func() { err = q.start(ctx) })
	return err
}

func (q *Queue) start(ctx context.Context) error {
	if err := q.beAHolder(ctx); err != nil {
		return err
	}
	if _, err := q.observe(ctx); err != nil {
		return err
	}
	for e, err := range kv.All(ctx, q.driver, indexPartition, kv.Range{Prefix: tenantKeys, Limit: kv.MaxScanLimit}) {
		if err != nil {
			return kverror.Wrap(err, "start the queue")
		}
		rest, _ := e.Key.CutPrefix(tenantKeys)
		name, _, ok := rest.CutString()
		if !ok || name == "" {
			continue // not ours
		}
		if _, err := q.tenantIn(ctx, name, e.Revision); err != nil {
			return err
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return errClosed()
	}
	q.started = true
	q.workers.Go(q.watch)
	go q.dispatch()
	return nil
}

func errClosed() error {
	return &host.Error{Code: host.Unavailable, Message: "the queue is closed", Err: kv.ErrClosed}
}

// Close stops the handlers and waits for them. Jobs that were running are left
// for the next process as if they had not begun. It may be called twice.
func (q *Queue) Close() error {
	q.mu.Lock()
	q.closed = true
	started := q.started
	q.mu.Unlock()
	q.cancel()
	q.starting.Do(func() {}) // a Start that comes now does nothing
	if started {
		<-q.stopped
	}
	q.workers.Wait()
	return nil
}

// poke tells the dispatcher to look.
func (q *Queue) poke() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// Drain waits until nothing runs and nothing is due; what waits for a time, or
// for its run's turn, is not waited for. It returns ctx's error if that ends
// first.
func (q *Queue) Drain(ctx context.Context) error {
	for {
		q.mu.Lock()
		busy, idle := q.busy(), q.idle
		q.mu.Unlock()
		if !busy {
			return nil
		}
		select {
		case <-idle:
		case <-q.ctx.Done():
			return errClosed()
		case <-ctx.Done():
			return kverror.Wrap(ctx.Err(), "drain the queue")
		}
	}
}

// busy reports whether a job runs or is due, or may be. The mutex is held.
func (q *Queue) busy() bool {
	now := time.Now()
	for _, t := range q.tenants {
		if len(t.running) > 0 || t.looking || t.dueAt(now) {
			return true
		}
	}
	return false
}

// settled tells those who wait in Drain to look. The mutex is held.
func (q *Queue) settled() {
	close(q.idle)
	q.idle = make(chan struct{})
}

// call runs a handler. Its panic is its failure.
func (q *Queue) call(ctx context.Context, job *host.Job) (err error) {
	q.mu.Lock()
	handle := q.handlers[job.Name]
	q.mu.Unlock()
	if handle == nil {
		return &host.Error{Code: host.NotFound, Message: "nobody handles jobs of the name " + quoted(job.Name), Retryable: true}
	}
	defer func() {
		if p := recover(); p != nil {
			q.opts.Logger.Error("panic in a job", "job", job.ID, "name", job.Name, "panic", p, "stack", string(debug.Stack()))
			err = host.Errorf(host.Internal, "the handler panicked") // what it said is in the log
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, q.opts.Timeout)
	defer cancel()
	return handle(ctx, job)
}

func quoted(s string) string { return fmt.Sprintf("%.64q", s) }

// checkJob refuses what can be no job.
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
