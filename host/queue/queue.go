package queue

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/cluster"
	"github.com/agenthost/agenthost/host/internal/defaults"
	"github.com/agenthost/agenthost/host/internal/kverror"
	"github.com/agenthost/agenthost/host/internal/retry"
	"github.com/agenthost/agenthost/host/kv"
)

// The defaults of [Options].
const (
	DefaultWorkers        = 4
	DefaultMaxPerTenant   = 10_000
	DefaultMaxBytes       = 64 << 20
	DefaultMaxDeadLetters = 1_000
	DefaultAttempts       = 8
	DefaultFirstRetry     = time.Second
	DefaultLastRetry      = 5 * time.Minute
	DefaultTimeout        = 5 * time.Minute
	DefaultLease          = 30 * time.Second
	DefaultKeepKeys       = 7 * 24 * time.Hour
	DefaultHeldPoll       = time.Minute
)

// The bounds of a job.
const (
	MaxPayloadBytes = 320 << 10 // of JSON
	MaxNameBytes    = 512       // of a handler's name, a key and a serial each
	MaxDelay        = 7 * 24 * time.Hour
	maxErrorBytes   = 1 << 10 // of the stored text of an error
	maxJobBytes     = MaxPayloadBytes + 3*MaxNameBytes
)

// Options are the optional parts of a queue. A zero field is its default.
type Options struct {
	Workers        int           // jobs running at one time (4)
	MaxPerTenant   int           // jobs of one tenant, waiting or running (10,000)
	MaxBytes       int64         // of these jobs together: payloads, names, keys and serials (64 MiB)
	MaxDeadLetters int           // dead jobs of one tenant that are kept (1,000)
	Attempts       int           // of one job (8)
	FirstRetry     time.Duration // after the first failure; each later wait is twice as long (1 s)
	LastRetry      time.Duration // at most (5 min)
	Timeout        time.Duration // of one attempt (5 min)
	Lease          time.Duration // after a crash another process takes the held jobs when it has passed (30 s)
	KeepKeys       time.Duration // how long a key is known, from when its job was left (7 days)

	// RunStatus says where a run stands that left jobs and whose process ended
	// before it said itself whether its turn is stored: [host.RunOpen] if it is not
	// over, and then its jobs wait on; any other status if its turn is stored, and
	// then they run; code not_found if neither, and then they are dead. A method of
	// threads.Store does. It is asked when the lease of that process is over, and
	// every HeldPoll (1 min) while it has no answer. Without it such jobs are dead.
	RunStatus func(ctx context.Context, scope host.Scope) (host.RunStatus, error)
	HeldPoll  time.Duration

	// Member is this process among those that share the store; its lease then is that of
	// the queue. The caller closes it after the queue. Default: one with Lease.
	Member *cluster.Member

	Logger *slog.Logger // receives failures of jobs; nil discards
}

func (o Options) withDefaults() Options {
	defaults.Set(&o.Workers, DefaultWorkers)
	defaults.Set(&o.MaxPerTenant, DefaultMaxPerTenant)
	defaults.Set(&o.MaxBytes, DefaultMaxBytes)
	defaults.Set(&o.MaxDeadLetters, DefaultMaxDeadLetters)
	defaults.Set(&o.Attempts, DefaultAttempts)
	defaults.Set(&o.FirstRetry, DefaultFirstRetry)
	defaults.Set(&o.LastRetry, DefaultLastRetry)
	defaults.Set(&o.Timeout, DefaultTimeout)
	if o.Member != nil {
		o.Lease = o.Member.Lease()
	}
	defaults.Set(&o.Lease, DefaultLease)
	defaults.Set(&o.KeepKeys, DefaultKeepKeys)
	defaults.Set(&o.HeldPoll, DefaultHeldPoll)
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

// Handler does a job. It must tolerate a second call for a job that it has
// done. It heeds its context, which ends after Options.Timeout and when the
// queue is closed. Its error decides about the next attempt: see the package.
type Handler func(ctx context.Context, job *host.Job) error

// Queue is a durable queue. It is safe for concurrent use.
type Queue struct {
	opts       Options
	store      *jobStore
	life       *lifetime
	schedule   *schedule
	holders    *cluster.Member
	ownMember  bool // Close closes it
	dead       *deadLetters
	held       *heldRuns
	recovery   *recovery
	dispatcher *dispatcher
	starting   sync.Once
}

var _ host.Enqueuer = (*Queue)(nil)

// New returns a queue on a driver, which the caller closes after the queue. Jobs can be
// added at once; they run from Start on.
func New(driver kv.Driver, opts *Options) *Queue {
	if opts == nil {
		opts = &Options{}
	}
	o := opts.withDefaults()
	driver = kv.Checked(driver)

	q := &Queue{opts: o, life: newLifetime(), holders: o.Member}
	if q.holders == nil {
		q.holders, _ = cluster.New(driver, &cluster.Options{ID: host.NewID(), Lease: o.Lease, Logger: o.Logger}) // it fails for a negative lease alone
		q.ownMember = true
	}
	q.store = &jobStore{driver: driver, holder: q.holders.ID(), keepKeys: o.KeepKeys}
	q.schedule = newSchedule(q.store, q.life, &o)
	q.dead = &deadLetters{store: q.store, schedule: q.schedule, max: o.MaxDeadLetters, logger: o.Logger}
	q.held = &heldRuns{store: q.store, life: q.life, schedule: q.schedule, dead: q.dead, runStatus: o.RunStatus, logger: o.Logger,
		runs: map[runKey]*heldJobs{}, orphans: map[runKey]*orphanJobs{}}
	q.recovery = &recovery{store: q.store, life: q.life, schedule: q.schedule, holders: q.holders, held: q.held, logger: o.Logger, poll: o.HeldPoll}
	claims := &claims{store: q.store, life: q.life, schedule: q.schedule, holders: q.holders, dead: q.dead, lease: o.Lease,
		logger:  o.Logger,
		backoff: retry.Backoff{First: o.FirstRetry, Last: o.LastRetry, Later: 0.25}}
	q.dispatcher = &dispatcher{life: q.life, schedule: q.schedule, claims: claims, attempts: o.Attempts, timeout: o.Timeout, pause: o.FirstRetry,
		logger: o.Logger, stopped: make(chan struct{}), handlers: map[string]Handler{}}
	return q
}

// Handle sets the handler of the jobs of a name. A job without a handler is tried again
// later, like one that fails. Handle before Start.
func (q *Queue) Handle(name string, fn Handler) { q.dispatcher.handle(name, fn) }

// Start finds the jobs that earlier processes have left and begins to run jobs. ctx is
// for the search alone. A second Start does nothing.
func (q *Queue) Start(ctx context.Context) error {
	var err error
	q.starting.Do(func() { err = q.start(ctx) })
	return err
}

func (q *Queue) start(ctx context.Context) error {
	if err := q.register(ctx); err != nil {
		return err
	}
	if _, err := q.holders.Observe(ctx); err != nil {
		return err
	}
	err := q.store.indexed(ctx, "start the queue", func(partition string, revision uint64) error {
		_, err := q.schedule.tenant(ctx, partition, revision)
		return err
	})
	if err != nil {
		return err
	}
	if err := q.life.start(q.recovery.watch); err != nil {
		return err
	}
	go q.dispatcher.run() // Close waits for its end first: it begins the other goroutines
	return nil
}

// register makes this process one that holds jobs.
func (q *Queue) register(ctx context.Context) error {
	if q.life.isClosed() {
		return errClosed()
	}
	return q.holders.Register(ctx)
}

func errClosed() error {
	return &host.Error{Code: host.Unavailable, Message: "the queue is closed", Err: kv.ErrClosed}
}

// Close stops the handlers and waits for them. Jobs that were running stay for the
// next process as if they had not begun. It may be called twice.
func (q *Queue) Close() error {
	started := q.life.close()
	q.starting.Do(func() {}) // a Start that comes now does nothing
	if started {
		<-q.dispatcher.stopped
	}
	q.life.goroutines.Wait()
	if q.ownMember {
		return q.holders.Close()
	}
	return nil
}

// Drain waits until no job runs and none is due; jobs that wait for a time, or for
// their run's turn, are not waited for. It returns ctx's error if that ends first.
func (q *Queue) Drain(ctx context.Context) error {
	for {
		busy, progress := q.schedule.busy()
		if !busy {
			return nil
		}
		select {
		case <-progress:
		case <-q.life.ctx.Done():
			return errClosed()
		case <-ctx.Done():
			return kverror.Wrap(ctx.Err(), "drain the queue")
		}
	}
}

func quoted(s string) string { return fmt.Sprintf("%.64q", s) }
