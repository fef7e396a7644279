// Package instrument tells a program when the operations of a host begin and end, so that
// it can measure them and show how they nest: runs, agents, calls of models and tools,
// processors, providers, routers, sandboxed code and its requests.
//
//	h, err := host.New(&host.Options{Instrument: in})
//
// An [Instrument] is called at the beginning of each [Operation], with a context that it may
// replace: the operations inside of it begin with that context, in the sandbox too. Package
// otelhost makes spans and metrics of OpenTelemetry this way. A program that only sums up
// what happens needs no contexts: the events that a host.Meter gets are enough.
//
// Without an instrument the calls cost nothing.
package instrument
