package mcpserver

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/internal/defaults"
	"github.com/agenthost/agenthost/host/runs"
	"github.com/agenthost/agenthost/host/stream"
	"github.com/agenthost/agenthost/host/threads"
)

// The defaults of [Options].
const (
	DefaultMaxSessions    = 10_000
	DefaultTenantSessions = 1_000
	DefaultMaxIdle        = 1_000
	DefaultSessionIdle    = time.Hour
	DefaultMaxBodyBytes   = 4 << 20
	DefaultFollow         = time.Second
)

// Options are the optional parts of a server. A zero field is its default.
type Options struct {
	Name         string // of the server, for clients ("agenthost")
	Title        string // for people
	Version      string
	Instructions string // for models that use the tools

	// Host is the registry's, and Journal that of its runs: with both, questions can be
	// answered after the registry has forgotten their runs, and by way of another host.
	Host    *host.Host
	Journal host.Journal
	// Threads has the artifacts that clients read as resources; nil offers none.
	Threads *threads.Store
	// View hides parts of runs and artifacts from clients; nil hides nothing.
	View *stream.View

	// KeepThreads gives each session a thread for each target: a call that names none
	// continues the one of the session's last call. Without it, and without a session, a
	// call that names no thread starts one.
	KeepThreads bool

	MaxSessions    int           // sessions at one time (10,000)
	TenantSessions int           // sessions of one tenant with the same rights (1,000)
	MaxIdle        int           // sets of a tenant's rights whose lists are kept without a session or a request (1,000)
	SessionIdle    time.Duration // after which a session without requests ends (1 h)
	MaxBodyBytes   int64         // of one request (4 MiB)
	Follow         time.Duration // how often the revisions of tenants with sessions are read (1 s)

	// WholeErrors answers with the whole text of errors, which only administrators may read.
	WholeErrors bool
	Logger      *slog.Logger // receives the errors of which clients see less; nil discards
}

// Caller is the holder of a credential.
type Caller struct {
	Tenant string
	Key    string // the id of the credential, by which usage is recorded
	Thread string // the only thread that the credential reaches; empty is all of the tenant

	MayRun  bool // calls tools, networks and agents, and reads prompts
	MayRead bool // reads artifacts of threads

	// Answering, unless nil, is called before the caller's answers to the questions of a run
	// are taken: for an audit log. Its error refuses them, and is that of the call.
	Answering func(ctx context.Context, run string) error
}

// Server serves clients of many tenants. It is safe for concurrent use.
type Server struct {
	runs    *runs.Registry
	catalog Catalog
	opts    Options
	history *host.History // of runs of tools: it stores nothing

	stop      context.CancelFunc
	following sync.WaitGroup
	sessions  atomic.Int64 // counted by Refresh, and added to by new ones
	beginning atomic.Int64 // requests that may begin a session

	mu        sync.Mutex
	endpoints map[rights]*endpoint
	closed    bool
}

// rights decide which offers a caller sees: callers with equal rights share an endpoint.
type rights struct {
	tenant, thread  string
	mayRun, mayRead bool
}

func (c *Caller) rights() rights {
	return rights{tenant: c.Tenant, thread: c.Thread, mayRun: c.MayRun, mayRead: c.MayRead}
}

// New returns a server whose calls are runs of a registry. A nil *Options means the defaults.
// The caller closes it, before the registry. Code invalid_argument without a registry or a
// catalog.
func New(registry *runs.Registry, catalog Catalog, opts *Options) (*Server, error) {
	if registry == nil || catalog == nil {
		return nil, host.Errorf(host.InvalidArgument, "an MCP server needs a registry of runs and a catalog")
	}
	s := &Server{runs: registry, catalog: catalog, endpoints: map[rights]*endpoint{}}
	if opts != nil {
		s.opts = *opts
	}
	o := &s.opts
	defaults.Set(&o.MaxSessions, DefaultMaxSessions)
	defaults.Set(&o.TenantSessions, DefaultTenantSessions)
	defaults.Set(&o.MaxIdle, DefaultMaxIdle)
	defaults.Set(&o.SessionIdle, DefaultSessionIdle)
	defaults.Set(&o.MaxBodyBytes, DefaultMaxBodyBytes)
	defaults.Set(&o.Follow, DefaultFollow)
	o.Name = cmp.Or(o.Name, "agenthost")
	o.Version = cmp.Or(o.Version, "(devel)")
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	var err error
	if s.history, err = newCallHistory(o.Journal); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	s.following.Go(func() { s.follow(ctx) })
	return s, nil
}

// Close ends all sessions, and the runs of their calls. It may be called twice.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	all := s.endpoints
	s.endpoints = map[rights]*endpoint{}
	s.mu.Unlock()
	s.stop()
	s.following.Wait()
	for _, e := range all {
		e.close()
	}
	return nil
}

// endpointIdle is how long an endpoint without sessions is kept.
const endpointIdle = 10 * time.Minute

// follow tells sessions of changed offers, and drops endpoints that have none.
func (s *Server) follow(ctx context.Context) {
	tick := time.NewTicker(s.opts.Follow)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		s.Refresh(ctx)
	}
}

// Refresh reads the revisions of tenants with sessions now, and tells the sessions of those
// that have changed. A program that knows of a change calls it; the server does so by itself
// every Options.Follow.
func (s *Server) Refresh(ctx context.Context) {
	// A session that begins meanwhile is perhaps counted twice until the next time, and
	// never missed: the limit holds.
	before := s.sessions.Load()
	total := s.beginning.Load()
	for _, e := range s.list() {
		n := e.sessions()
		total += int64(n)
		switch {
		case n > 0:
			e.used.Store(time.Now().UnixNano())
			e.threads.prune(e.server.Sessions())
			if err := e.refresh(ctx); err != nil && ctx.Err() == nil {
				s.opts.Logger.WarnContext(ctx, "offers stay as they were", "tenant", e.tenant, "error", err)
			}
		case time.Since(time.Unix(0, e.used.Load())) > endpointIdle:
			s.drop(e)
		}
	}
	s.sessions.Add(total - before)
}

// Updated tells the clients of a tenant that subscribe to a resource of the catalog that it has
// changed. Artifacts never change: others take their places.
func (s *Server) Updated(ctx context.Context, tenant, uri string) error {
	for _, e := range s.list() {
		if e.tenant != tenant {
			continue
		}
		if err := e.server.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: uri}); err != nil {
			return host.Errorf(host.Unavailable, "tell clients of %q: %w", uri, err)
		}
	}
	return nil
}

func (s *Server) list() []*endpoint {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*endpoint, 0, len(s.endpoints))
	for _, e := range s.endpoints {
		list = append(list, e)
	}
	return list
}

// sessionsOf returns how many sessions of a tenant are connected, with whatever rights.
func (s *Server) sessionsOf(tenant string) (n int) {
	for _, e := range s.list() {
		if e.tenant == tenant {
			n += e.sessions()
		}
	}
	return n
}

// drop removes an endpoint that has no requests and no sessions.
func (s *Server) drop(e *endpoint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.isIdle() && s.endpoints[e.rights] == e {
		delete(s.endpoints, e.rights)
	}
}

// evictIdle drops the endpoints that are idle the longest, a tenth more of them than is
// needed for another one, if more than Options.MaxIdle have no requests and no sessions. The
// number of others is bounded by those of sessions and requests. s.mu is held.
func (s *Server) evictIdle() {
	if len(s.endpoints) < s.opts.MaxIdle {
		return
	}
	var idle []*endpoint
	for _, e := range s.endpoints {
		if e.isIdle() {
			idle = append(idle, e)
		}
	}
	if len(idle) < s.opts.MaxIdle {
		return
	}
	slices.SortFunc(idle, func(a, b *endpoint) int { return cmp.Compare(a.used.Load(), b.used.Load()) })
	for _, e := range idle[:len(idle)-s.opts.MaxIdle+1+s.opts.MaxIdle/10] {
		delete(s.endpoints, e.rights)
	}
}

// enter returns the endpoint of a caller, with the present offers, for one request. The caller of
// enter calls leave when the request has ended.
func (s *Server) enter(ctx context.Context, caller *Caller) (e *endpoint, leave func(), err error) {
	if caller.Tenant == "" {
		return nil, nil, host.Errorf(host.Unauthenticated, "the request names no tenant")
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, nil, host.Errorf(host.Unavailable, "the host is being stopped").WithHint("connect to another one")
	}
	key := caller.rights()
	if e = s.endpoints[key]; e == nil {
		s.evictIdle()
		e = newEndpoint(s, key)
		s.endpoints[key] = e
	}
	e.requests.Add(1)
	s.mu.Unlock()
	e.used.Store(time.Now().UnixNano())
	leave = func() { e.requests.Add(-1) }
	if err := e.refresh(ctx); err != nil {
		if !e.made.Load() {
			leave()
			return nil, nil, err
		}
		s.opts.Logger.WarnContext(ctx, "offers stay as they were", "tenant", e.tenant, "error", err)
	}
	return e, leave, nil
}

// implementation describes the server to clients.
func (s *Server) implementation() *mcp.Implementation {
	return &mcp.Implementation{Name: s.opts.Name, Title: s.opts.Title, Version: s.opts.Version}
}
