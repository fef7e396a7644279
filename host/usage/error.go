package usage

import (
	"fmt"
	"time"

	"github.com/agenthost/agenthost/host/fault"
)

// ExhaustedError says which limit of a tenant is used up, and for how long. The error
// around it has code resource_exhausted, is retryable, and has the resource's name as
// Limit and RetryAfter.
type ExhaustedError struct {
	Tenant   string
	Resource Resource
	Limit    int64 // in the unit of the resource
	Window   Window
	Refill   time.Duration // until the next window begins
}

// Error names the limit and its window.
func (e *ExhaustedError) Error() string {
	limit := fmt.Sprint(e.Limit)
	switch e.Resource {
	case Time:
		limit = time.Duration(e.Limit).String()
	case Money:
		limit = fmt.Sprint(float64(e.Limit) / unit)
	}
	window := "in " + e.Window.String()
	if e.Window.calendar != "" {
		window = "in a calendar " + e.Window.String()
	}
	return fmt.Sprintf("the tenant's budget %s of %s %s is used up", e.Resource, limit, window)
}

// coded returns the error for callers, with its code.
func (e *ExhaustedError) coded() error {
	return fault.Disclose(&fault.Error{Code: fault.ResourceExhausted, Message: e.Error(), Retryable: true, Err: e,
		Limit: e.Resource.String(), RetryAfter: max(e.Refill, 1), Hint: fmt.Sprintf("it is refilled in %s", e.Refill.Round(time.Millisecond))})
}

func invalid(format string, args ...any) *fault.Error {
	return fault.Errorf(fault.InvalidArgument, format, args...)
}

// errNoPrice refuses a call that a limit of money cannot count.
func errNoPrice(model string) error {
	return fault.Disclose(fault.Errorf(fault.FailedPrecondition, "model %q has no price, and the tenant has a budget of money", model).
		WithHint("add the model to the price table, or let the agent use another"))
}
