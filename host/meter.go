package host

// Meter receives the events of all runs of a host, to sum them up. Package metrics
// has one.
type Meter interface {
	// Measure is called with each event of each run, before its reader gets it and
	// also when the reader has left. Runs call it at the same time, and wait for
	// it: it must return at once. Events of an agent used as a tool come from that
	// agent, with numbers of their own, besides the progress that its run shows.
	// The event must not be changed.
	Measure(scope Scope, ev Event)
}

// Tracer keeps the events of runs, to be read afterwards. Package trace has one.
type Tracer interface {
	// Trace is called with each event that the reader of a run gets, in that order,
	// before the reader gets it and also when the reader has left. Runs call it at the
	// same time, and wait for it: it must return at once. The event must not be
	// changed.
	Trace(scope Scope, ev Event)
}
