package host

import "github.com/agenthost/agenthost/host/fault"

// An event for a client holds its errors as the client may read them.

// ClientEvent is an event of another package that holds errors.
type ClientEvent interface {
	EventData
	// ForClient returns a copy whose errors are made by [ClientError].
	ForClient(run string) EventData
}

// ForClient returns the event with each error in it as [ClientError] has it. The
// values that the event points to are not changed.
func (e Event) ForClient() Event {
	switch d := e.Data.(type) {
	case *RunFinished:
		if d.Error != nil {
			c := *d
			c.Error = ClientError(d.Error, e.Run)
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
			c.Error = ClientError(d.Error, e.Run)
			e.Data = &c
		}
	case *ModelRetried:
		c := *d
		c.Reason = fault.MaskedText(Internal, e.Run)
		e.Data = &c
	case *ModelFellBack:
		c := *d
		c.Reason = fault.MaskedText(Internal, e.Run)
		e.Data = &c
	case ClientEvent:
		e.Data = d.ForClient(e.Run)
	}
	return e
}

// clientErrorOf is ClientError of an error that may be a nil pointer.
func clientErrorOf(e *Error, run string) *Error {
	if e == nil {
		return nil
	}
	return ClientError(e, run)
}
