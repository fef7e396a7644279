package runs

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/cluster"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/defaults"
)

// The defaults of [Options].
const (
	DefaultKept       = 1024
	DefaultKeptFor    = time.Minute
	DefaultMaxRuns    = 10_000
	DefaultMaxEnded   = 1_000
	DefaultLeaveGrace = 15 * time.Second
	DefaultStartWait  = 250 * time.Millisecond
)

// Options are the optional parts of a registry. A zero field is its default.
type Options struct {
	Kept       int           // events of one run that are kept, and so the most that a reader may be behind (1,024)
	KeptFor    time.Duration // how long a run that has ended can be read (1 min)
	MaxRuns    int           // runs at one time (10,000)
	MaxEnded   int           // runs that have ended and are kept (1,000)
	LeaveGrace time.Duration // how long a run of LeaveCancels may be without a reader (15 s)
	StartWait  time.Duration // how long Start waits for a refusal or the first event (250 ms)

	// Target returns the network or agent of a name, for [Registry.Answer] of a run that
	// this registry did not start. Default: such a run cannot be answered here.
	Target func(name string) (host.Target, error)
	// Journal is where interrupted runs are found after their events are gone: the
	// journal of the host's runs. Default: they are not found. With a *[Journal] the
	// registry can Join its cluster.
	Journal host.Journal

	Logger *slog.Logger // receives failed takeovers; nil discards
}

func (o Options) withDefaults() Options {
	defaults.Set(&o.Kept, DefaultKept)
	defaults.Set(&o.KeptFor, DefaultKeptFor)
	defaults.Set(&o.MaxRuns, DefaultMaxRuns)
	defaults.Set(&o.MaxEnded, DefaultMaxEnded)
	defaults.Set(&o.LeaveGrace, DefaultLeaveGrace)
	defaults.Set(&o.StartWait, DefaultStartWait)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Registry holds the live runs of a host, and for some time those that have ended. It
// is safe for concurrent use.
type Registry struct {
	host    *host.Host
	opts    Options
	shared  *Journal      // nil unless the journal is one of a cluster
	stored  *eventStore   // of durable runs; nil if the journal has no store
	alone   *strandedRuns // nil in a cluster, whose members look for such runs themselves
	givenUp *givenUpRuns

	ctx        context.Context // the lifetime of the background work: ends with Drain
	cancel     context.CancelFunc
	background sync.WaitGroup
	peers      *peers         // nil unless the journal is one of a cluster
	serving    sync.WaitGroup // of other hosts

	runs     *liveRuns
	woken    chan struct{} // receives when other hosts have handed runs over
	stranded atomic.Bool   // a run has ended here and not in the journal, or was not taken over

	mu       sync.Mutex
	draining bool
	joined   bool
	server   *http.Server // for other hosts; nil without ServePeers
}

// New returns a registry of runs of h. A nil *Options means the defaults. The caller closes the
// registry before the host's stores and plugins. Code invalid_argument without a host.
func New(h *host.Host, opts *Options) (*Registry, error) {
	if h == nil {
		return nil, host.Errorf(host.InvalidArgument, "a registry of runs has no host").WithHint("give it the one that runs them")
	}
	var o Options
	if opts != nil {
		o = *opts
	}
	r := &Registry{host: h, opts: o.withDefaults(), woken: make(chan struct{}, 1)}
	r.runs = newLiveRuns(&r.opts)
	r.stored = newEventStore(&r.opts)
	r.ctx, r.cancel = context.WithCancel(context.Background())
	if r.shared, _ = o.Journal.(*Journal); r.shared != nil {
		r.peers = newPeers(r.shared.member)
	}
	r.givenUp = newGivenUpRuns(&r.opts, r.shared, r.stored, r.runs)
	r.alone = newStrandedRuns(r)
	return r, nil
}

// StartOptions are the optional parts of [Registry.Start].
type StartOptions struct {
	OnLeave Leave // what the run does without readers; default: LeaveContinues

	// Run is the id of the run that Answer starts, for a caller that may have to answer again
	// without knowing whether it has: see [host.Request].Run. Start has that of its request.
	Run string

	// Key names the credential of the caller whose answers the run of Answer has, so that its use
	// is recorded by that: see [host.Request].Key. Default: that of the run which asked, as far
	// as this registry has it. Start has that of its request.
	Key string

	// Ended is called once with the run when it has ended, in the run's goroutine and before
	// Drain returns: not for one that was refused, nor for one that another process ends.
	Ended func(*Run)
}

// Start starts a run. It returns when the run has sent its first event, was refused, or
// has waited Options.StartWait, such as for other runs on its thread; a refusal after
// that is the end of the run. ctx bounds Start alone: the run has the values of ctx and
// not its end.
//
// The error of a request that cannot be run, or that a quota refuses, is that of
// [host.Host.Stream]; no run is registered then. Other codes: already_exists for
// a run that is registered, resource_exhausted (with Limit) at Options.MaxRuns,
// invalid_argument for an unknown OnLeave, unavailable after Drain or Close.
func (r *Registry) Start(ctx context.Context, target host.Target, req *host.Request, opts *StartOptions) (*Run, error) {
	run, attached, err := r.StartAttached(ctx, target, req, opts)
	if err != nil {
		return nil, err
	}
	attached.Detach() // the grace of a run that needs readers begins
	return run, nil
}

// begin starts a run that has the caller as a reader, who ends that by leave.
func (r *Registry) begin(ctx context.Context, target host.Target, req *host.Request, opts *StartOptions) (*liveRun, error) {
	if target == nil {
		return nil, host.Errorf(host.InvalidArgument, "start a run: there is no network or agent")
	}
	own := host.Request{}
	if req != nil {
		own = *req
	}
	var err error
	if own.Tenant, err = r.host.Tenant(own.Tenant); err != nil {
		return nil, err
	}
	isNew := own.Run == ""
	own.Run = cmp.Or(own.Run, r.NewID())
	own.Durable = own.Durable || own.Resume == own.Run
	l, err := newRun(&r.opts, target, &own, opts)
	if err != nil {
		return nil, err
	}
	runCtx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	l.cancel, l.isNew = cancel, isNew
	if err := r.runs.add(l); err != nil {
		cancel(nil)
		return nil, err
	}
	l.enter()
	go func() {
		growStack()
		l.follow(runCtx, r.host, &own, func() (*runLog, int64) {
			return r.stored.begin(context.WithoutCancel(runCtx), l, r.shared, own.Resume == own.Run)
		})
		if opts != nil && opts.Ended != nil && !l.refused() {
			opts.Ended(l.snapshot())
		}
		r.retire(l)
	}()
	return l, nil
}

// growStack gives the stack of a goroutine the size that a run needs, in one step: it would
// grow in four otherwise, each of which copies the frames so far. A run took 9 us of that.
//
//go:noinline
func growStack() byte {
	var frame [stackBytes]byte
	return frame[len(frame)-1]
}

// stackBytes is about the size of the stack of a run with a tool call.
const stackBytes = 12 << 10

// NewID returns an id for a run that this registry is to start, for a caller that has to know
// it before: it names this host if there are others, so that they need not look for the run.
func (r *Registry) NewID() string {
	if r.shared == nil {
		return host.NewID()
	}
	id := r.shared.member.ID()
	return host.NewID() + "." + id[:min(len(id), hostTagBytes)]
}

// newRun returns a run that has not begun.
func newRun(o *Options, target host.Target, req *host.Request, opts *StartOptions) (*liveRun, error) {
	l := &liveRun{target: target, begun: make(chan struct{}), over: make(chan struct{})}
	l.events.kept = o.Kept
	l.request = host.Request{Tenant: req.Tenant, Key: req.Key, AgentThread: req.AgentThread, Model: req.Model, Router: req.Router, Durable: req.Durable, ClientCheckpoint: req.ClientCheckpoint}
	l.info = Run{Tenant: req.Tenant, ID: req.Run, Thread: req.Thread, Branch: req.Branch, Target: target.Name(), Status: Running, Durable: req.Durable, Started: time.Now().UTC()}
	if opts == nil {
		return l, nil
	}
	switch opts.OnLeave {
	case "", LeaveContinues:
	case LeaveCancels:
		l.grace = o.LeaveGrace
	default:
		return nil, host.Errorf(host.InvalidArgument, "start a run: there is no choice %.40q for readers that leave", string(opts.OnLeave)).
			WithHint("use %s or %s", LeaveContinues, LeaveCancels)
	}
	return l, nil
}

// retire keeps a run that has ended for some time; one that was refused, or continues, is
// removed.
func (r *Registry) retire(l *liveRun) {
	where := continues
	if !l.refused() {
		where = r.fateOf(l)
	}
	switch where {
	case continues:
		l.storedLog().stop()
	case hasEnded:
		l.storedLog().end(l.last)
	}
	r.runs.retire(l, where == continues)
}

// fateOf says whether a run that has ended here has ended in the journal as well.
func (r *Registry) fateOf(l *liveRun) fate {
	if r.shared == nil {
		return r.alone.add(l)
	}
	if !r.shared.owns(l.info.Tenant, l.info.ID) {
		return hasEnded
	}
	r.shared.setOpen(host.RunRef{Tenant: l.info.Tenant, Run: l.info.ID}, false)
	r.stranded.Store(true)
	return continues
}

// awaitStart waits until it is known whether a run was refused.
func (r *Registry) awaitStart(ctx context.Context, l *liveRun) (*Run, error) {
	wait := time.NewTimer(r.opts.StartWait)
	defer wait.Stop()
	select {
	case <-l.begun:
	case <-wait.C:
	case <-ctx.Done():
	}
	if err := l.accept(); err != nil {
		r.runs.remove(l) // retire does that as well, and maybe later
		return nil, err
	}
	return l.snapshot(), nil
}

// find returns a run of this registry.
func (r *Registry) find(tenant, id string) (*liveRun, error) {
	tenant, err := r.host.Tenant(tenant)
	if err != nil {
		return nil, err
	}
	if l := r.runs.find(tenant, id); l != nil {
		return l, nil
	}
	return nil, errNoRun(id)
}

func errNoRun(id string) error {
	return host.Errorf(host.NotFound, "there is no run %.100q", id).WithHint("it never began, or ended some time ago; its thread has what it stored")
}

// Get returns a run, of this host or another one of the cluster, or a durable one that has
// ended from the store. Code not_found if the tenant has none of that id, unavailable if the
// hosts that may have it do not answer, or are gone.
func (r *Registry) Get(ctx context.Context, tenant, id string) (*Run, error) {
	l, err := r.find(tenant, id)
	if err == nil {
		return l.snapshot(), nil
	}
	info, _, err := r.elsewhere(ctx, http.MethodGet, "/run", tenant, id, err)
	if err != nil {
		return r.stored.get(ctx, tenant, id, err)
	}
	return info, nil
}

// elsewhere sends a request about a run that is not found here to the host that has it.
func (r *Registry) elsewhere(ctx context.Context, method, path, tenant, id string, missing error) (*Run, cluster.Peer, error) {
	if r.peers == nil || host.CodeOf(missing) != host.NotFound {
		return nil, cluster.Peer{}, missing
	}
	tenant, err := r.host.Tenant(tenant)
	if err != nil {
		return nil, cluster.Peer{}, err
	}
	return r.peers.run(ctx, method, path, tenant, id)
}

// Events yields the run's events from number from on, each as soon as it has happened,
// in their order and without gaps, and ends with the run: with the run's error, if that
// failed. Its own errors are not_found, resource_exhausted for a reader that is more
// than Options.Kept events behind (its hint names the first event that is kept), and
// that of ctx; of a run on another host also unavailable, if that host ends while it
// is read. Events of durable runs that the memory has no longer are read from the store of
// the journal: see [MaxStoredEvents], and "Durable runs" in the package documentation for
// numbers after a takeover. Each call reads independently: leaving the loop, or falling behind,
// affects the run only by its [Leave].
func (r *Registry) Events(ctx context.Context, tenant, id string, from int64) iter.Seq2[host.Event, error] {
	return func(yield func(host.Event, error) bool) {
		l, err := r.find(tenant, id)
		if err == nil {
			l.read(ctx, from)(yield)
			return
		}
		info, peer, err := r.elsewhere(ctx, http.MethodGet, "/run", tenant, id, err)
		if err != nil {
			r.stored.ended(ctx, tenant, id, max(from, 0), err)(yield)
			return
		}
		r.peers.events(ctx, peer, info.Tenant, id, max(from, 0))(yield)
	}
}

// Wait waits for the end of a run and returns it, beside the error if it failed. ctx
// bounds the wait and not the run.
func (r *Registry) Wait(ctx context.Context, tenant, id string) (*Run, error) {
	l, err := r.find(tenant, id)
	if err != nil {
		return r.waitElsewhere(ctx, tenant, id, err)
	}
	return l.wait(ctx)
}

// waitAgain is how long Wait waits before it reads the events of another host again.
const waitAgain = 100 * time.Millisecond

// waitElsewhere is Wait of a run on another host. It reads the run's events, and again from the
// last one on if it was too slow for that host.
func (r *Registry) waitElsewhere(ctx context.Context, tenant, id string, missing error) (*Run, error) {
	for {
		info, peer, err := r.elsewhere(ctx, http.MethodGet, "/run", tenant, id, missing)
		if err != nil {
			info, err = r.stored.get(ctx, tenant, id, err)
		}
		if err != nil {
			return nil, err
		}
		if info.Status.Ended() {
			return info, info.failure()
		}
		var failed error
		for _, failed = range r.peers.events(ctx, peer, info.Tenant, id, info.Events) {
		}
		if host.CodeOf(failed) == host.ResourceExhausted && ctx.Err() == nil {
			select {
			case <-time.After(waitAgain): // that host may have as many readers as it takes
			case <-ctx.Done():
			}
			continue
		}
		if info, err = r.Get(ctx, tenant, id); err != nil {
			return nil, err
		}
		if info.Status.Ended() {
			return info, info.failure()
		}
		return info, failed
	}
}

// Cancel asks a run to end and returns it at that moment: the contexts of its model
// call and its tools end at once, and its last event says that it was canceled, as does
// its thread. A run that has ended keeps its status. Code not_found if the tenant has no
// run of that id, unavailable for one whose host is gone and that another has to take over.
func (r *Registry) Cancel(ctx context.Context, tenant, id string) (*Run, error) {
	l, err := r.find(tenant, id)
	if err == nil {
		l.cancel(errCanceled())
		return l.snapshot(), nil
	}
	info, _, err := r.elsewhere(ctx, http.MethodPost, "/cancel", tenant, id, err)
	if err != nil {
		return r.stored.get(ctx, tenant, id, err) // one that has ended, or that no host has now
	}
	return info, nil
}

// Answer starts the run that continues an interrupted one with the answers to its
// questions: see [host.Request].Resume for its codes. Further ones are not_found for a
// run that neither the registry nor the journal has, failed_precondition for one that
// has not been interrupted, and those of [Registry.Start].
func (r *Registry) Answer(ctx context.Context, tenant, id string, answers []host.Answer, opts *StartOptions) (*Run, error) {
	run, attached, err := r.AnswerAttached(ctx, tenant, id, answers, opts)
	if err != nil {
		return nil, err
	}
	attached.Detach()
	return run, nil
}

// Waiting returns an interrupted run with its questions, also from the journal alone. Codes
// are those of [Registry.Answer], and conflict for a run whose questions are answered.
func (r *Registry) Waiting(ctx context.Context, tenant, id string) (*Run, error) {
	target, info, _, err := r.interrupted(ctx, tenant, id)
	if err == nil && len(info.Questions) == 0 {
		info.Questions, err = r.host.Questions(ctx, target, info.Tenant, id)
	}
	if err != nil {
		return nil, err
	}
	return info, nil
}

// interrupted returns a run that was interrupted, with its target and the request that
// resumes it, which lacks the answers. One that the journal alone has comes without its
// questions, and may be answered already.
func (r *Registry) interrupted(ctx context.Context, tenant, id string) (host.Target, *Run, *host.Request, error) {
	tenant, err := r.host.Tenant(tenant)
	if err != nil {
		return nil, nil, nil, err
	}
	l, err := r.find(tenant, id)
	if err == nil {
		info := l.snapshot()
		if info.Status != Interrupted {
			return nil, nil, nil, host.Errorf(host.FailedPrecondition, "run %.100q asks nothing: it is %s", id, info.Status)
		}
		req := l.request
		if req.Resume = id; info.Result != nil {
			req.Checkpoint = info.Result.Checkpoint
		}
		return l.target, info, &req, nil
	}
	if r.opts.Journal == nil || r.opts.Target == nil {
		return nil, nil, nil, errNoRun(id)
	}
	rec, err := r.opts.Journal.ReadRun(ctx, tenant, id)
	if err != nil {
		return nil, nil, nil, fault.AsError(err)
	}
	target, err := r.opts.Target(rec.Target)
	if err != nil {
		return nil, nil, nil, err
	}
	info := &Run{Tenant: tenant, ID: id, Thread: rec.Thread, Branch: rec.Branch, Target: rec.Target, Status: Interrupted, Started: rec.Created, Ended: rec.Updated}
	return target, info, &host.Request{Tenant: tenant, Resume: id}, nil
}

// DropTenant cancels the live runs of a tenant that is being erased, waits for their ends,
// and forgets all runs of the tenant with their events. The error is that of ctx.
func (r *Registry) DropTenant(ctx context.Context, tenant string) error {
	all := r.runs.of(tenant)
	for _, l := range all {
		l.cancel(host.Errorf(host.Canceled, "the tenant of the run is deleted"))
	}
	for _, l := range all {
		select {
		case <-l.over:
		case <-ctx.Done():
			return fault.AsError(fault.ContextError(ctx))
		}
		r.runs.remove(l)
	}
	r.alone.dropTenant(tenant)
	r.givenUp.dropTenant(tenant)
	r.stored.dropTenant(tenant)
	return nil
}

// RemoveExpired removes the stored events of durable runs of a tenant whose time is over and
// whose processes have ended. A registry does that by itself for the tenants whose runs it
// starts or takes over; a program with other tenants calls it now and then for each. Codes
// are those of the journal's store.
func (r *Registry) RemoveExpired(ctx context.Context, tenant string) error {
	tenant, err := r.host.Tenant(tenant)
	if err == nil {
		_, err = r.stored.sweepOf(ctx, tenant, "")
	}
	return err
}

// Drain stops the registry: it starts no more runs and takes none over, hands durable
// runs over to other members if its journal is a [Journal], waits for those that are
// live, and cancels the remaining ones when ctx ends, for whose end it waits as well.
// Runs can be read until Close. The error is ctx's if runs were canceled.
func (r *Registry) Drain(ctx context.Context) error {
	idle := r.stop()
	r.cancel()
	r.alone.close()
	r.background.Wait()
	r.handOver(context.WithoutCancel(ctx))
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
	}
	canceled := r.runs.cancelAll()
	<-idle
	if canceled == 0 {
		return nil
	}
	err := fault.AsError(fault.ContextError(ctx))
	return host.Errorf(host.CodeOf(err), "drain: %d runs were canceled: %w", canceled, err)
}

// stop refuses further runs, and returns a channel that is closed when none is live.
func (r *Registry) stop() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.draining = true
	return r.runs.stop()
}

// Close cancels all runs, waits for their ends and forgets them. It may be called
// twice.
func (r *Registry) Close() error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err := r.Drain(ctx)
	r.runs.forget()
	r.mu.Lock()
	server := r.server
	r.mu.Unlock()
	if server != nil {
		_ = server.Close()
		r.serving.Wait()
	}
	if r.peers != nil {
		r.peers.close()
	}
	r.stored.close(context.Background())
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
