// Package otelhost makes spans and metrics of OpenTelemetry of what a host does, by the names
// of the GenAI conventions.
//
//	telemetry, err := otelhost.New(&otelhost.Options{TracerProvider: spans, MeterProvider: measures})
//	h, err := host.New(&host.Options{Instrument: telemetry})
//	api, err := httpapi.New(authenticate, &httpapi.Options{Observe: []httpapi.Observe{telemetry.Request}})
//
// A run is the span "invoke_workflow NETWORK", whose network is the agent where one runs
// alone. In it are "invoke_agent AGENT", "chat MODEL", "execute_tool TOOL" and spans for
// processors, providers, routers, calls of sandboxed code and the requests that it sends. A run
// whose request carries a W3C traceparent continues that trace.
//
// Spans have ids, names, numbers and codes of errors. The content of a conversation (messages,
// arguments and results of tools, instructions, texts of errors) is on them only with
// Options.Content.
//
// The attributes of metrics are names of models, tools, agents and plugins: at most
// [MaxSeries] sets for each metric, one more for the rest, and no tenant without
// Options.Tenants.
//
// The package uses the API of OpenTelemetry alone. The SDK and the exporters are the
// program's choice.
package otelhost
