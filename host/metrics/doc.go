// Package metrics measures the runs of hosts and the calls of plugins for
// Prometheus.
//
//	collected := metrics.New(&metrics.Options{Plugins: rt})
//	h, err := host.New(&host.Options{Meter: collected})
//	http.Handle("GET /metrics", collected.Handler(nil))
//
// Runs are counted from their events, so the metrics agree with the stream that a
// reader sees: runs by how they ended, tokens, the time to a model's first token
// and to its last, retries, fallbacks, throttling, tools, processors, questions.
// Plugins are read from their runtime when the metrics are: calls by how they
// ended, instructions, bytes, times, and the state of each slot.
//
// A program with a Prometheus registry of its own registers [Collector.View] there.
//
// The number of series is bounded, because names come from tenants and from models,
// which call tools that do not exist: beyond a bound a metric of runs has one more
// series whose labels are all "other", and plugins are bounded by
// plugin.Options.ReportedTenants.
package metrics
