package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/agenthost/agenthost/host/plugin"
)

// Plugins is a runtime of plugins, as metrics read it; *plugin.Runtime is one.
type Plugins interface {
	// UsageReport returns the sums of all calls since the runtime began.
	UsageReport() *plugin.UsageReport

	// Slots returns the plugins that are deployed.
	Slots() []*plugin.Slot
}

var _ Plugins = (*plugin.Runtime)(nil)

const pluginPrefix = prefix + "plugin_"

func collectPlugins(ch chan<- prometheus.Metric, plugins Plugins, tenants bool) {
	collectUsage(ch, plugins.UsageReport().Sum(tenants, true, true))
	states := []plugin.SlotState{}
	for _, s := range plugins.Slots() {
		if tenants || s.Owner() == "" {
			states = append(states, s.State())
		}
	}
	collectSlots(ch, states)
}

// sums adds up samples. Lines of a usage report may have equal labels: those of a host's
// plugin and of a tenant's that had its id before.
type sums map[labels]float64

func itemLabels(c *plugin.LineItem, more ...string) labels {
	return toLabels(append([]string{c.Tenant, c.Plugin, c.Export}, more...))
}

func collectUsage(ch chan<- prometheus.Metric, report *plugin.UsageReport) {
	calls := sums{}
	for i := range report.Items {
		for o, n := range report.Items[i].Outcomes {
			calls[itemLabels(&report.Items[i], plugin.Outcome(o).String())] += float64(n)
		}
	}
	names := []string{"tenant", "plugin", "export", "outcome"}
	calls.send(ch, prometheus.CounterValue, metric{pluginPrefix + "calls_total", "Calls, by how they ended.", names})
	for _, f := range []struct {
		name, help string
		value      func(*plugin.LineItem) float64
	}{
		{"instructions_total", "WebAssembly instructions, with the price of host operations.", func(c *plugin.LineItem) float64 { return float64(c.Instructions) }},
		{"wait_seconds_total", "Time that calls waited before they began.", func(c *plugin.LineItem) float64 { return c.Wait.Seconds() }},
		{"throttled_seconds_total", "Time that calls waited for their turn once they had begun.", func(c *plugin.LineItem) float64 { return c.Throttled.Seconds() }},
		{"host_calls_total", "Host operations.", func(c *plugin.LineItem) float64 { return float64(c.HostCalls) }},
		{"input_bytes_total", "Bytes sent to calls.", func(c *plugin.LineItem) float64 { return float64(c.InputBytes) }},
		{"output_bytes_total", "Bytes that calls answered.", func(c *plugin.LineItem) float64 { return float64(c.OutputBytes) }},
	} {
		values := sums{}
		for i := range report.Items {
			values[itemLabels(&report.Items[i])] += f.value(&report.Items[i])
		}
		values.send(ch, prometheus.CounterValue, metric{pluginPrefix + f.name, f.help, names})
	}
	peaks := sums{}
	for i := range report.Items {
		l := itemLabels(&report.Items[i])
		peaks[l] = max(peaks[l], float64(report.Items[i].PeakMemory))
	}
	peaks.send(ch, prometheus.GaugeValue, metric{pluginPrefix + "peak_memory_bytes", "The most memory of a call: linear memory, tables, and a stack of megabytes.", names})
	collectCallSeconds(ch, report, names)
}

// callSeconds are the times of calls with the same labels.
type callSeconds struct {
	counts [len(plugin.Latency{})]uint64
	sum    float64
}

func collectCallSeconds(ch chan<- prometheus.Metric, report *plugin.UsageReport, names []string) {
	spreads := map[labels]*callSeconds{}
	for i := range report.Items {
		c := &report.Items[i]
		l := itemLabels(c)
		if spreads[l] == nil {
			spreads[l] = &callSeconds{}
		}
		for j, n := range c.Latency {
			spreads[l].counts[j] += uint64(n)
		}
		spreads[l].sum += c.Duration.Seconds()
	}
	ends := make([]float64, len(plugin.Latency{})-1)
	for i := range ends {
		ends[i] = plugin.LatencyBound(i).Seconds()
	}
	m := metric{pluginPrefix + "call_seconds", "Wall time of calls that began, inside the sandbox.", names}
	send := m.histogramSender(ch)
	for l, s := range spreads {
		send(l, ends, s.counts[:], s.sum)
	}
}

func collectSlots(ch chan<- prometheus.Metric, states []plugin.SlotState) {
	for _, f := range []struct {
		name, help string
		value      func(s *plugin.SlotState, serving *plugin.VersionState) float64
	}{
		{"version", "The number of the version that serves; 0 is none.", func(_ *plugin.SlotState, v *plugin.VersionState) float64 { return float64(v.Number) }},
		{"version_since_seconds", "When that version began to serve.", func(_ *plugin.SlotState, v *plugin.VersionState) float64 { return unixSeconds(v.Since) }},
		{"running_calls", "Calls in progress, on all versions.", func(s *plugin.SlotState, _ *plugin.VersionState) float64 {
			n := int64(0)
			for _, v := range s.Versions {
				n += v.Running
			}
			return float64(n)
		}},
		{"open_breakers", "Tenants whose calls are refused for a while.", func(_ *plugin.SlotState, v *plugin.VersionState) float64 { return float64(len(v.Open)) }},
		{"held_versions", "Versions that ask for more than is granted.", func(s *plugin.SlotState, _ *plugin.VersionState) float64 {
			if s.Held {
				return 1
			}
			return 0
		}},
	} {
		values := sums{}
		for i := range states {
			serving := states[i].Serving()
			if serving == nil {
				serving = &plugin.VersionState{}
			}
			values[toLabels([]string{states[i].Owner, states[i].ID})] += f.value(&states[i], serving)
		}
		values.send(ch, prometheus.GaugeValue, metric{pluginPrefix + "slot_" + f.name, f.help, []string{"tenant", "plugin"}})
	}
}

func (s sums) send(ch chan<- prometheus.Metric, kind prometheus.ValueType, m metric) {
	send := m.sender(ch, kind)
	for l, v := range s {
		send(l, v)
	}
}

func unixSeconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}
