// Package scriptedmodel answers chat completions without a language model, so
// that a host can be tried, tested and shown without a key or a network.
//
// It is served over the real protocol on loopback and reached through the
// ordinary client: streaming, tool calls, usage, timeouts and errors are those
// of any other server.
//
//	srv, err := scriptedmodel.Start(ctx, nil)
//	defer srv.Close()
//	model, err := openaimodel.New(scriptedmodel.DefaultName, &openaimodel.Options{Server: modelhttp.Options{BaseURL: srv.BaseURL()}})
//
// # It is not an LLM
//
// It understands nothing. It follows [Rule]s, or, where none matches, a
// heuristic: it picks the offered tool whose name and description share words
// with the request, fills the tool's schema from the words of the request
// (numbers, ids, dates, addresses, quoted text, the values of an enum), calls it
// once for each id in the request, and puts the results into a sentence. Asked
// by a model router (tools select_agent and done) it picks the agent whose
// description shares words with the request, and is done once one has answered.
// "And the other one?" is resolved from the ids that the conversation has named
// and not asked about. When nothing matches, the answer describes the model and
// its tools.
//
// Every answer carries the system fingerprint [Fingerprint]; a program that
// shows answers to people shows [Notice] beside them. Its speed measures a
// host, its answers measure nothing.
//
// The same request always gets the same answer.
package scriptedmodel
