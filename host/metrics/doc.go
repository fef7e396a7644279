// Package metrics sums what runs do and writes it down for Prometheus.
//
//	collected := metrics.New()
//	h, err := host.New(&host.Options{Meter: collected})
//	http.Handle("GET /metrics", collected.Handler(nil))
//
// Everything is counted from the events of runs, so what is measured is what a
// reader sees: runs by how they ended, tokens, the time to a model's first token
// and to its last, retries, fallbacks, throttling, tools, processors, questions.
// What plugins cost is in the metrics of package plugin.
//
// The number of series is bounded, as names come from tenants and from models,
// which call tools that do not exist: beyond a bound a metric has one more series
// whose labels are all "other".
package metrics
