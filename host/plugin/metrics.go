package plugin

import (
	"bufio"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// MetricsOptions are the optional parts of metrics.
type MetricsOptions struct {
	// Tenants makes a series for each tenant, which may be many; without it they
	// are summed, and plugins of tenants have no name and no gauges of their own.
	Tenants bool
}

// metricsType is the content type of the exposition format.
const metricsType = "text/plain; version=0.0.4; charset=utf-8"

// MetricsHandler serves what [Runtime.WriteMetrics] writes.
func (rt *Runtime) MetricsHandler(opts *MetricsOptions) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", metricsType)
		_ = rt.WriteMetrics(w, opts) // the scraper has left
	})
}

// WriteMetrics writes the bill and the state of every slot in the text format of
// Prometheus. The only error is w's.
func (rt *Runtime) WriteMetrics(w io.Writer, opts *MetricsOptions) error {
	byTenant := opts != nil && opts.Tenants
	m := &metricsWriter{Writer: bufio.NewWriter(w)}
	m.bill(rt.Bill().Sum(byTenant, true, true), byTenant)
	slots := rt.Slots()
	if !byTenant {
		slots = slices.DeleteFunc(slots, func(s *Slot) bool { return s.Owner() != "" })
	}
	m.slots(slots)
	return m.Flush()
}

// metricsWriter writes samples. The errors of its writer are kept for Flush.
type metricsWriter struct{ *bufio.Writer }

func (m *metricsWriter) bill(b *Bill, byTenant bool) {
	labels := make([]string, len(b.Charges))
	for i := range b.Charges {
		labels[i] = b.Charges[i].labels(byTenant)
	}
	const prefix = "agenthost_plugin_"
	m.head(prefix+"calls_total", "counter", "Calls, by how they ended.")
	for i := range b.Charges {
		for o, n := range b.Charges[i].Outcomes {
			m.sample(prefix+"calls_total", labels[i]+`,outcome="`+Outcome(o).String()+`"`, float64(n))
		}
	}
	for _, f := range []struct {
		name, kind, help string
		value            func(*Charge) float64
	}{
		{"instructions_total", "counter", "WebAssembly instructions, with the price of host operations.", func(c *Charge) float64 { return float64(c.Instructions) }},
		{"wait_seconds_total", "counter", "Time that calls waited before they began.", func(c *Charge) float64 { return c.Wait.Seconds() }},
		{"throttled_seconds_total", "counter", "Time that calls waited for their turn once they had begun.", func(c *Charge) float64 { return c.Throttled.Seconds() }},
		{"host_calls_total", "counter", "Host operations.", func(c *Charge) float64 { return float64(c.HostCalls) }},
		{"input_bytes_total", "counter", "Bytes sent to calls.", func(c *Charge) float64 { return float64(c.InputBytes) }},
		{"output_bytes_total", "counter", "Bytes that calls answered.", func(c *Charge) float64 { return float64(c.OutputBytes) }},
		{"peak_memory_bytes", "gauge", "The most memory of a call: linear memory, tables, and a stack of megabytes.", func(c *Charge) float64 { return float64(c.PeakMemory) }},
	} {
		m.head(prefix+f.name, f.kind, f.help)
		for i := range b.Charges {
			m.sample(prefix+f.name, labels[i], f.value(&b.Charges[i]))
		}
	}
	m.head(prefix+"call_seconds", "histogram", "Wall time of calls that began, inside the sandbox.")
	for i := range b.Charges {
		m.histogram(prefix+"call_seconds", labels[i], &b.Charges[i])
	}
}

func (m *metricsWriter) histogram(name, labels string, c *Charge) {
	var n int64
	for i, count := range c.Latency {
		n += count
		le := "+Inf"
		if i < latencyBuckets-1 {
			le = sampleValue(latencyBound(i).Seconds())
		}
		m.sample(name+"_bucket", labels+`,le="`+le+`"`, float64(n))
	}
	m.sample(name+"_sum", labels, c.Duration.Seconds())
	m.sample(name+"_count", labels, float64(n))
}

func (m *metricsWriter) slots(slots []*Slot) {
	states := make([]SlotState, len(slots))
	for i, s := range slots {
		states[i] = s.State()
	}
	for _, f := range []struct {
		name, help string
		value      func(*SlotState) float64
	}{
		{"version", "The number of the version that serves; 0 is none.", func(s *SlotState) float64 { return float64(s.serving().Number) }},
		{"version_since_seconds", "When that version began to serve.", func(s *SlotState) float64 { return seconds(s.serving().Since) }},
		{"running_calls", "Calls in progress, on all versions.", func(s *SlotState) float64 {
			n := int64(0)
			for _, v := range s.Versions {
				n += v.Running
			}
			return float64(n)
		}},
		{"open_breakers", "Tenants whose calls are refused for a while.", func(s *SlotState) float64 { return float64(len(s.serving().Open)) }},
		{"held_versions", "Versions that ask for more than is granted.", func(s *SlotState) float64 {
			if s.Held {
				return 1
			}
			return 0
		}},
	} {
		name := "agenthost_plugin_slot_" + f.name
		m.head(name, "gauge", f.help)
		for i := range states {
			m.sample(name, states[i].labels(), f.value(&states[i]))
		}
	}
}

func (s *SlotState) labels() string {
	labels := `plugin="` + escapeLabel(s.ID) + `"`
	if s.Owner != "" {
		labels = `tenant="` + escapeLabel(s.Owner) + `",` + labels
	}
	return labels
}

// serving is Serving that is never nil.
func (s *SlotState) serving() VersionState {
	if v := s.Serving(); v != nil {
		return *v
	}
	return VersionState{}
}

func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}

func (c *Charge) labels(tenant bool) string {
	s := `plugin="` + escapeLabel(c.Plugin) + `",export="` + escapeLabel(c.Export) + `"`
	if tenant {
		s = `tenant="` + escapeLabel(c.Tenant) + `",` + s
	}
	return s
}

// labelEscapes are those of the exposition format.
var labelEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// escapeLabel makes a label's value of any string; what is not UTF-8 is replaced.
func escapeLabel(s string) string { return labelEscapes.Replace(strings.ToValidUTF8(s, "\uFFFD")) }

func (m *metricsWriter) head(name, kind, help string) {
	for _, s := range []string{"# HELP ", name, " ", help, "\n# TYPE ", name, " ", kind, "\n"} {
		_, _ = m.WriteString(s)
	}
}

func (m *metricsWriter) sample(name, labels string, v float64) {
	for _, s := range []string{name, "{", labels, "} ", sampleValue(v), "\n"} {
		_, _ = m.WriteString(s)
	}
}

func sampleValue(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
