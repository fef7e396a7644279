// Package scriptedmodel answers chat completions without a language model, so
// that a host can be tried, tested and shown without a key or a network.
//
// It is served over the real protocol on loopback and reached through the
// ordinary client: streaming, tool calls, usage, timeouts and errors are those
// of any other server.
//
//	rules, err := scriptedmodel.ReadRules([]byte(`{"rules": [{"match": {"user": "hello"}, "reply": {"text": "Hello."}}]}`))
//	srv, err := scriptedmodel.Start(ctx, &scriptedmodel.Options{Rules: rules})
//	defer srv.Close()
//	model, err := openaimodel.New(scriptedmodel.DefaultName, &openaimodel.Options{Server: modelhttp.Options{BaseURL: srv.BaseURL()}})
//
// # It is not an LLM
//
// It understands nothing. It follows [Rule]s: the first that matches a request answers
// it. A request that none matches goes to [Options.Otherwise]; without that it is refused
// with the code no_rule.
//
// Every answer carries the system fingerprint [Fingerprint]; a program that
// shows answers to people shows [Notice] beside them. Its speed measures a
// host, its answers measure nothing.
//
// The same request always gets the same answer, if Otherwise gives it.
package scriptedmodel
