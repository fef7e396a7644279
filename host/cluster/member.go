package cluster

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	mrand "math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/defaults"
	"github.com/agenthost/agenthost/host/internal/kverror"
	"github.com/agenthost/agenthost/host/kv"
)

// DefaultLease is the default of [Options].Lease.
const DefaultLease = 5 * time.Second

// beatsPerLease is how often a member writes a heartbeat in the time of its lease.
const beatsPerLease = 5

// staleBeats is for how many heartbeats a member waits for one that it never saw alive and
// whose record is too old by this process's clock: it is dead, or the clocks differ.
const staleBeats = 2

// removeTimeout bounds the removal of a record.
const removeTimeout = 5 * time.Second

// JoinedTopic is announced by a member that registers. A member that takes itself to be
// alone calls [Member.Observe] then, for it takes locks without entries.
const JoinedTopic = "members"

// maxMembers bounds how many records a member reads at once.
const maxMembers = 10_000

// layout is the version of the stored records.
const layout = 1

// Where the records of members are. The queue had them first, and its earlier versions
// look for them there.
const partition = "agenthost/queue"

var memberKeys = kv.NewKey("queue", "holder")

// Options are the optional parts of a member. A zero field is its default.
type Options struct {
	ID      string        // of this process, one that no process had before: letters, digits and - (a random one)
	Lease   time.Duration // without a heartbeat, after which others take this member for dead (5 s)
	Address string        // where other members reach this one; empty if they cannot
	Version string        // of the program

	Identity *Identity // by which this member proves itself to others, and they to it; nil if it has no Address

	Logger *slog.Logger // receives failed heartbeats; nil discards

	Now func() time.Time // the wall clock of this process (time.Now): nothing depends on it but how soon an old record is one of the dead
}

// record is a member's in the store. Every write of it is a heartbeat.
type record struct {
	V       int           `json:"v"`
	Until   time.Time     `json:"until"` // by the member's clock
	Lease   time.Duration `json:"lease"`
	Address string        `json:"address,omitempty"`
	Key     []byte        `json:"key,omitempty"` // the digest of its certificate
	Version string        `json:"version,omitempty"`
	Topics  []string      `json:"topics,omitempty"` // that it acknowledges
}

// Peer is another member.
type Peer struct {
	ID      string
	Address string
	Key     []byte // the digest of its certificate
	Version string
}

// MaxIDBytes bounds the id of a member.
const MaxIDBytes = 64

func validID(id string) bool {
	for _, c := range []byte(id) {
		if !(c == '-' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z') {
			return false
		}
	}
	return len(id) <= MaxIDBytes
}

// Member is a process among those that share a store. It is safe for concurrent use.
type Member struct {
	driver   kv.Driver
	id       string
	lease    time.Duration
	self     record // without its time
	identity *Identity
	logger   *slog.Logger
	now      func() time.Time // the wall clock

	ctx       context.Context // the lifetime: ends with Close
	cancel    context.CancelFunc
	beating   sync.WaitGroup // of the goroutines that Close ends
	observing chan struct{}  // full while heartbeats are read

	registering sync.Mutex
	registered  bool // this process has written its record
	closed      bool
	pulse       pulse

	mu       sync.Mutex
	peers    map[string]*peer
	deaths   int64
	died     time.Time // when the last of them was seen
	shared   bool      // there were peers
	looked   time.Time // for the certificate of a caller
	observed time.Time // when the last reading of the heartbeats began

	topics topics

	arrivals arrivals
}

// arrivals are the functions that are called when the first other member is seen.
type arrivals struct {
	mu        sync.Mutex
	functions []func(ctx context.Context)
}

func (a *arrivals) add(fn func(ctx context.Context)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.functions = append(a.functions, fn)
}

func (a *arrivals) notify(ctx context.Context) {
	a.mu.Lock()
	functions := a.functions
	a.mu.Unlock()
	for _, fn := range functions {
		fn(ctx)
	}
}

// peer is another member as this one has seen it.
type peer struct {
	record   record
	revision uint64 // of its last heartbeat
	seen     time.Time
	lapsed   bool // when it was seen first
}

// lives reports whether a peer has written a heartbeat within its lease. The time is
// that for which this process has waited for the next one: clocks that differ or jump make
// no peer dead. They only shorten the wait for one that was never seen alive.
func (p *peer) lives(now time.Time) bool {
	patience := p.record.Lease
	if p.lapsed {
		patience = staleBeats * p.record.Lease / beatsPerLease
	}
	return now.Sub(p.seen) <= patience
}

// New returns a member on a driver, which the caller closes after the member. Nothing is
// written before Register. A nil *Options means the defaults. Code invalid_argument for
// a negative lease and for a bad id.
func New(driver kv.Driver, opts *Options) (*Member, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Lease < 0 {
		return nil, fault.Errorf(fault.InvalidArgument, "member of a cluster has a lease of %s", o.Lease).WithHint("leave it out for the default of %s", DefaultLease)
	}
	if !validID(o.ID) {
		return nil, fault.Errorf(fault.InvalidArgument, "member of a cluster has the id %.80q", o.ID).WithHint("use at most %d letters, digits and -", MaxIDBytes)
	}
	defaults.Set(&o.Lease, DefaultLease)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	m := &Member{driver: driver, id: cmp.Or(o.ID, rand.Text()), lease: o.Lease, logger: o.Logger, now: o.Now, peers: map[string]*peer{},
		self: record{V: layout, Lease: o.Lease, Address: o.Address, Version: o.Version}, identity: o.Identity}
	if o.Identity != nil {
		m.self.Key = o.Identity.digest[:]
	}
	m.observing = make(chan struct{}, 1)
	m.pulse.silence = staleBeats * m.lease / beatsPerLease
	m.ctx, m.cancel = context.WithCancel(context.Background())
	return m, nil
}

// ID returns the id of the member, by which work names its holder.
func (m *Member) ID() string { return m.id }

// Lease returns how long others wait for a heartbeat of this member.
func (m *Member) Lease() time.Duration { return m.lease }

// Interval returns how often a member should call Observe: with it, work of a process
// that was killed is found within its lease and twice the interval.
func (m *Member) Interval() time.Duration { return m.lease / beatsPerLease }

// Register writes the member's record, the first time, and keeps writing heartbeats
// until Close. A member that holds nothing need not register. Code unavailable after
// Close, and those of the driver.
func (m *Member) Register(ctx context.Context) error {
	m.registering.Lock()
	defer m.registering.Unlock()
	if m.closed {
		return errLeft()
	}
	if m.registered {
		return nil
	}
	if err := m.beat(ctx); err != nil {
		return kverror.Wrap(err, "register with the other hosts")
	}
	m.registered = true
	m.beating.Go(m.keepBeating)
	if err := m.Announce(ctx, JoinedTopic); err != nil {
		m.logger.WarnContext(ctx, "this host is not announced: others see it by its heartbeats", "error", err)
	}
	return nil
}

// beat writes a heartbeat.
func (m *Member) beat(ctx context.Context) error {
	began := time.Now()
	r := m.self
	r.Until = m.now().Add(m.lease).UTC()
	r.Topics = m.topics.acknowledged()
	raw, err := kv.EncodeRecord(&r)
	if err != nil {
		return err
	}
	_, err = kv.Apply(ctx, m.driver, kv.Tx{Partition: partition, Quiet: true, Writes: []kv.Write{kv.Put(memberKeys.With(m.id), raw)}})
	if err == nil {
		m.pulse.beat(began)
	}
	return err
}

// untilNextBeat returns the pause before a heartbeat: an interval, or up to a fifth less, so
// that hosts that were started together do not write at the same moments.
func untilNextBeat(interval time.Duration) time.Duration { return interval - mrand.N(interval/5+1) }

// keepBeating writes heartbeats, and removes the record at the end.
func (m *Member) keepBeating() {
	wait := time.NewTimer(untilNextBeat(m.Interval()))
	defer wait.Stop()
	for {
		select {
		case <-wait.C:
			wait.Reset(untilNextBeat(m.Interval()))
			ctx, cancel := context.WithTimeout(m.ctx, m.lease)
			err := m.beat(ctx)
			cancel()
			if err != nil && m.ctx.Err() == nil {
				m.logger.WarnContext(ctx, "a heartbeat is not written", "member", m.id, "error", err)
			}
		case <-m.ctx.Done():
			m.remove(context.WithoutCancel(m.ctx), m.id, 0)
			return
		}
	}
}

// remove removes the record of a member: at a revision, if that is not 0.
func (m *Member) remove(ctx context.Context, id string, revision uint64) {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	tx := kv.Tx{Partition: partition, Quiet: true, Writes: []kv.Write{kv.Delete(memberKeys.With(id))}}
	if revision > 0 {
		tx.Conds = []kv.Cond{kv.AtRevision(memberKeys.With(id), revision)}
	}
	_, err := kv.Apply(ctx, m.driver, tx)
	if err != nil && !errors.Is(err, kv.ErrPrecondition) && !errors.Is(err, kv.ErrClosed) {
		m.logger.WarnContext(ctx, "the record of a member is not removed", "member", id, "error", err)
	}
}

// Lives reports whether a member lives, as far as this one has observed. This one does.
func (m *Member) Lives(id string) bool {
	if id == m.id {
		return true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.peers[id]
	return p != nil && p.lives(time.Now())
}

// Peers returns the other members that live, as far as this one has observed, sorted by
// their ids.
func (m *Member) Peers() []Peer {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	var out []Peer
	for id, p := range m.peers {
		if p.lives(now) {
			out = append(out, Peer{ID: id, Address: p.record.Address, Key: p.record.Key, Version: p.record.Version})
		}
	}
	slices.SortFunc(out, func(a, b Peer) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// alone reports whether no other member lives, and none has died so lately that its work
// may still be taken over.
func (m *Member) alone() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	for _, p := range m.peers {
		if p.lives(now) {
			return false
		}
	}
	return m.died.IsZero() || now.Sub(m.died) > m.lease
}

// Shared reports whether this member has seen others, living or not.
func (m *Member) Shared() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.shared
}

// Stored reports whether the store has a record of a member, which this one may not
// have seen alive: one that registered after the last Observe, or one that will be seen
// dead. Codes are those of the driver.
func (m *Member) Stored(ctx context.Context, id string) (bool, error) {
	_, err := m.driver.Get(ctx, partition, memberKeys.With(id))
	if errors.Is(err, kv.ErrNotFound) {
		return false, nil
	}
	return err == nil, kverror.Wrap(err, "look for a host")
}

// Gone reports whether a member has left or is dead, so that its work is free. It reads
// the store for one that was not seen alive.
func (m *Member) Gone(ctx context.Context, id string) (bool, error) {
	if m.Lives(id) {
		return false, nil
	}
	stored, err := m.Stored(ctx, id)
	return err == nil && !stored, err
}

// Observe reads the heartbeats of all members, and removes the records of those that are
// dead. It returns how many members this one has seen die or leave since New, so that a
// caller knows whether that has changed since its last call. Codes are those of the
// driver.
func (m *Member) Observe(ctx context.Context) (deaths int64, err error) {
	leave, err := enter(ctx, m.observing)
	if err != nil {
		return 0, err
	}
	defer leave()
	return m.observe(ctx)
}

// enter takes the only place in a channel until leave.
func enter(ctx context.Context, place chan struct{}) (leave func(), err error) {
	select {
	case place <- struct{}{}:
		return func() { <-place }, nil
	case <-ctx.Done():
		return nil, fault.AsError(fault.ContextError(ctx))
	}
}

// observe is Observe for the caller that has the place in m.observing.
func (m *Member) observe(ctx context.Context) (deaths int64, err error) {
	began := time.Now()
	found := map[string]bool{}
	lapsed := map[string]uint64{}
	alone := m.alone()
	for e, err := range kv.All(ctx, m.driver, partition, kv.Range{Prefix: memberKeys, Limit: kv.MaxScanLimit}) {
		if err != nil {
			return 0, kverror.Wrap(err, "read which hosts live")
		}
		rest, _ := e.Key.CutPrefix(memberKeys)
		id, _, ok := rest.CutString()
		if !ok || id == m.id || len(found) == maxMembers {
			continue
		}
		found[id] = true
		if m.recordHeartbeat(id, e) {
			lapsed[id] = e.Revision
		}
	}
	deaths = m.forgetDead(found, lapsed, began)
	if alone && !m.alone() {
		m.arrivals.notify(ctx)
	}
	for id, revision := range lapsed {
		m.remove(ctx, id, revision)
	}
	return deaths, nil
}

// Deaths is Observe for callers that ask often: it reads the store only if the last reading,
// for any caller, began more than three quarters of an Interval ago. Callers that watch for
// deaths call it every [Member.WatchInterval]; the work of a process that was killed is then
// found within its lease and twice the Interval, and a process reads the heartbeats no more
// often however many of its parts watch.
func (m *Member) Deaths(ctx context.Context) (deaths int64, err error) {
	leave, err := enter(ctx, m.observing) // a caller that comes during a reading shares it
	if err != nil {
		return 0, err
	}
	defer leave()
	m.mu.Lock()
	recent := !m.observed.IsZero() && time.Since(m.observed) < 3*m.WatchInterval()
	deaths = m.deaths
	m.mu.Unlock()
	if recent {
		return deaths, nil
	}
	return m.observe(ctx)
}

// WatchInterval returns how often to call Deaths.
func (m *Member) WatchInterval() time.Duration { return m.Interval() / 4 }

// forgetDead removes the peers that are dead or have no record, and returns how many have been
// removed since New.
func (m *Member) forgetDead(found map[string]bool, lapsed map[string]uint64, began time.Time) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.observed = began
	for id := range m.peers {
		if !found[id] || lapsed[id] > 0 {
			delete(m.peers, id)
			m.deaths++
			m.died = time.Now()
		}
	}
	return m.deaths
}

// recordHeartbeat records a heartbeat, and reports whether the member is dead.
func (m *Member) recordHeartbeat(id string, e kv.Entry) (dead bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, p := time.Now(), m.peers[id]
	if p == nil || p.revision != e.Revision {
		r, clock := record{}, m.now()
		if kv.DecodeRecord(e.Value, &r) != nil || r.Lease <= 0 {
			r.Lease, r.Until = m.lease, clock.Add(m.lease) // of another version: taken for one of this lease
		}
		first := p == nil
		p = &peer{record: r, revision: e.Revision, seen: now, lapsed: first && !r.Until.After(clock)}
		m.peers[id] = p
	}
	m.shared = m.shared || p.lives(now)
	return !p.lives(now)
}

// whileMember runs fn in a goroutine, which Close ends and waits for. It does nothing
// after Close.
func (m *Member) whileMember(fn func(ctx context.Context)) {
	m.registering.Lock()
	defer m.registering.Unlock()
	if !m.closed {
		m.beating.Go(func() { fn(m.ctx) })
	}
}

// Close removes the member's record, so that others take over at once what it held, and
// ends its subscriptions. It may be called twice.
func (m *Member) Close() error {
	m.registering.Lock()
	m.closed = true
	m.registering.Unlock()
	m.cancel()
	m.beating.Wait()
	return nil
}
