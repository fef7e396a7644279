package usagereport

import "github.com/agenthost/agenthost/host"

// Outcome is how a call ended.
type Outcome int

// The outcomes.
const (
	OK       Outcome = iota // with a result
	Error                   // with an error object of the guest's
	Trap                    // by a trap, or a fault of its own
	Limit                   // by a limit, or a tenant's budget
	Timeout                 // at its deadline
	Canceled                // because its caller left
	Refused                 // before it began: no free instance, no budget, too large an input
	outcomeCount
)

var outcomeNames = [outcomeCount]string{"ok", "error", "trap", "limit", "timeout", "canceled", "refused"}

// String returns the outcome's name in metrics.
func (o Outcome) String() string { return outcomeNames[o] }

// OutcomeOf tells how a call ended that was begun: with an error, or with an error object
// of the guest's.
func OutcomeOf(err error, guestErr bool) Outcome {
	if err == nil && !guestErr {
		return OK
	}
	if err == nil {
		return Error
	}
	switch host.CodeOf(err) {
	case host.ResourceExhausted:
		return Limit
	case host.DeadlineExceeded:
		return Timeout
	case host.Canceled:
		return Canceled
	}
	return Trap
}
