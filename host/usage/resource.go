package usage

import (
	"fmt"
	"slices"
)

// Resource is a thing that limits bound and records count.
type Resource int

// The resources, with their units. Limits of a plan have a default for each but Money.
const (
	// Tokens are those of input and output of the models that runs ask.
	Tokens Resource = iota
	// ModelTokens are those of the models that sandboxed code asks.
	ModelTokens
	// ModelCalls are calls of models by runs.
	ModelCalls
	// ToolCalls are calls of tools.
	ToolCalls
	// Instructions are those of sandboxed code, with its start and the host's work for it.
	Instructions
	// HostCalls are operations that sandboxed code asks the host for.
	HostCalls
	// HTTPRequests are those of sandboxed code, redirects too.
	HTTPRequests
	// Time is how long runs work together, in nanoseconds: more than the clock shows if
	// several run at once. It includes the compiling of a tenant's plugins.
	Time
	// Money is what calls of models cost by the price table, in billionths of its currency ([Units]).
	Money

	resourceCount
)

// resourceNames are the names in errors and in records, and resourceKeys those in
// configurations and in JSON.
var (
	resourceNames = [resourceCount]string{"Tokens", "ModelTokens", "ModelCalls", "ToolCalls", "Instructions", "HostCalls", "HTTPRequests", "Time", "Money"}
	resourceKeys  = [resourceCount]string{"tokens", "model_tokens", "model_calls", "tool_calls", "instructions", "host_calls", "http_requests", "time", "money"}
)

// String returns the name that errors have as their limit, such as "ToolCalls".
func (r Resource) String() string {
	if r < 0 || r >= resourceCount {
		return fmt.Sprintf("Resource(%d)", int(r))
	}
	return resourceNames[r]
}

// Key returns the name that plans have in JSON, such as "tool_calls".
func (r Resource) Key() string {
	if r < 0 || r >= resourceCount {
		return r.String()
	}
	return resourceKeys[r]
}

// ParseResource returns the resource of a name that Key or String returns. Code
// invalid_argument for any other.
func ParseResource(name string) (Resource, error) {
	for _, names := range [][]string{resourceKeys[:], resourceNames[:]} {
		if i := slices.Index(names, name); i >= 0 {
			return Resource(i), nil
		}
	}
	return 0, invalid("there is no resource %q to limit", name).WithHint("use one of %v", resourceKeys)
}
