package metrics

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// ViewOptions are the optional parts of a view.
type ViewOptions struct {
	// Tenants makes a series for each tenant, which may be many; without it they
	// are summed, and plugins of tenants have no name and no gauges of their own.
	Tenants bool
	// Process adds what Go's runtime and the operating system say of the process, under the
	// names of Prometheus' own collectors: go_goroutines, process_open_fds and others.
	// [Collector.View] leaves it out: a registry may have these already.
	Process bool
}

// Handler serves the collector's metrics, and none but those that opts add, in the formats
// of Prometheus.
func (c *Collector) Handler(opts *ViewOptions) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(c.View(opts))
	if opts != nil && opts.Process {
		registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	}
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
}

// View returns the collector's metrics for a registry of the program's own.
func (c *Collector) View(opts *ViewOptions) prometheus.Collector {
	return &view{c, opts != nil && opts.Tenants}
}

type view struct {
	collector *Collector
	tenants   bool
}

// Describe describes nothing: a sample without a value for a label does not have
// that label, which descriptions cannot say.
func (v *view) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector]. Runs wait while their sums are copied,
// and not while the samples are sent.
func (v *view) Collect(ch chan<- prometheus.Metric) {
	for _, emit := range v.collector.samples(v.tenants) {
		emit(ch)
	}
	if v.collector.plugins != nil {
		collectPlugins(ch, v.collector.plugins, v.tenants)
	}
}

// samples returns functions that send copies of the collector's sums.
func (c *Collector) samples(tenants bool) (emit []func(chan<- prometheus.Metric)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	running := float64(len(c.progress))
	emit = append(emit, func(ch chan<- prometheus.Metric) {
		m := metric{prefix + "runs_in_progress", "Runs that have begun and not ended.", nil}
		m.sender(ch, prometheus.GaugeValue)(labels{}, running)
	})
	for _, m := range []*counter{c.runs, c.tokens, c.modelTokens, c.requests, c.questions, c.modelCalls, c.retries, c.fallbacks, c.throttled, c.tools, c.toolRetries, c.processors} {
		values := m.summed(tenants)
		emit = append(emit, func(ch chan<- prometheus.Metric) {
			send := m.sender(ch, prometheus.CounterValue)
			for l, v := range values {
				send(l, v)
			}
		})
	}
	for _, m := range []*histogram{c.runSeconds, c.firstToken, c.modelSeconds, c.toolSeconds, c.requestSeconds} {
		values := m.summed(tenants)
		emit = append(emit, func(ch chan<- prometheus.Metric) {
			send := m.histogramSender(ch)
			for l, s := range values {
				send(l, bounds[:], s.counts[:], s.sum)
			}
		})
	}
	return emit
}

// sender returns a function that sends samples of the metric.
func (m *metric) sender(ch chan<- prometheus.Metric, kind prometheus.ValueType) func(l labels, v float64) {
	describe := m.describer()
	return func(l labels, v float64) {
		desc, values := describe(l)
		ch <- prometheus.MustNewConstMetric(desc, kind, v, values...)
	}
}

// histogramSender is sender for counts by bucket; the last bucket is beyond all
// bounds.
func (m *metric) histogramSender(ch chan<- prometheus.Metric) func(l labels, bounds []float64, counts []uint64, sum float64) {
	describe := m.describer()
	return func(l labels, bounds []float64, counts []uint64, sum float64) {
		n, buckets := uint64(0), make(map[float64]uint64, len(bounds))
		for i, bound := range bounds {
			n += counts[i]
			buckets[bound] = n
		}
		n += counts[len(bounds)]
		desc, values := describe(l)
		ch <- prometheus.MustNewConstHistogram(desc, n, sum, buckets, values...)
	}
}

// describer returns a function that describes a series by those of its labels that
// have a value.
func (m *metric) describer() func(labels) (*prometheus.Desc, []string) {
	known := map[[len(labels{})]bool]*prometheus.Desc{}
	return func(l labels) (*prometheus.Desc, []string) {
		var used [len(l)]bool
		var names, values []string
		for i, v := range l {
			if v != "" {
				used[i], names, values = true, append(names, m.names[i]), append(values, v)
			}
		}
		if known[used] == nil {
			known[used] = prometheus.NewDesc(m.name, m.help, names, nil)
		}
		return known[used], values
	}
}
