package httpapi

import (
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/agenthost/agenthost/host"
)

// route is one row of the table: everything that the mux, the checks of a request
// and the OpenAPI document say about it comes from here.
type route struct {
	method, path string // the path as http.ServeMux has it
	id           string // operationId
	group        string // tag
	summary      string
	scope        string // "" is a route without a credential
	any          bool   // any credential will do
	admin        bool   // for administrators alone
	audit        string // the action in the audit log; "" is a route that changes nothing

	query   []param
	headers []param
	body    any    // a value of the body's type; nil is no body
	takes   string // the media type of a body that is not JSON: an upload, which the handler reads
	raw     string // the media type of an answer that is not JSON
	stream  bool   // the answer may be a stream: no deadline for the whole
	status  int    // of the answer; default 200
	answer  any    // a value of the answer's type; nil is an empty answer

	handle func(*call) error
	refuse func(*call, error) // answers an error; nil is a Problem
}

// param is a parameter in the query or a header.
type param struct {
	name, kind, doc string // kind is string, integer or boolean
	values          []string
}

// The parameters that several routes have.
var (
	limitParam  = param{name: "limit", kind: "integer", doc: "the most items of one page"}
	cursorParam = param{name: "cursor", kind: "string", doc: "the member next of the page before"}
	ifMatch     = param{name: "If-Match", kind: "string", doc: "the ETag of the thread that the change is of; 412 if the thread has changed since"}
)

func (r *route) known(name string) bool {
	return slices.ContainsFunc(r.query, func(p param) bool { return p.name == name })
}

// pathNames returns the names of the path's variables.
func (r *route) pathNames() []string {
	var names []string
	for _, part := range strings.Split(r.path, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			names = append(names, strings.TrimSuffix(name, "}"))
		}
	}
	return names
}

// table returns the routes of the parts that the API has.
func (a *API) table() []*route {
	o := &a.options
	list := (&hostHandlers{a}).routes()
	runs := &runHandlers{runs: o.Runs, targets: o.Targets, allowed: o.Allowed, view: o.View, stream: o.Stream}
	if o.Runs != nil {
		list = append(list, runs.routes()...)
		models := &openAIHandlers{runs, o.Threads}
		list = append(list, models.routes()...)
		if o.Responses != nil {
			list = append(list, (&responseHandlers{openAIHandlers: models, store: o.Responses}).routes()...)
		}
	}
	if o.Sessions != nil {
		list = append(list, (&sessionHandlers{services: o.Sessions, runs: runs, mounted: map[string]mountedService{}}).routes()...)
	}
	if o.Threads != nil {
		list = append(list, (&threadHandlers{store: o.Threads, view: o.View}).routes()...)
	}
	if o.Ledger != nil {
		list = append(list, (&usageHandlers{o.Ledger}).routes()...)
	}
	if o.Keys != nil {
		list = append(list, (&tokenHandlers{o.Keys}).routes()...)
	}
	if o.Admin != nil {
		list = append(list, a.adminRoutes()...)
	}
	if o.Memory != nil {
		list = append(list, (&memoryHandlers{o.Memory}).routes()...)
	}
	if o.Plugins != nil {
		list = append(list, (&pluginHandlers{plugins: o.Plugins}).routes()...)
	}
	if o.MCP != nil {
		list = append(list, (&mcpHandlers{mcp: o.MCP, origins: a.origins}).routes()...)
	}
	for _, r := range list {
		if r.status == 0 {
			r.status = http.StatusOK
		}
	}
	return list
}

// mount registers the routes, and answers for unknown paths and methods.
func (a *API) mount() {
	methods := map[string][]string{}
	for _, r := range a.routes {
		a.mux.HandleFunc(r.method+" "+r.path, func(w http.ResponseWriter, req *http.Request) { a.serve(w, req, r) })
		methods[r.path] = append(methods[r.path], r.method)
	}
	for path, of := range methods {
		slices.Sort(of)
		allow := strings.Join(of, ", ")
		wrong := &route{id: "wrongMethod", handle: func(c *call) error {
			c.w.Header().Set("Allow", allow)
			return &statusError{http.StatusMethodNotAllowed, host.Errorf(host.InvalidArgument, "%s is not a method of %s", c.r.Method, path).WithHint("use %s", allow)}
		}}
		a.mux.HandleFunc(path, func(w http.ResponseWriter, req *http.Request) { a.serve(w, req, wrong) })
	}
	a.unknown = &route{id: "unknown", handle: unknownPath}
	a.mux.HandleFunc("/", func(w http.ResponseWriter, req *http.Request) { a.serve(w, req, a.unknown) })
}

// unknownPath answers requests whose path is that of no route.
func unknownPath(c *call) error {
	return host.Errorf(host.NotFound, "there is no such path").WithHint("GET /v1/openapi.json lists the paths")
}

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if a.cors(w, r) {
		return
	}
	if r.Method == http.MethodConnect || !isClean(r.URL.EscapedPath()) { // which the mux redirects
		a.serve(w, r, a.unknown)
		return
	}
	a.mux.ServeHTTP(w, r)
}

// serve answers a request of a route.
func (a *API) serve(w http.ResponseWriter, r *http.Request, of *route) {
	out := &statusWriter{ResponseWriter: w}
	r, observed := a.observe(out, r, of)
	defer observed()
	c, cancel := a.begin(out, r, of)
	defer cancel()
	err := c.handle()
	c.audit.end(err)
	switch {
	case err == nil || errors.Is(err, errAnswered):
	case out.status != 0 && errors.Is(err, errPanicked):
		panic(http.ErrAbortHandler) // a client must not take the part that it has for the whole
	case of.refuse != nil:
		of.refuse(c, err)
	default:
		c.fail(err)
	}
}

// handle admits the call and calls the route's handler. Its panic is logged, and an error of
// code internal.
func (c *call) handle() (err error) {
	defer func() {
		switch p := recover(); p {
		case nil:
		case http.ErrAbortHandler:
			panic(p)
		default:
			err = c.panicked(p)
		}
	}()
	if err := c.api.admit(c); err != nil {
		return err
	}
	return c.route.handle(c)
}

// maxStackBytes bounds the stack of a panic in the log.
const maxStackBytes = 16 << 10

// errPanicked is wrapped by the error of a call whose handler panicked.
var errPanicked = errors.New("the handler panicked")

// panicked logs the panic p of the call's handler, and returns its error.
func (c *call) panicked(p any) error {
	stack := debug.Stack()
	c.api.options.Logger.LogAttrs(c.ctx, slog.LevelError, "a handler panicked",
		slog.String("request", c.id), slog.String("route", c.route.id), slog.String("tenant", c.principal.Tenant),
		slog.Any("panic", p), slog.String("stack", string(stack[:min(len(stack), maxStackBytes)])))
	return host.Errorf(host.Internal, "%w", errPanicked)
}

// admit identifies the caller, and checks what the route's row says about requests.
func (a *API) admit(c *call) (err error) {
	if c.route.scope != "" || c.route.any {
		p, err := a.authenticate(c.r)
		if err != nil {
			return err
		}
		if p == nil || p.Tenant == "" && !p.Admin {
			return host.Errorf(host.Unauthenticated, "the request names no tenant").WithHint("send a credential: Authorization: Bearer KEY")
		}
		c.principal = p
		if err := c.mayCall(); err != nil {
			return err
		}
	}
	if err := c.checkCondition(); err != nil {
		return err
	}
	if err := c.checkBody(); err != nil {
		return err
	}
	c.query, err = readQuery(c.route, c.r)
	return err
}
