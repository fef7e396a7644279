// Package stream passes the events of runs on: in the protocol that a client
// understands, and over HTTP. Package runs has runs with many readers, none of which
// can delay the others.
//
//	http.HandleFunc("POST /chat", func(w http.ResponseWriter, r *http.Request) {
//		events := h.Stream(r.Context(), agent, request(r))
//		stream.Serve(w, r, events, nil)        // server-sent events, or NDJSON by Accept
//	})
//
// A run's events come in one order, numbered without gaps, and every encoder and
// every reader keeps it. The encoders:
//
//   - [Own]: the events themselves, as host.Event says.
//   - [Brief]: the same without repeated members, for our own clients.
//   - [AgentKit]: the chunks of AgentKit's streaming, for clients made for it, such as
//     the React hook useAgent.
//
// # What a running tool does
//
// A tool's changes of the state and its artifacts are events when it makes them, so
// a tool that sets a status to searching, writing and done shows a client all three.
// When the tool fails, its changes are taken back, in the state and for clients by
// one more patch, except where another tool has changed the same place since. A turn
// is stored once, at its end. Artifacts of a tool that may be tried again come when
// the attempt is over, because no event tells a client to forget one.
//
// # Slow readers
//
// A run advances in the goroutine that reads it, so a slow reader slows its own
// run and no other. Three bounds keep it from holding shared resources, such as
// the lock of its thread:
//
//   - [Serve] ends a response whose client has read nothing for WriteTimeout, and
//     the run with it, as if the client had disconnected.
//   - A run of a runs.Registry does not wait for readers at all. A reader more than
//     Kept events behind is cut off with code resource_exhausted and may come back for
//     the kept events; the run and the other readers do not notice.
//   - host.Limits.RunTimeout bounds a run however it is read.
//
// # What clients may see
//
// A [View] removes hidden parts from the state and the events: places that a
// configuration names, or parts that functions choose. It is applied before the
// differences are made, so a client that applies them has exactly the visible
// state.
package stream
