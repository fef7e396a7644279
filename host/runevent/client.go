package runevent

import "github.com/agenthost/agenthost/host/fault"

// An event for a client holds its errors as the client may read them.

// ClientData is an event of another package that holds errors.
type ClientData interface {
	Data
	// ForClient returns a copy whose errors are made by [fault.ForClient].
	ForClient(run string) Data
}

// ForClient returns the event with each error in it as [fault.ForClient] has it. The
// values that the event points to are not changed.
func (e Event) ForClient() Event {
	switch d := e.Data.(type) {
	case *RunFinished:
		if d.Error != nil {
			c := *d
			c.Error = fault.ForClient(d.Error, e.Run)
			e.Data = &c
		}
	case *ProcessorRan:
		if d.Error != nil || d.Skipped != nil {
			c := *d
			c.Error, c.Skipped = clientErrorOf(d.Error, e.Run), clientErrorOf(d.Skipped, e.Run)
			e.Data = &c
		}
	case *ProviderRan:
		if d.Error != nil {
			c := *d
			c.Error = fault.ForClient(d.Error, e.Run)
			e.Data = &c
		}
	case *ModelRetried:
		c := *d
		c.Reason = fault.MaskedText(fault.Internal, e.Run)
		e.Data = &c
	case *ModelFellBack:
		c := *d
		c.Reason = fault.MaskedText(fault.Internal, e.Run)
		e.Data = &c
	case ClientData:
		e.Data = d.ForClient(e.Run)
	}
	return e
}

// clientErrorOf is [fault.ForClient] of an error that may be a nil pointer.
func clientErrorOf(e *fault.Error, run string) *fault.Error {
	if e == nil {
		return nil
	}
	return fault.ForClient(e, run)
}
