package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/egress"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/defaults"
)

// Limits bound what servers may send and use. A zero field is its default; nothing is
// unlimited.
type Limits struct {
	ConnectTimeout time.Duration // until a session is open and its tools are listed (15 s)
	IdleTimeout    time.Duration // after which a session that no call uses is closed (5 min)
	Sessions       int           // open at once, of all tenants (256)
	Tools          int           // of one server (1,000)
	Pages          int           // of one list (100)
	MessageBytes   int           // of one message of a server (8 MiB)
	StreamBytes    int           // of one stream of messages in answer to a request (64 MiB)
	Messages       int           // that a server sends on its own account in 10 s (2,000)
	Samples        int           // questions to the model in one call (8)
	SampleTokens   int           // of an answer to one (4,096)
}

func (l Limits) withDefaults() Limits {
	defaults.Set(&l.ConnectTimeout, 15*time.Second)
	defaults.Set(&l.IdleTimeout, 5*time.Minute)
	defaults.Set(&l.Sessions, 256)
	defaults.Set(&l.Tools, 1000)
	defaults.Set(&l.Pages, 100)
	defaults.Set(&l.MessageBytes, 8<<20)
	defaults.Set(&l.StreamBytes, 64<<20)
	defaults.Set(&l.Messages, 2000)
	defaults.Set(&l.Samples, 8)
	defaults.Set(&l.SampleTokens, 4096)
	return l
}

// Options are the optional parts of [New].
type Options struct {
	Servers []Server            // of every tenant, or of those that Server.Tenants names
	Tenants map[string][]Server // of single tenants
	Lock    *Lock               // the accepted definitions; nil: none
	Secrets egress.Secrets      // that settings name; nil: none
	Logger  *slog.Logger        // default: nothing is logged
	Limits  Limits
	Version string // of the program, which servers read

	// Answer, unless nil, is asked before a run asks its person a server's question: for a
	// program whose person is there, or that knows the answer. A nil answer leaves the
	// question to the run, which ends with it and calls the tool again from its beginning
	// when it is answered. The answer is of the form that the run's would have.
	Answer AnswerFunc
}

// AnswerFunc answers a question of a server: see [Options].Answer.
type AnswerFunc func(ctx context.Context, call *host.Call, q *Elicitation) (answer json.RawMessage, err error)

// Servers are the MCP servers of a program. It is safe for concurrent use.
type Servers struct {
	secrets  egress.Secrets
	lock     *Lock
	answer   AnswerFunc // may be nil
	logger   *slog.Logger
	limits   Limits
	version  string
	spawner  *spawner
	lifetime context.Context // its lifetime is that of the Servers
	end      context.CancelFunc
	work     sync.WaitGroup // goroutines that open, watch and close sessions

	mu      sync.Mutex
	closed  bool
	shared  map[string]*Server            // of all tenants, by name
	tenants map[string]map[string]*Server // of one, by tenant and name
	links   map[linkKey]*link
	places  int // of Limits.Sessions that are taken: sessions that are open, being opened or being closed
}

// linkKey names the link of a tenant to a server; the tenant of a shared one is empty.
type linkKey struct{ tenant, server string }

// New returns the servers of a program. A nil *Options has none, until [Servers.SetTenant].
// Nothing is started or asked before it is needed. Code invalid_argument for a server that
// cannot work, and for two of one name that a tenant would have.
func New(opts *Options) (*Servers, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	s := &Servers{
		secrets: o.Secrets, lock: o.Lock, answer: o.Answer, logger: o.Logger, limits: o.Limits.withDefaults(), version: o.Version,
		tenants: map[string]map[string]*Server{}, links: map[linkKey]*link{},
	}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	if s.lock == nil {
		s.lock = &Lock{}
	}
	var err error
	if s.shared, err = byName(o.Servers); err != nil {
		return nil, err
	}
	for tenant, list := range o.Tenants {
		if s.tenants[tenant], err = ofTenant(tenant, list, s.shared); err != nil {
			return nil, err
		}
	}
	s.spawner = newSpawner()
	s.lifetime, s.end = context.WithCancel(context.Background())
	s.work.Go(s.closeIdle)
	return s, nil
}

// byName checks servers and returns copies of them.
func byName(list []Server) (map[string]*Server, error) {
	out := map[string]*Server{}
	for _, server := range list {
		if err := server.check(); err != nil {
			return nil, err
		}
		if out[server.Name] != nil {
			return nil, fault.Errorf(fault.InvalidArgument, "two MCP servers are named %q", server.Name).WithHint("rename one of them")
		}
		out[server.Name] = &server
	}
	return out, nil
}

// ofTenant checks the servers of a tenant, beside those of all tenants.
func ofTenant(tenant string, list []Server, shared map[string]*Server) (map[string]*Server, error) {
	if err := host.ValidateTenant(tenant); err != nil {
		return nil, err
	}
	own, err := byName(list)
	if err != nil {
		return nil, fault.Wrap(err, "tenant %q", tenant)
	}
	if err := checkNames(tenant, own, shared); err != nil {
		return nil, err
	}
	for name, server := range own {
		if server.Shared || len(server.Tenants) > 0 {
			return nil, fault.Errorf(fault.InvalidArgument, "MCP server %q belongs to a tenant, and is shared or names tenants", name).WithHint("remove Shared and Tenants")
		}
	}
	return own, nil
}

// checkNames refuses a tenant's own servers of names that it has already.
func checkNames(tenant string, own, shared map[string]*Server) error {
	for name := range own {
		if common := shared[name]; common != nil && common.isFor(tenant) {
			return fault.Errorf(fault.AlreadyExists, "MCP server %q: the tenant has one of that name, which all tenants share", name).WithHint("use another name")
		}
	}
	return nil
}

// isFor reports whether a tenant has a server of all tenants.
func (s *Server) isFor(tenant string) bool {
	return len(s.Tenants) == 0 || slices.Contains(s.Tenants, tenant)
}

// SetTenant puts servers in the place of a tenant's own. Sessions of those that are removed
// or changed are closed; their calls fail. Codes invalid_argument, and already_exists for the
// name of a server that all tenants share.
func (s *Servers) SetTenant(tenant string, servers []Server) error {
	s.mu.Lock()
	own, err := ofTenant(tenant, servers, s.shared)
	if err == nil && s.closed {
		err = errClosed()
	}
	if err != nil {
		s.mu.Unlock()
		return err
	}
	var gone []*link
	for key, l := range s.links {
		if key.tenant == tenant && l.ofTenant {
			gone = append(gone, l)
			delete(s.links, key)
		}
	}
	s.setTenant(tenant, own)
	s.mu.Unlock()
	closeLinks(gone)
	return nil
}

// setTenant makes servers a tenant's own. s.mu is held.
func (s *Servers) setTenant(tenant string, own map[string]*Server) {
	if s.tenants[tenant] = own; len(own) == 0 {
		delete(s.tenants, tenant)
	}
}

// Replace puts servers in the place of those of all tenants, and of those that the tenants of
// the map have of their own; other tenants keep theirs. Sessions of servers that are removed or
// changed are closed and their processes end; their calls fail. Sessions of others stay. If it
// fails nothing changes. Codes are those of [New].
func (s *Servers) Replace(servers []Server, tenants map[string][]Server) error {
	s.mu.Lock()
	shared, owned, err := s.replacement(servers, tenants)
	if err != nil {
		s.mu.Unlock()
		return err
	}
	s.shared = shared
	for tenant, own := range owned {
		s.setTenant(tenant, own)
	}
	gone := s.takeStaleLinks()
	s.mu.Unlock()
	closeLinks(gone)
	return nil
}

// CheckReplace returns the error that [Servers.Replace] would return now, and changes nothing.
func (s *Servers) CheckReplace(servers []Server, tenants map[string][]Server) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _, err := s.replacement(servers, tenants)
	return err
}

// replacement returns the servers of all tenants, and those of single ones, for a Replace. s.mu
// is held.
func (s *Servers) replacement(servers []Server, tenants map[string][]Server) (shared map[string]*Server, owned map[string]map[string]*Server, err error) {
	if shared, err = byName(servers); err != nil {
		return nil, nil, err
	}
	owned = map[string]map[string]*Server{}
	for tenant, list := range tenants {
		if owned[tenant], err = ofTenant(tenant, list, shared); err != nil {
			return nil, nil, err
		}
	}
	for tenant, own := range s.tenants {
		if _, replaced := owned[tenant]; !replaced {
			err = errors.Join(err, checkNames(tenant, own, shared))
		}
	}
	if err == nil && s.closed {
		err = errClosed()
	}
	return shared, owned, err
}

// takeStaleLinks removes and returns the links to servers that the tenant does not have any
// more, or has otherwise. s.mu is held.
func (s *Servers) takeStaleLinks() (gone []*link) {
	for key, l := range s.links {
		now, ofTenant := s.find(key.tenant, key.server)
		if key.tenant == "" { // of a shared session
			now, ofTenant = s.shared[key.server], false
		}
		if now == nil || ofTenant != l.ofTenant || !reflect.DeepEqual(*now, *l.server) {
			gone = append(gone, l)
			delete(s.links, key)
		}
	}
	return gone
}

// closeLinks closes links at once, and returns when their sessions have ended.
func closeLinks(links []*link) {
	var closing sync.WaitGroup
	for _, l := range links {
		closing.Go(l.close)
	}
	closing.Wait()
}

// Names returns the names of the servers that a tenant has, sorted.
func (s *Servers) Names(tenant string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for name, server := range s.shared {
		if server.isFor(tenant) {
			names = append(names, name)
		}
	}
	names = slices.AppendSeq(names, maps.Keys(s.tenants[tenant]))
	slices.Sort(names)
	return names
}

// link returns the link of a tenant to a server of its own or of all tenants. Code
// not_found for another.
func (s *Servers) link(tenant, name string) (*link, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed()
	}
	server, ofTenant := s.find(tenant, name)
	if server == nil {
		return nil, fault.Errorf(fault.NotFound, "there is no MCP server %q", plainLine(name, maxServerName))
	}
	key := linkKey{tenant, name}
	if server.Shared {
		key.tenant = ""
	}
	if l := s.links[key]; l != nil {
		return l, nil
	}
	l := newLink(s, server, key.tenant, ofTenant)
	s.links[key] = l
	return l, nil
}

// find returns the server that a tenant has of a name, and whether it is its own; nil without
// one. s.mu is held.
func (s *Servers) find(tenant, name string) (server *Server, ofTenant bool) {
	if own := s.tenants[tenant][name]; own != nil {
		return own, true
	}
	if common := s.shared[name]; common != nil && common.isFor(tenant) {
		return common, false
	}
	return nil, false
}

func errClosed() error {
	return fault.Errorf(fault.FailedPrecondition, "the MCP servers are closed")
}

// Close ends all sessions and processes, and returns when they have ended. It may be called
// twice.
func (s *Servers) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	links := slices.Collect(maps.Values(s.links))
	s.mu.Unlock()
	s.end()
	closeLinks(links)
	s.work.Wait()
	s.spawner.close()
	return nil
}

// closeIdle closes the sessions that no call has used for a time.
func (s *Servers) closeIdle() {
	tick := time.NewTicker(s.limits.IdleTimeout / 4)
	defer tick.Stop()
	for {
		select {
		case <-s.lifetime.Done():
			return
		case <-tick.C:
			for _, l := range s.idleLinks(s.limits.IdleTimeout) {
				l.dropIdle(s.limits.IdleTimeout)
			}
		}
	}
}

// idleLinks returns the links with a session that no call has used for a time, the longest
// idle first.
func (s *Servers) idleLinks(since time.Duration) []*link {
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.links))
	s.mu.Unlock()
	idle := map[*link]time.Time{}
	for _, l := range all {
		if at, ok := l.idleSince(); ok && time.Since(at) >= since {
			idle[l] = at
		}
	}
	return slices.SortedFunc(maps.Keys(idle), func(a, b *link) int { return idle[a].Compare(idle[b]) })
}

// takePlace takes a place among Limits.Sessions for a session that is about to be opened, and
// closes an idle one if there is no other. free gives it back, once. Code resource_exhausted if
// all sessions are in use or being opened.
func (s *Servers) takePlace() (free func(), err error) {
	for range maxEvictions {
		s.mu.Lock()
		if s.places < s.limits.Sessions {
			s.places++
			s.mu.Unlock()
			return sync.OnceFunc(func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.places--
			}), nil
		}
		s.mu.Unlock()
		if !slices.ContainsFunc(s.idleLinks(0), func(l *link) bool { return l.dropIdle(0) }) {
			break
		}
	}
	e := fault.Errorf(fault.ResourceExhausted, "as many sessions of MCP servers are open as may be: %d", s.limits.Sessions).WithHint("raise Limits.Sessions")
	e.Limit, e.Retryable = "Sessions", true
	return nil, e
}

// maxEvictions is how many idle sessions are closed for one that is to be opened: others may
// take the places first.
const maxEvictions = 4
