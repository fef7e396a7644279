package hostfunc

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/foreign"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/plugin/permission"
)

// Operation is an operation of the embedding program. Zero fields are the defaults.
type Operation struct {
	// Name is NAMESPACE.NAME in small letters, digits and underscores, of at most 64 bytes.
	// The namespaces that [Reserved] lists are the contract's.
	Name string

	// Do runs the operation. It is called by many goroutines at once. scope says for whom:
	// its tenant is the one whose call it is, and the guest cannot change it. request is
	// JSON and may be kept. A nil response is {}. An error goes to the guest as an error
	// object; [fault.ForClient] says which of its text. ctx ends with the deadline and with
	// the guest's call; an operation that does not return then is abandoned.
	Do func(ctx context.Context, scope llm.Scope, request json.RawMessage) (json.RawMessage, error)

	// Price is what a call costs the guest in instructions, beside the price of reading
	// the request and the response (20,000).
	Price int64

	// Timeout bounds a call (5 s); the guest's own deadline may come first.
	Timeout time.Duration

	// RequestBytes and ResponseBytes bound what goes in and out (256 KiB and 1 MiB); the
	// plugin's limit ResponseBytes holds as well.
	RequestBytes, ResponseBytes int

	// Available reports whether a tenant has the operation; nil is every tenant. For one
	// that has not, the operation does not exist. It is asked at every call, by many
	// goroutines at once, and must not block.
	Available func(tenant string) bool
}

// The defaults of an [Operation], and its bounds.
const (
	DefaultPrice         = 20_000
	DefaultTimeout       = 5 * time.Second
	DefaultRequestBytes  = 256 << 10
	DefaultResponseBytes = 1 << 20

	MaxPrice      = 1_000_000_000 // the default of the limit Instructions
	MaxOperations = 256           // of a set
)

// Reserved are the namespaces of the contract's operations, those of later versions too.
func Reserved() []string {
	return []string{"agenthost", "artifact", "emit", "extism", "host", "http", "kv", "log", "memory", "messages", "model",
		"output", "plugin", "provider_state", "queue", "secret", "session", "state", "step", "stream", "thread", "tokens", "tool", "wasi"}
}

// New returns an operation over Go values: the request is decoded into In, and Out is
// encoded as the response. A request that is not an In is refused with code
// invalid_argument.
func New[In, Out any](name string, do func(ctx context.Context, scope llm.Scope, in In) (Out, error)) Operation {
	return Operation{Name: name, Do: func(ctx context.Context, scope llm.Scope, request json.RawMessage) (json.RawMessage, error) {
		var in In
		if err := jsondoc.Unmarshal(request, &in); err != nil {
			return nil, fault.Errorf(fault.InvalidArgument, "request of %s: %v", name, err)
		}
		out, err := do(ctx, scope, in)
		if err != nil {
			return nil, err
		}
		return json.Marshal(out)
	}}
}

func (o *Operation) check() error {
	namespace, _, _ := strings.Cut(o.Name, ".")
	switch {
	case !permission.ValidOperation(o.Name):
		return fault.Errorf(fault.InvalidArgument, "an operation is named %q", o.Name).
			WithHint("name it NAMESPACE.NAME in small letters, digits and _, of at most %d bytes", permission.MaxOperationName)
	case slices.Contains(Reserved(), namespace):
		return fault.Errorf(fault.InvalidArgument, "the operation %q is in the namespace %s, which is the plugin contract's", o.Name, namespace).
			WithHint("use one of your own, such as your product's name")
	case o.Do == nil:
		return fault.Errorf(fault.InvalidArgument, "the operation %q has no function Do", o.Name)
	case o.Price < 0 || o.Price > MaxPrice:
		return fault.Errorf(fault.InvalidArgument, "the operation %q costs %d instructions, not up to %d", o.Name, o.Price, MaxPrice)
	case o.Timeout < 0 || o.RequestBytes < 0 || o.ResponseBytes < 0:
		return fault.Errorf(fault.InvalidArgument, "the operation %q has the timeout %s, and %d and %d bytes", o.Name, o.Timeout, o.RequestBytes, o.ResponseBytes).
			WithHint("leave out Timeout, RequestBytes or ResponseBytes for the default")
	}
	return nil
}

func (o Operation) withDefaults() *Operation {
	if o.Price == 0 {
		o.Price = DefaultPrice
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.RequestBytes == 0 {
		o.RequestBytes = DefaultRequestBytes
	}
	if o.ResponseBytes == 0 {
		o.ResponseBytes = DefaultResponseBytes
	}
	return &o
}

// Set runs operations by name. A nil *Set has none.
type Set struct {
	byName    map[string]*Operation
	functions map[string]string // names of operations by those of their Extism functions
	logger    *slog.Logger
}

// NewSet returns a set of operations. logger receives the panics in them; nil discards.
// Code invalid_argument for an operation that cannot be, or a name that two have.
func NewSet(list []Operation, logger *slog.Logger) (*Set, error) {
	if len(list) > MaxOperations {
		return nil, fault.Errorf(fault.InvalidArgument, "a host has %d operations of its own, more than %d", len(list), MaxOperations)
	}
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	s := &Set{byName: make(map[string]*Operation, len(list)), functions: make(map[string]string, len(list)), logger: logger}
	for _, o := range list {
		if err := o.check(); err != nil {
			return nil, err
		}
		function := strings.ReplaceAll(o.Name, ".", "_")
		if other := s.functions[function]; other != "" {
			return nil, fault.Errorf(fault.InvalidArgument, "the operations %q and %q are one function of Extism plugins, %s", other, o.Name, function).
				WithHint("give one another name")
		}
		s.byName[o.Name], s.functions[function] = o.withDefaults(), o.Name
	}
	return s, nil
}

// Names returns the names of the operations, in order.
func (s *Set) Names() []string {
	if s == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(s.byName))
}

// Functions returns the names of the operations by those of their functions in Extism
// plugins, which have _ for each dot. It is not to be changed.
func (s *Set) Functions() map[string]string {
	if s == nil {
		return nil
	}
	return s.functions
}

// Price returns what a call of an operation costs in instructions. It reports false for
// a name that no operation has.
func (s *Set) Price(name string) (int64, bool) {
	if s == nil || s.byName[name] == nil {
		return 0, false
	}
	return s.byName[name].Price, true
}

// Has reports whether a tenant has an operation.
func (s *Set) Has(name, tenant string) bool {
	if s == nil || s.byName[name] == nil {
		return false
	}
	available := s.byName[name].Available
	if available == nil {
		return true
	}
	defer s.logPanic("Available", name, tenant)
	return available(tenant)
}

// logPanic makes a panic in a function of an operation the answer of its zero value.
func (s *Set) logPanic(method, name, tenant string) {
	if p := recover(); p != nil {
		s.logger.Error("panic in an operation", "op", name, "method", method, "tenant", tenant, "panic", p)
	}
}

// Run runs an operation that a plugin was granted. It fails with code unimplemented where
// the tenant of scope does not have the operation.
func (s *Set) Run(ctx context.Context, name string, scope llm.Scope, request json.RawMessage) (json.RawMessage, error) {
	if !s.Has(name, scope.Tenant) {
		return nil, Unknown(name)
	}
	o := s.byName[name]
	if len(request) > o.RequestBytes {
		return nil, fault.Errorf(fault.ResourceExhausted, "request of %s is %d bytes, more than the %d that the operation takes", name, len(request), o.RequestBytes)
	}
	if err := jsondoc.Check(request); err != nil {
		return nil, fault.Errorf(fault.InvalidArgument, "request of %s: %v", name, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.Timeout, o.timeoutError())
	defer cancel()
	call := &foreign.Call[json.RawMessage]{Who: "operation " + name, Method: "Do", Run: scope.Run, Logger: s.logger,
		Fn: func(ctx context.Context) (json.RawMessage, error) { return o.Do(ctx, scope, request) }}
	response, err := call.Await(ctx)
	switch {
	case err != nil && foreign.EndedBy(ctx, err):
		return nil, fault.ContextError(ctx)
	case err != nil:
		return nil, err
	case len(response) == 0:
		return json.RawMessage("{}"), nil
	case len(response) > o.ResponseBytes:
		return nil, fault.Errorf(fault.ResourceExhausted, "response of %s is %d bytes, more than the %d that the operation gives", name, len(response), o.ResponseBytes)
	}
	if err := jsondoc.Check(response); err != nil {
		return nil, fault.Errorf(fault.Internal, "response of %s: %v", name, err)
	}
	return response, nil
}

func (o *Operation) timeoutError() error {
	return fault.Errorf(fault.DeadlineExceeded, "the operation %s took longer than its timeout of %s", o.Name, o.Timeout)
}

// Unknown returns the error for an operation that a host does not have.
func Unknown(name string) error {
	return fault.Errorf(fault.Unimplemented, "this host has no operation %q", name)
}
