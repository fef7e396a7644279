package sessions

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads"
)

// maxAttempts is how many processes run a turn before it fails, each having ended
// while it did.
const maxAttempts = 5

// keptFor is how long the record of a turn stays that has ended without a snapshot.
const keptFor = 7 * 24 * time.Hour

// MaxListed is how many turns [Service.Background] lists.
const MaxListed = 1000

func errAborted() *host.Error { return host.Errorf(host.Canceled, "the turn was aborted") }

// background runs turns of stored sessions in goroutines of their own. A turn has a
// record in the store from before it begins until its snapshot is stored; the
// process that runs it writes heartbeats there.
type background struct {
	served    *served
	sessions  *storeManaged
	history   *history
	records   *records
	hosts     *hosts // nil without a member
	order     *turnOrder
	running   *runningTurns
	heartbeat time.Duration
}

// start begins a background turn: it stores its record and runs it. With again, a
// concurrent request has just sent the same message, and no turn was begun.
func (b *background) start(ctx context.Context, t *turn, req *Request) (_ *backgroundTurn, _ *Output, again *acknowledgement, err error) {
	p := &record{V: recordVersion, Run: t.run, Session: t.session, Agent: b.served.name(), Parent: t.plan.snapshot, At: t.plan.snapshot,
		Status: Pending, Attempts: 1, Input: t.input, Retry: t.plan.retry, Key: req.Key}
	if p.Parent == "" {
		if p.Parent, err = b.sessions.lastCompleted(ctx, t.tenant, t.session, ""); err != nil {
			return nil, nil, nil, err
		}
	}
	t.req.Durable = true
	t.attempt = p.Attempts
	runCtx, d, err := b.reserve(ctx, t, !req.Detach, false)
	if err != nil {
		return nil, nil, nil, err
	}
	// The session exists before the record does: a record without a session is of a
	// session that was deleted.
	thread, _, err := b.sessions.threads.For(t.tenant).Create(ctx, &threads.CreateOptions{ID: t.session})
	if err != nil {
		b.cancelReserved(d)
		return nil, nil, nil, err
	}
	p.Thread, t.threadMade = thread.Created, thread.Created
	p.Created = time.Now().UTC()
	p.Heartbeat = p.Created
	err = b.begin(ctx, runCtx, d, p, 0, func(runs []string) ([]string, error) {
		if again, err = b.sentBefore(ctx, t, req, runs); err != nil {
			return nil, err
		}
		if again != nil {
			return nil, errSentBefore
		}
		return addToOrder(t.session, t.run)(runs)
	})
	if again != nil && errors.Is(err, errSentBefore) {
		t.req.Durable = false
		return nil, nil, again, nil
	}
	if err != nil {
		return nil, nil, nil, err
	}
	return d, &Output{Session: t.session, Snapshot: SnapshotID(t.session, t.run), Turn: SnapshotID(t.session, t.run),
		Parent: SnapshotID(t.session, p.Parent), FinishReason: FinishDetached}, nil, nil
}

// errSentBefore ends a commit that would store a turn a second time.
var errSentBefore = errors.New("the message was acknowledged before")

// begin stores the record of a reserved turn and starts the goroutine that runs it
// with runCtx. change puts a new run into the order of its session. A turn whose record is
// stored, and that cannot be claimed, runs when [Service.RecoverLost] finds it.
func (b *background) begin(ctx, runCtx context.Context, d *backgroundTurn, p *record, revision uint64, change func([]string) ([]string, error)) error {
	confirm, err := b.hosts.claim(ctx, d.tenant, p)
	if err == nil {
		err = b.records.writeInOrder(ctx, d.tenant, p, revision, change)
		if errors.Is(err, kv.ErrInDoubt) && b.records.has(ctx, d.tenant, p) {
			err = nil // else later turns of the session would wait for it as long as this host lives
		}
	}
	if err == nil {
		err = confirm(ctx)
	}
	if err != nil {
		b.cancelReserved(d)
		return err
	}
	go b.run(runCtx, d)
	return nil
}

// reserve makes room for a turn and takes its place among the turns of its session.
// It returns the context of the run.
func (b *background) reserve(ctx context.Context, t *turn, listened, lent bool) (context.Context, *backgroundTurn, error) {
	d := &backgroundTurn{turn: t, tenant: t.tenant, run: t.run, attempt: t.attempt, ended: make(chan struct{})}
	if listened {
		d.listener = newListener()
	}
	var runCtx context.Context
	runCtx, d.cancel = context.WithCancelCause(b.running.lifetime)
	if err := b.running.add(d, lent); err != nil {
		d.cancel(nil)
		return nil, nil, err
	}
	var err error
	if d.place, err = b.sessions.threads.TakePlace(ctx, t.historyRequest()); err != nil {
		d.cancel(nil)
		b.running.remove(d)
		return nil, nil, err
	}
	return runCtx, d, nil
}

// cancelReserved undoes reserve.
func (b *background) cancelReserved(d *backgroundTurn) {
	d.cancel(nil)
	d.place.Leave()
	b.running.remove(d)
}

// run runs a background turn to its end.
func (b *background) run(ctx context.Context, d *backgroundTurn) {
	defer b.running.remove(d)
	var beating sync.WaitGroup
	beating.Go(func() { b.keepBeating(ctx, d) })
	t := d.turn
	unlock, err := b.order.lockFrom(ctx, t.historyRequest(), d.place, t.before)
	if err == nil {
		defer unlock()
		t.plan.held = true
		err = b.checkNotDeleted(ctx, t)
	}
	if err == nil {
		var ev host.Event
		for ev, err = range t.events(ctx, b.served.host.Stream(t.context(ctx), b.served.target, &t.req)) {
			if err != nil {
				break
			}
			d.listener.send(ev)
		}
	}
	d.cancel(nil)
	beating.Wait()
	b.settle(context.WithoutCancel(ctx), t, err)
	if t.result == nil {
		t.err = err
	}
}

// close stops the turns and releases them.
func (b *background) close() {
	if left := b.running.stop(); left == 0 {
		return
	}
	if err := b.hosts.announce(); err != nil {
		b.served.logError("other hosts are not told of turns that are released", "", err)
	}
}

// checkNotDeleted refuses a turn whose session was deleted while it waited: running
// it would begin the session again.
func (b *background) checkNotDeleted(ctx context.Context, t *turn) error {
	deleted, err := b.sessions.deleted(ctx, t.tenant, t.session, t.threadMade)
	if err == nil && deleted {
		err = host.Errorf(host.NotFound, "session %.100q was deleted", t.session)
	}
	return err
}

// historyRequest is the request that a turn makes to the history.
func (t *turn) historyRequest() *host.HistoryRequest {
	return &host.HistoryRequest{Tenant: t.tenant, Thread: t.session, Run: t.run, Network: t.served.name(), Input: t.input}
}

// before returns those of a session's background turns that go before this one.
func (t *turn) before(runs []string) []string {
	if i := slices.Index(runs, t.run); i >= 0 {
		return runs[:i]
	}
	return runs
}

// keepBeating writes heartbeats, and cancels the turn when its record says so.
func (b *background) keepBeating(ctx context.Context, d *backgroundTurn) {
	tick := time.NewTicker(b.heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		p, revision, err := b.records.read(ctx, d.tenant, d.run)
		if err != nil {
			continue // a late heartbeat, which other processes see
		}
		if p == nil || p.Status == Aborting {
			d.cancel(errAborted())
			return
		}
		if p.Attempts != d.attempt {
			d.cancel(host.Errorf(host.Conflict, "another host has taken the turn over"))
			return
		}
		p.Heartbeat = time.Now().UTC()
		_ = b.records.write(ctx, d.tenant, p, revision) // likewise; a faster writer asks the turn to end
	}
}

// settle ends the record of a turn: the turn's snapshot takes its place, or the
// record says why the turn has no snapshot. The record of a turn that another process
// has taken over belongs to that process.
func (b *background) settle(ctx context.Context, t *turn, failure error) {
	ctx, cancel := context.WithTimeout(ctx, host.DefaultLimits().CommitTimeout)
	defer cancel()
	if b.running.released(t.tenant, t.run) && b.isOpen(ctx, t) {
		b.update(ctx, t, func(p *record) { p.Released = true })
		if err := b.hosts.released(ctx, t.tenant); err != nil {
			b.served.logError("a turn is free when this host has left: it is not handed over", t.run, err)
		}
		return
	}
	_, err := b.sessions.threads.For(t.tenant).Snapshot(ctx, t.session, t.run)
	done := err == nil
	if deleted, err := b.sessions.deleted(ctx, t.tenant, t.session, t.threadMade); err == nil && deleted {
		done = true
	}
	if failure == nil && t.result != nil && t.result.Error != nil {
		failure = t.result.Error
	}
	if failure == nil {
		failure = host.Errorf(host.Internal, "the turn left no snapshot")
	}
	e := fault.ForClient(failure, t.run)
	if done || b.storeFailedInput(ctx, t, e) {
		if err := b.records.remove(ctx, t.tenant, t.session, t.run); err != nil {
			b.served.logError("the record of a turn stays", t.run, err)
		}
		return
	}
	b.update(ctx, t, func(p *record) {
		p.Status, p.Error, p.Input = Failed, e, nil
		if e.Code == host.Canceled {
			p.Status = Aborted
		}
	})
}

func (b *background) update(ctx context.Context, t *turn, fn func(*record)) {
	if err := b.records.update(ctx, t.tenant, t.run, t.attempt, fn); err != nil {
		b.served.logError("the record of a turn is not up to date", t.run, err)
	}
}

// storeFailedInput stores the message of a turn that failed before its run began,
// such as by a quota that was used up after the acknowledgement, with a snapshot that
// has the error. It reports whether that snapshot exists.
func (b *background) storeFailedInput(ctx context.Context, t *turn, e *host.Error) bool {
	if !t.plan.held || t.input == nil || e.Code == host.Canceled {
		return false
	}
	if _, err := b.sessions.threads.ReadRun(ctx, t.tenant, t.run); host.CodeOf(err) != host.NotFound {
		return false
	}
	req := t.historyRequest()
	_, _, err := b.history.CreateThread(t.context(ctx), req)
	var head string
	if err == nil {
		head, err = b.history.AppendUserMessage(ctx, req)
	}
	if err == nil {
		err = b.history.AppendResults(ctx, req, &host.Turn{Head: head, Status: chat.FinishFailed, Error: e})
	}
	if err != nil {
		b.served.logError("the message of a turn that failed is not stored", t.run, err)
	}
	return err == nil
}

// isOpen reports whether the journal has the run of a turn, to be continued.
func (b *background) isOpen(ctx context.Context, t *turn) bool {
	rec, err := b.sessions.threads.ReadRun(ctx, t.tenant, t.run)
	if host.CodeOf(err) == host.NotFound {
		return t.result == nil || t.result.FinishReason == chat.FinishCanceled
	}
	return err == nil && rec.Status == host.RunOpen
}

// Detach puts a turn that was begun with [Request].Detachable into the background: its
// stream ends with a [TurnEnded] of the finish reason [FinishDetached], and its reader
// may leave. A turn that is in the background already stays there. Detach returns the
// turn's status. The turn is named by its snapshot, which [SnapshotID] makes of its
// session and the run of its events.
//
// Codes: not_found if there is no such turn, or it runs and was not begun with
// Detachable; failed_precondition if it has ended, or runs in another process, which
// has its reader.
func (s *Service) Detach(ctx context.Context, tenant, snapshot string) (Status, error) {
	if err := s.needStore("detach a turn"); err != nil {
		return "", err
	}
	tenant, err := s.served.host.Tenant(tenant)
	if err != nil {
		return "", err
	}
	return s.background.detach(ctx, tenant, snapshot)
}

func (b *background) detach(ctx context.Context, tenant, snapshot string) (Status, error) {
	session, run, err := readSnapshotID(snapshot)
	if err != nil {
		return "", err
	}
	p, _, err := b.records.read(ctx, tenant, run)
	switch {
	case err != nil:
		return "", err
	case p == nil || p.Session != session:
		snap, err := b.sessions.readSnapshot(ctx, &SnapshotRequest{Tenant: tenant, WithoutState: true}, session, run)
		if err != nil {
			return "", err
		}
		return "", host.Errorf(host.FailedPrecondition, "turn %.300q has ended, and is %s", snapshot, snap.Status)
	case p.Status.Settled():
		return "", b.records.notResumable(ctx, p)
	}
	d := b.running.find(tenant, run)
	if d == nil {
		return "", host.Errorf(host.FailedPrecondition, "turn %.300q runs in another process, or its host is gone", snapshot).
			WithHint("ask the host that streams it")
	}
	if d.listener.events != nil {
		d.listener.detach()
	}
	return p.Status, nil
}

// Abort asks a background turn to end and returns its status: aborting until it has
// ended. A turn that has ended keeps its status; one whose process is gone is aborted.
// Code not_found if there is no such snapshot.
func (s *Service) Abort(ctx context.Context, tenant, snapshot string) (Status, error) {
	if err := s.needStore("abort a turn"); err != nil {
		return "", err
	}
	tenant, err := s.served.host.Tenant(tenant)
	if err != nil {
		return "", err
	}
	return s.background.abort(ctx, tenant, snapshot)
}

func (b *background) abort(ctx context.Context, tenant, snapshot string) (Status, error) {
	session, run, err := readSnapshotID(snapshot)
	if err != nil {
		return "", err
	}
	for {
		p, revision, err := b.records.read(ctx, tenant, run)
		if err != nil {
			return "", err
		}
		if p == nil || p.Session != session {
			snap, err := b.sessions.readSnapshot(ctx, &SnapshotRequest{Tenant: tenant, WithoutState: true}, session, run)
			if err != nil {
				return "", err
			}
			return snap.Status, nil
		}
		if p.Status.Settled() {
			return p.Status, nil
		}
		p.Status = Aborting
		if b.records.expired(ctx, p) && b.running.find(tenant, run) == nil {
			p.Status, p.Error, p.Input = Aborted, errAborted(), nil
		}
		err = b.records.write(ctx, tenant, p, revision)
		if host.CodeOf(err) == host.Conflict {
			continue
		}
		if err != nil {
			return "", err
		}
		if d := b.running.find(tenant, run); d != nil {
			d.cancel(errAborted())
		}
		return p.Status, nil
	}
}

// Wait waits for a background turn to end and returns its snapshot, as
// [Service.Snapshot] does; a turn whose process is gone has ended as expired.
func (s *Service) Wait(ctx context.Context, req *SnapshotRequest) (*Snapshot, error) {
	if err := s.needStore("wait for a turn"); err != nil {
		return nil, err
	}
	tenant, err := s.served.host.Tenant(req.Tenant)
	if err != nil {
		return nil, err
	}
	own := *req
	own.Tenant = tenant
	return s.background.wait(ctx, &own)
}

func (b *background) wait(ctx context.Context, req *SnapshotRequest) (*Snapshot, error) {
	for {
		snap, err := b.sessions.snapshot(ctx, req)
		if err != nil || snap.Status.Settled() {
			return snap, err
		}
		_, run, err := readSnapshotID(snap.ID)
		if err != nil {
			return nil, err
		}
		if err := b.running.waitFor(ctx, req.Tenant, run, pollEvery); err != nil {
			return nil, err
		}
	}
}

// Background returns the tenant's turns that are in the background, and those that
// ended there without a snapshot: the oldest first, without their sessions, at most
// [MaxListed]. A record that is damaged is left out.
func (s *Service) Background(ctx context.Context, tenant string) ([]*Snapshot, error) {
	if err := s.needStore("list turns"); err != nil {
		return nil, err
	}
	tenant, err := s.served.host.Tenant(tenant)
	if err != nil {
		return nil, err
	}
	return s.background.list(ctx, tenant)
}

func (b *background) list(ctx context.Context, tenant string) ([]*Snapshot, error) {
	out := []*Snapshot{}
	for r, err := range b.records.all(ctx, tenant) {
		if err != nil {
			return nil, err
		}
		if r.damaged != nil {
			continue
		}
		if out = append(out, b.records.snapshot(ctx, r.record)); len(out) == MaxListed {
			break
		}
	}
	return out, nil
}

// Running returns how many turns this service runs in the background.
func (s *Service) Running() int {
	if s.background == nil {
		return 0
	}
	return s.background.running.count()
}

// Close stops the background turns and waits for that. Each stays where its last step
// left it: [Service.Recover] of another service continues it. Close may be called
// twice; turns with a reader are not concerned.
func (s *Service) Close() {
	if s.background != nil {
		s.background.close()
	}
}
