package sessions

import (
	"cmp"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/cluster"
	"github.com/agenthost/agenthost/host/stream"
	"github.com/agenthost/agenthost/host/threads"
)

// The defaults of [Options].
const (
	DefaultStateBytes    = 8 << 20          // of a session that a client keeps
	DefaultHeartbeat     = 5 * time.Second  // between heartbeats of a background turn
	DefaultExpiry        = 30 * time.Second // after the last heartbeat
	DefaultMaxBackground = 64               // background turns at one time
	DefaultMessages      = threads.DefaultWindow
	minStateBytes        = 1 << 10
)

// Service serves one agent or network to clients, as sessions. Make one with
// [New]; it is safe for concurrent use.
type Service struct {
	served     *served
	client     *clientManaged // nil where a store keeps the sessions
	store      *storeManaged  // nil where clients keep them
	background *background    // likewise
	bodyBytes  int64          // of a request to [Service.Handler]
}

// Options are the optional parts of a service.
type Options struct {
	// Host are the options of the host that runs the turns. Its History must be nil:
	// Store says where sessions are kept.
	Host host.Options

	// Store keeps the sessions. Without one the clients do: each turn answers with the
	// whole session, which the next request brings.
	Store *threads.Store

	// HistoryOptions are those of the store's history, such as the processors of the
	// view that models get.
	HistoryOptions host.HistoryOptions

	// View is the part that clients may see; nil shows everything. A session that its
	// client keeps needs Keys for its hidden parts, or the next turn does not have them.
	View *stream.View

	// Keys seal the sessions that clients keep: they can neither be read nor forged.
	// A plain one is then refused. Not with Store.
	Keys *Keys

	// AnyAgent accepts sessions of other agents.
	AnyAgent bool

	// StateBytes bounds a session that a client keeps, as JSON (8 MiB).
	StateBytes int

	Heartbeat     time.Duration // between heartbeats of a background turn (5 s)
	Expiry        time.Duration // after the last heartbeat; then the turn's process is taken for dead (30 s)
	MaxBackground int           // background turns at one time (64)

	// Member is this process among those that share the store. With it a turn in the
	// background belongs to a member, and another one takes it over when that one is dead,
	// instead of after Expiry: see [Service.RecoverLost]. The caller closes it after the
	// service. Give the store a lock of it ([cluster.NewLocks]) as well.
	Member *cluster.Member
}

// New returns a service. Code invalid_argument for options that contradict each
// other or the target, and for numbers below 0.
func New(target host.Target, opts *Options) (*Service, error) {
	if opts == nil {
		opts = &Options{}
	}
	o := *opts
	if err := o.check(target); err != nil {
		return nil, err
	}
	o.StateBytes = cmp.Or(o.StateBytes, DefaultStateBytes)
	o.Heartbeat = cmp.Or(o.Heartbeat, DefaultHeartbeat)
	o.Expiry = cmp.Or(o.Expiry, DefaultExpiry)
	o.MaxBackground = cmp.Or(o.MaxBackground, DefaultMaxBackground)

	s := &Service{bodyBytes: int64(2*o.StateBytes + maxRequestBytes)}
	s.served = &served{target: target, schema: host.StateSchemaOf(target), view: o.View, anyAgent: o.AnyAgent, logger: o.Host.Logger}
	if o.Store != nil {
		if err := s.keepIn(o.Store, &o); err != nil {
			return nil, err
		}
	} else {
		s.client = &clientManaged{served: s.served, keys: o.Keys, maxBytes: o.StateBytes}
	}
	var err error
	if s.served.host, err = host.New(&o.Host); err != nil {
		return nil, err
	}
	return s, nil
}

// keepIn makes the parts of a service whose sessions a store keeps, and gives the
// host their history.
func (s *Service) keepIn(store *threads.Store, o *Options) error {
	records := &records{driver: store.Driver(), agent: s.served.name(), expiry: o.Expiry, hosts: newHosts(store.Driver(), o.Member), logError: s.served.logError}
	running := newRunningTurns(o.MaxBackground)
	order := &turnOrder{threads: store, records: records, running: running, foreignWaits: map[runKey]int{}}
	s.store = &storeManaged{served: s.served, threads: store, records: records}
	h := newHistory(store, s.store, order, running)
	s.background = &background{served: s.served, sessions: s.store, history: h, records: records, hosts: records.hosts, order: order, running: running, heartbeat: o.Heartbeat}
	order.takeOver = s.background.takeOver
	var err error
	o.Host.History, err = host.NewHistory(h, &o.HistoryOptions)
	return err
}

func (o *Options) check(target host.Target) error {
	bad := func(format string, args ...any) error {
		return host.Errorf(host.InvalidArgument, "sessions of %q: %w", target.Name(), host.Errorf(host.InvalidArgument, format, args...))
	}
	switch {
	case o.Host.History != nil || host.HasHistory(target):
		return bad("a history of the host or the target would keep them a second time; give Options.Store instead")
	case o.Keys != nil && o.Store != nil:
		return bad("keys seal what clients keep, and here a store keeps it")
	case o.Member != nil && o.Store == nil:
		return bad("a member of a cluster shares a store, and here clients keep the sessions")
	case o.StateBytes < 0 || o.Heartbeat < 0 || o.Expiry < 0 || o.MaxBackground < 0:
		return bad("a bound is below 0; leave it out for the default")
	case o.StateBytes > 0 && o.StateBytes < minStateBytes:
		return bad("StateBytes is %d, less than %d", o.StateBytes, minStateBytes)
	case o.Expiry > 0 && o.Expiry <= cmp.Or(o.Heartbeat, DefaultHeartbeat):
		return bad("Expiry is %s, not more than Heartbeat", o.Expiry)
	}
	return nil
}

// Managed says whether the server or the clients keep sessions.
type Managed string

// The keepers of sessions.
const (
	ByServer Managed = "server"
	ByClient Managed = "client"
)

// Managed returns who keeps the sessions of the service.
func (s *Service) Managed() Managed {
	if s.store != nil {
		return ByServer
	}
	return ByClient
}

// Name returns the name of the agent or network.
func (s *Service) Name() string { return s.served.name() }

func (s *Service) keeper() sessionKeeper {
	if s.store != nil {
		return s.store
	}
	return s.client
}

func (s *Service) needStore(what string) error {
	if s.store != nil {
		return nil
	}
	return host.Errorf(host.FailedPrecondition, "%s: the sessions of %q are kept by their clients", what, s.Name()).
		WithHint("send the session itself, as the last turn has returned it")
}
