package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"path"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/audit"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/idempotency"
	"github.com/agenthost/agenthost/host/internal/defaults"
	"github.com/agenthost/agenthost/host/keys"
	"github.com/agenthost/agenthost/host/memory"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/responses"
	"github.com/agenthost/agenthost/host/runs"
	"github.com/agenthost/agenthost/host/sessions"
	"github.com/agenthost/agenthost/host/stream"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/usage"
)

// The defaults of [Bounds].
const (
	DefaultMaxBodyBytes   = 4 << 20
	DefaultRequestTimeout = 30 * time.Second
	DefaultBodyTimeout    = 30 * time.Second
	DefaultUploadTimeout  = 5 * time.Minute
	DefaultMaxModuleBytes = plugin.DefaultModuleBytes
	DefaultMaxFileBytes   = 256 << 20
)

// The scopes of a tenant's credential: the rights that routes ask for.
const (
	ReadRuns     = "runs:read"
	WriteRuns    = "runs:write"
	ReadThreads  = "threads:read"
	WriteThreads = "threads:write"
	ReadUsage    = "usage:read"
	ReadMemory   = "memory:read"
	WriteMemory  = "memory:write"
	ReadPlugins  = "plugins:read"
	WritePlugins = "plugins:write" // upload them, and say which serve
	GrantPlugins = "plugins:grant" // what they may do
	MintTokens   = "tokens:mint"
)

// Scopes returns all scopes of tenants, in their order.
func Scopes() []string {
	return []string{ReadRuns, WriteRuns, ReadThreads, WriteThreads, ReadUsage, ReadMemory, WriteMemory, ReadPlugins, WritePlugins, GrantPlugins, MintTokens}
}

// Authenticate returns who sends a request. Its error is the answer: code
// unauthenticated for a request without a credential, or with one that is not
// valid. It is called by many goroutines at once. [keys.Store.Authenticate] is one.
type Authenticate func(*http.Request) (*keys.Principal, error)

// Targets are the networks and agents that can be run.
type Targets interface {
	// Target returns the one of a name, "" being the default. Code not_found.
	Target(name string) (host.Target, error)
	// Targets returns the names.
	Targets() []string
}

// Options are the parts of an API. The routes of a part that is nil do not exist:
// they are neither served nor in the OpenAPI document.
type Options struct {
	Runs    *runs.Registry // with Targets: starting and following runs
	Targets Targets
	Threads *threads.Store
	Ledger  *usage.Ledger
	Memory  *memory.Store
	Plugins Plugins
	Keys    *keys.Store // tokens of browser pages; with Admin the keys of tenants and administrators
	Audit   *audit.Log  // receives each change before it is made; nil keeps no account of them
	Admin   *Admin      // the routes of administrators; nil has none

	// Responses keeps the answers of OpenAI's Responses API, with Runs; nil serves none.
	Responses *responses.Store

	// Idempotency remembers the requests that came with the header Idempotency-Key, so that
	// another request with the key of an earlier one is refused. nil remembers none: the
	// same request still makes nothing twice.
	Idempotency *idempotency.Store

	// Sessions returns the sessions of the network or agent of a name, and the same each
	// time; with Targets. nil serves none.
	Sessions func(target string) (*sessions.Service, error)

	// Allowed reports whether a principal may run a target; nil allows each. A target
	// that is not allowed is answered like one that does not exist.
	Allowed func(ctx context.Context, p *keys.Principal, target string) bool
	// Ready returns why the host takes no requests, such as that it is being drained;
	// nil is always ready.
	Ready func(context.Context) error
	// Metrics serves GET /metrics, without a credential; nil serves none.
	Metrics http.Handler

	MCP *MCP // clients of the Model Context Protocol; nil serves none

	// Observe are called around every request, in order. [otelhost.Instrument.Request]
	// and [metrics.Collector.Request] are such functions.
	Observe []Observe

	// Origins are the origins of the browser pages that may call the API, such as
	// https://app.example.com; "*" is each. Default: none.
	Origins []string

	Bounds Bounds
	Stream stream.ServeOptions
	View   *stream.View // what clients see of states, messages and events; nil is all

	// WholeErrors answers with the whole text of errors, which only administrators may
	// read. The events of runs have what clients may read all the same.
	WholeErrors bool

	Logger *slog.Logger // receives the errors of which clients see less; nil discards
}

// Bounds bound requests. A zero field is its default.
type Bounds struct {
	MaxBodyBytes   int64         // of one request (4 MiB)
	RequestTimeout time.Duration // of one request that is not a stream (30 s)
	BodyTimeout    time.Duration // for a client to send its body (30 s)
	MaxModuleBytes int64         // of an uploaded plugin (16 MiB)
	MaxFileBytes   int64         // of another file (256 MiB)
	UploadTimeout  time.Duration // for a client to send a file (5 min)
}

// withDefaults returns the bounds with the defaults filled in.
func (l Bounds) withDefaults() Bounds {
	defaults.Set(&l.MaxBodyBytes, DefaultMaxBodyBytes)
	defaults.Set(&l.RequestTimeout, DefaultRequestTimeout)
	defaults.Set(&l.BodyTimeout, DefaultBodyTimeout)
	defaults.Set(&l.MaxModuleBytes, DefaultMaxModuleBytes)
	defaults.Set(&l.MaxFileBytes, DefaultMaxFileBytes)
	defaults.Set(&l.UploadTimeout, DefaultUploadTimeout)
	return l
}

// API is the handler of all routes. It is safe for concurrent use.
type API struct {
	options      Options
	authenticate Authenticate
	routes       []*route
	mux          *http.ServeMux
	unknown      *route                 // of paths that no route has
	document     func() json.RawMessage // OpenAPI, made when it is asked for: few hosts are
	origins      map[string]bool
	denials      denials // of changes, which are written to the audit log
}

// New returns an API whose requests authenticate identifies. Code invalid_argument
// without it, and for Runs or Sessions without Targets.
func New(authenticate Authenticate, opts *Options) (*API, error) {
	if authenticate == nil {
		return nil, host.Errorf(host.InvalidArgument, "an API needs a function that authenticates requests")
	}
	a := &API{authenticate: authenticate, mux: http.NewServeMux(), origins: map[string]bool{}}
	if opts != nil {
		a.options = *opts
	}
	o := &a.options
	if (o.Runs == nil && o.Sessions == nil) != (o.Targets == nil) {
		return nil, host.Errorf(host.InvalidArgument, "an API with runs or sessions needs targets, and the reverse")
	}
	o.Bounds = o.Bounds.withDefaults()
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	for _, origin := range o.Origins {
		a.origins[origin] = true
	}
	a.routes = a.table()
	a.document = sync.OnceValue(a.openAPI)
	a.mount()
	return a, nil
}

// OpenAPI returns the document that describes the routes: OpenAPI 3.1, as JSON.
func (a *API) OpenAPI() json.RawMessage { return a.document() }

// logMasked logs an error of which the client reads less.
func (a *API) logMasked(c *call, err error) {
	if err == nil || a.options.WholeErrors || host.CodeOf(err) == host.Canceled || errors.Is(err, errPanicked) || !fault.Masked(err) {
		return
	}
	a.options.Logger.LogAttrs(c.ctx, slog.LevelError, "request failed",
		slog.String("request", c.id), slog.String("route", c.route.id), slog.String("tenant", c.principal.Tenant), slog.Any("error", err))
}

// isClean reports whether a path is written without empty elements, "." and "..": the mux
// would redirect others, which no client of an API follows with a body.
func isClean(escaped string) bool {
	clean := path.Clean("/" + escaped)
	return escaped == clean || escaped == clean+"/"
}
