package sessions

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/stream"
	"github.com/agenthost/agenthost/host/threads"
)

// The defaults of [Options], and what cannot be changed.
const (
	DefaultStateBytes = 8 << 20          // of a session that a client keeps
	DefaultHeartbeat  = 5 * time.Second  // between signs of life of a background run
	DefaultExpiry     = 30 * time.Second // without one, after which it is taken for dead
	DefaultDetached   = 64               // background runs at one time
	DefaultMessages   = threads.DefaultWindow
	minStateBytes     = 1 << 10
)

// Service serves one agent or network to clients, as sessions. Make one with
// [New]; it is safe for concurrent use.
type Service struct {
	target host.Target
	host   *host.Host
	store  *threads.Store // nil if clients keep their sessions
	schema *host.Schema   // of the custom state; may be nil
	opts   Options

	ctx      context.Context // of background runs
	cancel   context.CancelFunc
	working  sync.WaitGroup
	mu       sync.Mutex
	detached map[runKey]*detached
	outside  map[runKey]int // turns that wait for those of other processes, by session
	closed   bool
}

// Options are the optional parts of a service.
type Options struct {
	// Host has what runs need. Its History must be nil: where sessions are kept is
	// for Store to say.
	Host host.Options

	// Store keeps the sessions. Without one the clients do: each turn answers with
	// the whole session, which the next one brings along.
	Store *threads.Store

	// HistoryOptions are those of the store's history, such as processors of what a
	// model is shown.
	HistoryOptions host.HistoryOptions

	// View is what clients may see; nil is everything. What a client keeps and is
	// not allowed to see needs Keys, or the next turn does not have it.
	View *stream.View

	// Keys seal the sessions that clients keep: they can neither be read nor forged.
	// A plain one is then refused. Not with Store.
	Keys *Keys

	// AnyAgent lets sessions of other agents be gone on with.
	AnyAgent bool

	// StateBytes bounds a session that a client keeps, as JSON (8 MiB).
	StateBytes int

	Heartbeat time.Duration // between signs of life of a background run (5 s)
	Expiry    time.Duration // without one, after which it is taken for dead (30 s)
	Detached  int           // background runs at one time (64)
}

// New returns a service. Code invalid_argument for options that contradict each
// other or the target, and for numbers below 0.
func New(target host.Target, opts *Options) (*Service, error) {
	if opts == nil {
		opts = &Options{}
	}
	s := &Service{target: target, store: opts.Store, schema: host.StateSchemaOf(target), opts: *opts, detached: map[runKey]*detached{}, outside: map[runKey]int{}}
	if err := s.check(); err != nil {
		return nil, err
	}
	s.opts.StateBytes = cmp.Or(s.opts.StateBytes, DefaultStateBytes)
	s.opts.Heartbeat = cmp.Or(s.opts.Heartbeat, DefaultHeartbeat)
	s.opts.Expiry = cmp.Or(s.opts.Expiry, DefaultExpiry)
	s.opts.Detached = cmp.Or(s.opts.Detached, DefaultDetached)
	hostOpts := opts.Host
	if s.store != nil {
		var err error
		if hostOpts.History, err = host.NewHistory(&history{Store: s.store, service: s}, &s.opts.HistoryOptions); err != nil {
			return nil, err
		}
	}
	var err error
	if s.host, err = host.New(&hostOpts); err != nil {
		return nil, err
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

func (s *Service) check() error {
	o := &s.opts
	bad := func(format string, args ...any) error {
		return host.Errorf(host.InvalidArgument, "sessions of %q: %w", s.target.Name(), host.Errorf(host.InvalidArgument, format, args...))
	}
	switch {
	case o.Host.History != nil || host.HasHistory(s.target):
		return bad("a history of the host or the target would keep them a second time; give Options.Store instead")
	case o.Keys != nil && s.store != nil:
		return bad("keys seal what clients keep, and here a store keeps it")
	case o.StateBytes < 0 || o.Heartbeat < 0 || o.Expiry < 0 || o.Detached < 0:
		return bad("a bound is below 0; leave it out for the default")
	case o.StateBytes > 0 && o.StateBytes < minStateBytes:
		return bad("StateBytes is %d, less than %d", o.StateBytes, minStateBytes)
	case o.Expiry > 0 && o.Expiry <= cmp.Or(o.Heartbeat, DefaultHeartbeat):
		return bad("Expiry is %s, not more than Heartbeat", o.Expiry)
	}
	return nil
}

// Managed says who keeps sessions.
type Managed string

// Who may keep sessions.
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
func (s *Service) Name() string { return s.target.Name() }

func (s *Service) needStore(what string) error {
	if s.store != nil {
		return nil
	}
	return host.Errorf(host.FailedPrecondition, "%s: the sessions of %q are kept by their clients", what, s.Name()).
		WithHint("send the session itself, as the last turn has returned it")
}
