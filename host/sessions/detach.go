package sessions

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/internal/kverror"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/threads"
)

// Turns in the background. Each has a record from before it begins until its
// snapshot is stored:
//
//	sessions/run/<run id>   a turn in the background
//
// Who runs it gives a sign of life there; who asks it to end writes that there.

// recordVersion is the version of a record.
const recordVersion = 1

// record is a turn in the background.
type record struct {
	V       int    `json:"v"`
	Run     string `json:"run"`
	Session string `json:"session"`
	Agent   string `json:"agent"`
	Parent  string `json:"parent,omitempty"` // the run it goes on from
	At      string `json:"at,omitempty"`     // the same, if it was named
	Status  Status `json:"status"`
	// Of one that has ended without a snapshot.
	Error   *host.Error `json:"error,omitempty"`
	Created time.Time   `json:"created"`
	// Thread is when the session's thread was made: another one of its id was not.
	Thread time.Time `json:"thread,omitzero"`
	// Heartbeat is the last sign of life; Released says that there is nobody to
	// give one, and the turn is to be had.
	Heartbeat time.Time     `json:"heartbeat"`
	Released  bool          `json:"released,omitempty"`
	Attempts  int           `json:"attempts"` // how often it was begun or gone on with
	Input     *host.Message `json:"input,omitempty"`
	Retry     bool          `json:"retry,omitempty"`
}

// maxAttempts is how often a turn is gone on with whose host has died.
const maxAttempts = 5

// keptFor is how long it is known of a turn that it has left nothing.
const keptFor = 7 * 24 * time.Hour

// MaxBackground is how many turns [Service.Background] lists.
const MaxBackground = 1000

// pollEvery is how often a turn that another process runs is asked about.
const pollEvery = time.Second

var recordKeys = kv.NewKey("sessions", "run")

func recordKey(run string) kv.Key { return recordKeys.With(run) }

// runKey names a turn. Tenants of turns and records are those that [host.Host.Tenant]
// returned: each is the name of its partition in the store.
type runKey struct{ tenant, run string }

// detached is a turn that this process runs in the background.
type detached struct {
	turn     *turn
	run      string                  // the turn's, for others than the goroutine that runs it
	ctx      context.Context         // of the run
	cancel   context.CancelCauseFunc // of ctx
	over     chan struct{}           // closed when it has ended and is stored
	place    *threads.Place          // in the queue of the session's thread
	follower                         // who listens, of a turn that is not detached yet
	leaving  bool                    // the service is closed, and the turn is left to others
}

func errAborted() *host.Error { return host.Errorf(host.Canceled, "the turn was aborted") }

// pending returns the record of a turn in the background, nil if there is none.
func (s *Service) pending(ctx context.Context, tenant, run string) (*record, uint64, error) {
	e, err := s.store.Driver().Get(ctx, tenant, recordKey(run))
	if errors.Is(err, kv.ErrNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, kverror.Wrap(err, "read turn %q", run)
	}
	p, err := readRecord(e.Value, run)
	return p, e.Revision, err
}

func readRecord(value []byte, run string) (*record, error) {
	p := &record{}
	if err := kv.DecodeRecord(value, p); err != nil {
		return nil, host.Errorf(host.DataLoss, "the record of turn %q is damaged", run).WithHint("restore it from a backup")
	}
	if p.V != recordVersion {
		return nil, host.Errorf(host.FailedPrecondition, "the record of turn %q has version %d, which is not known here", run, p.V).
			WithHint("use it with the version that wrote it, or a newer one; nothing was changed")
	}
	return p, nil
}

// write stores a record if it is still at revision; code conflict otherwise. One
// that has ended leaves the order of its session.
func (s *Service) write(ctx context.Context, tenant string, p *record, revision uint64) error {
	return s.writeIn(ctx, tenant, p, revision, nil)
}

// writeIn is write with the change of the order of the record's session; nil is none
// but that of its end.
func (s *Service) writeIn(ctx context.Context, tenant string, p *record, revision uint64, change func([]string) ([]string, error)) error {
	value, err := kv.EncodeRecord(p)
	if err != nil {
		return host.Errorf(host.Internal, "write turn %q: %w", p.Run, err)
	}
	tx := kv.Tx{Partition: tenant,
		Conds: []kv.Cond{kv.AtRevision(recordKey(p.Run), revision)}, Writes: []kv.Write{kv.Put(recordKey(p.Run), value)}}
	if change == nil && p.Status.Settled() {
		change = leaveOrder(p.Run)
	}
	if change != nil {
		err = s.applyInOrder(ctx, tenant, p.Session, tx, change)
	} else {
		_, err = kv.Apply(ctx, s.store.Driver(), tx)
	}
	return kverror.Wrap(err, "write turn %q", p.Run)
}

func (s *Service) forget(ctx context.Context, tenant, session, run string) error {
	tx := kv.Tx{Partition: tenant, Writes: []kv.Write{kv.Delete(recordKey(run))}}
	return kverror.Wrap(s.applyInOrder(ctx, tenant, session, tx, leaveOrder(run)), "forget turn %q", run)
}

// expired reports whether who ran a turn is gone.
func (s *Service) expired(p *record) bool {
	return !p.Status.Settled() && (p.Released || away(p.Heartbeat) > s.opts.Expiry)
}

// away is how far a stored time is from now. A clock that was set back leaves times
// in the future: whoever gave that sign of life does not give one at that time.
func away(t time.Time) time.Duration { return time.Since(t).Abs() }

// pendingSnapshot is a record as clients see it.
func (s *Service) pendingSnapshot(p *record) *Snapshot {
	out := &Snapshot{
		ID: snapshotID(p.Session, p.Run), Session: p.Session, Parent: snapshotID(p.Session, p.Parent), Agent: p.Agent,
		Status: p.Status, Error: p.Error, Created: p.Created, Heartbeat: p.Heartbeat,
	}
	switch {
	case s.expired(p):
		out.Status = Expired
	case p.Status == Failed:
		out.FinishReason = host.FinishFailed
	case p.Status == Aborted:
		out.FinishReason = host.FinishCanceled
	}
	return out
}

// notYet refuses to go on from a turn in the background.
func (s *Service) notYet(p *record) error {
	id := snapshotID(p.Session, p.Run)
	switch snap := s.pendingSnapshot(p); snap.Status {
	case Expired:
		return host.Errorf(host.FailedPrecondition, "snapshot %.300q has expired: who ran it is gone", id).
			WithHint("go on from its parent %q, or let a host recover it", snap.Parent)
	case Failed, Aborted:
		return host.Errorf(host.FailedPrecondition, "snapshot %.300q is of a turn that left nothing", id).WithHint("go on from its parent %q", snap.Parent)
	default:
		return host.Errorf(host.FailedPrecondition, "snapshot %.300q is %s", id, snap.Status).WithHint("wait for it, or abort it")
	}
}

// detach begins a turn in the background. Its record is stored first. again is what the
// turn was acknowledged with before, if others have just sent its message too.
func (s *Service) detach(ctx context.Context, t *turn, req *Request) (_ *detached, _ *Output, again *acknowledgement, err error) {
	p := &record{V: recordVersion, Run: t.run, Session: t.session, Agent: s.Name(), Parent: t.plan.snapshot, At: t.plan.snapshot,
		Status: Pending, Attempts: 1, Input: t.input, Retry: t.plan.retry}
	if p.Parent == "" {
		if p.Parent, err = s.good(ctx, t.tenant, t.session, ""); err != nil {
			return nil, nil, nil, err
		}
	}
	t.req.Durable = true
	t.attempt = p.Attempts
	d, err := s.reserve(ctx, t, !req.Detach, false)
	if err != nil {
		return nil, nil, nil, err
	}
	// The session is there before the record is: a record without one is of a
	// session that was deleted.
	thread, _, err := s.store.Create(ctx, t.tenant, &threads.CreateOptions{ID: t.session})
	if err != nil {
		s.cancelReserved(d)
		return nil, nil, nil, err
	}
	p.Thread, t.made = thread.Created, thread.Created
	p.Created = time.Now().UTC()
	p.Heartbeat = p.Created
	err = s.begin(ctx, d, p, 0, func(runs []string) ([]string, error) {
		if again, err = s.sentBefore(ctx, t, req, runs); err != nil {
			return nil, err
		}
		if again != nil {
			return nil, errSentBefore
		}
		return joinOrder(t.session, t.run)(runs)
	})
	if again != nil && errors.Is(err, errSentBefore) {
		t.req.Durable = false
		return nil, nil, again, nil
	}
	if err != nil {
		return nil, nil, nil, err
	}
	return d, &Output{Session: t.session, Snapshot: snapshotID(t.session, t.run), Turn: snapshotID(t.session, t.run),
		Parent: snapshotID(t.session, p.Parent), FinishReason: FinishDetached}, nil, nil
}

// errSentBefore ends a commit that would store a turn a second time.
var errSentBefore = errors.New("the message was acknowledged before")

// begin runs a turn in the background that has its place, when its record is stored.
// join puts one that is new into the order of its session.
func (s *Service) begin(ctx context.Context, d *detached, p *record, revision uint64, join func([]string) ([]string, error)) error {
	if err := s.writeIn(ctx, d.turn.tenant, p, revision, join); err != nil {
		s.cancelReserved(d)
		return err
	}
	go s.work(d)
	return nil
}

// retryDetached is after which time a client may ask again where too many turns run
// in the background: what a short turn takes.
const retryDetached = time.Second

// reserve makes room for a turn in the background, and takes its place among the
// turns of its session. A turn that waits for this one has lent its room if lent is set.
func (s *Service) reserve(ctx context.Context, t *turn, followed, lent bool) (*detached, error) {
	d := &detached{turn: t, run: t.run, over: make(chan struct{})}
	if followed {
		d.follow()
	}
	d.ctx, d.cancel = context.WithCancelCause(s.ctx)
	if err := s.addDetached(d, lent); err != nil {
		d.cancel(nil)
		return nil, err
	}
	var err error
	if d.place, err = s.store.TakePlace(ctx, t.historyRequest()); err != nil {
		d.cancel(nil)
		s.release(d)
		return nil, err
	}
	return d, nil
}

// cancelReserved takes reserve back.
func (s *Service) cancelReserved(d *detached) {
	d.cancel(nil)
	d.place.Leave()
	s.release(d)
}

func (s *Service) addDetached(d *detached, lent bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return host.Errorf(host.Unavailable, "the host is being stopped")
	}
	if len(s.detached) >= s.opts.Detached && !lent {
		e := host.Errorf(host.ResourceExhausted, "%d turns run in the background, as many as the limit Detached allows", s.opts.Detached).
			WithHint("try again when one has ended")
		e.Limit, e.RetryAfter = "Detached", retryDetached
		return e
	}
	key := runKey{d.turn.tenant, d.run}
	if s.detached[key] != nil {
		return host.Errorf(host.AlreadyExists, "turn %q runs already", d.run)
	}
	s.detached[key] = d
	s.working.Add(1)
	return nil
}

// release tells who waits that the turn is over.
func (s *Service) release(d *detached) {
	s.mu.Lock()
	delete(s.detached, runKey{d.turn.tenant, d.run})
	s.mu.Unlock()
	close(d.over)
	s.working.Done()
}

func (s *Service) local(tenant, run string) *detached {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.detached[runKey{tenant, run}]
}

// leaving reports whether a turn in the background is to be left to others.
func (s *Service) leaving(tenant, run string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.detached[runKey{tenant, run}]
	return d != nil && d.leaving
}

// work runs a turn in the background to its end.
func (s *Service) work(d *detached) {
	defer s.release(d)
	ctx := d.ctx
	var beating sync.WaitGroup
	beating.Go(func() { s.beat(ctx, d) })
	t := d.turn
	unlock, err := s.lockInOrder(ctx, t.historyRequest(), d.place, t.before)
	if err == nil {
		defer unlock()
		t.plan.held = true
		err = s.stillThere(ctx, t)
	}
	if err == nil {
		var ev host.Event
		for ev, err = range t.events(ctx, s.host.Stream(t.context(ctx), s.target, &t.req)) {
			if err != nil {
				break
			}
			d.tell(ev)
		}
	}
	d.cancel(nil)
	beating.Wait()
	s.settle(context.WithoutCancel(ctx), t, err)
	if t.result == nil {
		t.err = err
	}
}

// stillThere refuses a turn whose session was deleted while it waited: running it would
// begin the session again.
func (s *Service) stillThere(ctx context.Context, t *turn) error {
	gone, err := s.deleted(ctx, t.tenant, t.session, t.made)
	if err == nil && gone {
		err = host.Errorf(host.NotFound, "session %.100q was deleted", t.session)
	}
	return err
}

// historyRequest is what the history is asked with for a turn.
func (t *turn) historyRequest() *host.HistoryRequest {
	return &host.HistoryRequest{Tenant: t.tenant, Thread: t.session, Run: t.run, Network: t.service.Name(), Input: t.input}
}

// before returns those of a session's turns in the background that go before this
// one.
func (t *turn) before(runs []string) []string {
	if i := slices.Index(runs, t.run); i >= 0 {
		return runs[:i]
	}
	return runs
}

// beat gives signs of life, and learns there that the turn is to end.
func (s *Service) beat(ctx context.Context, d *detached) {
	tick := time.NewTicker(s.opts.Heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		p, revision, err := s.pending(ctx, d.turn.tenant, d.run)
		if err != nil {
			continue // it is late, which is what others see
		}
		if p == nil || p.Status == Aborting {
			d.cancel(errAborted())
			return
		}
		if p.Attempts != d.turn.attempt {
			d.cancel(host.Errorf(host.Conflict, "another host has taken the turn over"))
			return
		}
		p.Heartbeat = time.Now().UTC()
		_ = s.write(ctx, d.turn.tenant, p, revision) // likewise, and who was faster asks it to end
	}
}

// settle ends the record of a turn: its snapshot takes its place, or the record
// says why there is none. The record of a turn that another host has taken over is
// that host's.
func (s *Service) settle(ctx context.Context, t *turn, failure error) {
	ctx, cancel := context.WithTimeout(ctx, host.DefaultCommitTimeout)
	defer cancel()
	if s.leaving(t.tenant, t.run) && s.openIn(ctx, t) {
		s.change(ctx, t, func(p *record) { p.Released = true })
		return
	}
	_, err := s.store.Snapshot(ctx, t.tenant, t.session, t.run)
	done := err == nil
	if gone, err := s.deleted(ctx, t.tenant, t.session, t.made); err == nil && gone {
		done = true
	}
	if failure == nil && t.result != nil && t.result.Error != nil {
		failure = t.result.Error
	}
	if failure == nil {
		failure = host.Errorf(host.Internal, "the turn left no snapshot")
	}
	e := host.ClientError(failure, t.run)
	if done || s.keepInput(ctx, t, e) {
		if err := s.forget(ctx, t.tenant, t.session, t.run); err != nil {
			s.log("the record of a turn stays", t.run, err)
		}
		return
	}
	s.change(ctx, t, func(p *record) {
		p.Status, p.Error, p.Input = Failed, e, nil
		if e.Code == host.Canceled {
			p.Status = Aborted
		}
	})
}

// keepInput stores the message of a turn that failed before its run began, as by a
// quota that has been used up since the turn was acknowledged: with a snapshot that
// says why it was not answered. It reports whether there is one then.
func (s *Service) keepInput(ctx context.Context, t *turn, e *host.Error) bool {
	if !t.plan.held || t.input == nil || e.Code == host.Canceled {
		return false
	}
	if _, err := s.store.ReadRun(ctx, t.tenant, t.run); host.CodeOf(err) != host.NotFound {
		return false
	}
	h, req := &history{Store: s.store, service: s}, t.historyRequest()
	_, _, err := h.CreateThread(t.context(ctx), req)
	var head string
	if err == nil {
		head, err = h.AppendUserMessage(ctx, req)
	}
	if err == nil {
		err = h.AppendResults(ctx, req, &host.Turn{Head: head, Status: host.FinishFailed, Error: e})
	}
	if err != nil {
		s.log("the message of a turn that failed is not stored", t.run, err)
	}
	return err == nil
}

// deleted reports whether the session of a turn was deleted since the turn began,
// also if there is another one under its id. made is when its thread was, zero if
// that is not known.
func (s *Service) deleted(ctx context.Context, tenant, session string, made time.Time) (bool, error) {
	thread, err := s.store.Thread(ctx, tenant, session)
	if host.CodeOf(err) == host.NotFound {
		return true, nil
	}
	return err == nil && !made.IsZero() && !thread.Created.Equal(made), err
}

// openIn reports whether a turn is in the journal, to be gone on with.
func (s *Service) openIn(ctx context.Context, t *turn) bool {
	rec, err := s.store.ReadRun(ctx, t.tenant, t.run)
	if host.CodeOf(err) == host.NotFound {
		return t.result == nil || t.result.FinishReason == host.FinishCanceled
	}
	return err == nil && rec.Status == host.RunOpen
}

// change changes the record of a turn that is ours, however many others do.
func (s *Service) change(ctx context.Context, t *turn, fn func(*record)) {
	for {
		p, revision, err := s.pending(ctx, t.tenant, t.run)
		if err == nil && p != nil && p.Attempts == t.attempt {
			fn(p)
			err = s.write(ctx, t.tenant, p, revision)
		}
		if host.CodeOf(err) != host.Conflict {
			if err != nil {
				s.log("the record of a turn is not up to date", t.run, err)
			}
			return
		}
	}
}

func (s *Service) log(what, run string, err error) {
	if l := s.opts.Host.Logger; l != nil {
		l.Error(what, "run", run, "error", err)
	}
}

// Abort asks a turn in the background to end, and returns its status: aborting
// until it has. One that has ended stays as it is; one whose host is gone is
// aborted. Code not_found if there is no such snapshot.
func (s *Service) Abort(ctx context.Context, tenant, snapshot string) (Status, error) {
	if err := s.needStore("abort a turn"); err != nil {
		return "", err
	}
	tenant, err := s.host.Tenant(tenant)
	if err != nil {
		return "", err
	}
	session, run, err := readSnapshotID(snapshot)
	if err != nil {
		return "", err
	}
	for {
		p, revision, err := s.pending(ctx, tenant, run)
		if err != nil {
			return "", err
		}
		if p == nil || p.Session != session {
			snap, err := s.read(ctx, &SnapshotRequest{Tenant: tenant, WithoutState: true}, session, run)
			if err != nil {
				return "", err
			}
			return snap.Status, nil
		}
		if p.Status.Settled() {
			return p.Status, nil
		}
		p.Status = Aborting
		if s.expired(p) && s.local(tenant, run) == nil {
			p.Status, p.Error, p.Input = Aborted, errAborted(), nil
		}
		err = s.write(ctx, tenant, p, revision)
		if host.CodeOf(err) == host.Conflict {
			continue
		}
		if err != nil {
			return "", err
		}
		if d := s.local(tenant, run); d != nil {
			d.cancel(errAborted())
		}
		return p.Status, nil
	}
}

// Wait waits for a turn in the background to end and returns its snapshot, as
// [Service.Snapshot] does; one whose host is gone has ended as expired.
func (s *Service) Wait(ctx context.Context, req *SnapshotRequest) (*Snapshot, error) {
	if err := s.needStore("wait for a turn"); err != nil {
		return nil, err
	}
	tenant, err := s.host.Tenant(req.Tenant)
	if err != nil {
		return nil, err
	}
	own := *req
	own.Tenant = tenant
	req = &own
	for {
		snap, err := s.snapshot(ctx, req)
		if err != nil || snap.Status.Settled() {
			return snap, err
		}
		_, run, err := readSnapshotID(snap.ID)
		if err != nil {
			return nil, err
		}
		var over chan struct{}
		if d := s.local(req.Tenant, run); d != nil {
			over = d.over
		}
		poll := time.NewTimer(pollEvery)
		select {
		case <-over:
		case <-poll.C:
		case <-ctx.Done():
			poll.Stop()
			return nil, host.AsError(host.ContextError(ctx))
		}
		poll.Stop()
	}
}

// Close stops the turns in the background and waits for that. They are left as
// they are after their last step: [Service.Recover] goes on with them. It may be
// called twice; turns that somebody listens to are not concerned.
func (s *Service) Close() {
	s.mu.Lock()
	s.closed = true
	for _, d := range s.detached {
		d.leaving = true
	}
	s.mu.Unlock()
	s.cancel()
	s.working.Wait()
}
