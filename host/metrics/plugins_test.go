package metrics_test

import (
	"context"
	"fmt"
	"log"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/metrics"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/internal/testcode"
	"github.com/agenthost/agenthost/plugins/tokenlimiter"
)

// billed is a runtime without slots and with a bill that a test makes up.
type billed struct{ bill *plugin.UsageReport }

func (b billed) UsageReport() *plugin.UsageReport { return b.bill }
func (b billed) Slots() []*plugin.Slot            { return nil }

func wantLines(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, line := range want {
		if !strings.Contains("\n"+text, "\n"+line+"\n") {
			t.Errorf("no line %s in\n%s", line, text)
		}
	}
}

func TestPluginsAreMeasured(t *testing.T) {
	charge := plugin.LineItem{Tenant: "a\"b\\c\nd", Plugin: "q", Export: "tool", Instructions: 5, Duration: 3 * time.Microsecond, Wait: time.Second,
		InputBytes: 7, OutputBytes: 8, HostCalls: 9, Throttled: 2 * time.Second, PeakMemory: 1 << 20}
	charge.Outcomes[plugin.OutcomeTrap] = 1
	charge.Latency[2] = 1
	c := metrics.New(&metrics.Options{Plugins: billed{&plugin.UsageReport{Items: []plugin.LineItem{charge}}}})
	got := text(t, c, &metrics.ViewOptions{Tenants: true})
	checkFormat(t, got)
	labels := `export="tool",plugin="q",tenant="a\"b\\c\nd"`
	wantLines(t, got,
		`# TYPE agenthost_plugin_calls_total counter`,
		`agenthost_plugin_calls_total{export="tool",outcome="trap",plugin="q",tenant="a\"b\\c\nd"} 1`,
		`agenthost_plugin_calls_total{export="tool",outcome="ok",plugin="q",tenant="a\"b\\c\nd"} 0`,
		`agenthost_plugin_instructions_total{`+labels+`} 5`,
		`agenthost_plugin_wait_seconds_total{`+labels+`} 1`,
		`agenthost_plugin_throttled_seconds_total{`+labels+`} 2`,
		`agenthost_plugin_host_calls_total{`+labels+`} 9`,
		`agenthost_plugin_input_bytes_total{`+labels+`} 7`,
		`agenthost_plugin_output_bytes_total{`+labels+`} 8`,
		`# TYPE agenthost_plugin_peak_memory_bytes gauge`,
		`agenthost_plugin_peak_memory_bytes{`+labels+`} 1.048576e+06`,
		`# TYPE agenthost_plugin_call_seconds histogram`,
		`agenthost_plugin_call_seconds_bucket{`+labels+`,le="2e-06"} 0`,
		`agenthost_plugin_call_seconds_bucket{`+labels+`,le="4e-06"} 1`,
		`agenthost_plugin_call_seconds_bucket{`+labels+`,le="8.388608"} 1`,
		`agenthost_plugin_call_seconds_bucket{`+labels+`,le="+Inf"} 1`,
		`agenthost_plugin_call_seconds_sum{`+labels+`} 3e-06`,
		`agenthost_plugin_call_seconds_count{`+labels+`} 1`,
		`agenthost_runs_in_progress 0`)
	if got := text(t, c, nil); strings.Contains(got, "tenant=") {
		t.Errorf("without tenants:\n%s", got)
	}
}

// A host's plugin and one that a tenant had under the same id before are two lines
// of a bill with the same labels, and names need not be UTF-8.
func TestLinesWithTheSameLabelsAreOneSample(t *testing.T) {
	bill := &plugin.UsageReport{Items: []plugin.LineItem{
		{Tenant: "acme", Plugin: "p", Export: "tool", Instructions: 1, PeakMemory: 5, Duration: time.Second},
		{Tenant: "acme", Plugin: "p", Export: "tool", Instructions: 2, PeakMemory: 3, Duration: time.Second, Owned: true},
		{Tenant: "acme", Plugin: "\xff", Export: "tool", Instructions: 4},
	}}
	got := text(t, metrics.New(&metrics.Options{Plugins: billed{bill}}), &metrics.ViewOptions{Tenants: true})
	wantLines(t, got,
		`agenthost_plugin_instructions_total{export="tool",plugin="p",tenant="acme"} 3`,
		`agenthost_plugin_peak_memory_bytes{export="tool",plugin="p",tenant="acme"} 5`,
		`agenthost_plugin_call_seconds_sum{export="tool",plugin="p",tenant="acme"} 2`,
		"agenthost_plugin_instructions_total{export=\"tool\",plugin=\"\uFFFD\",tenant=\"acme\"} 4")
}

func newRuntime(t *testing.T) *plugin.Runtime {
	t.Helper()
	rt, err := plugin.NewRuntime(t.Context(), &plugin.Options{CacheDir: testcode.Dir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rt.Close(context.Background()) })
	return rt
}

// Without tenants, metrics name neither a tenant nor a plugin that a tenant has for
// itself.
func TestSlotsAreMeasured(t *testing.T) {
	rt := newRuntime(t)
	for id, owner := range map[string]string{"limiter": "", "secret-project": "acme"} {
		s, err := rt.NewSlot(t.Context(), id, tokenlimiter.Wasm, &plugin.SlotOptions{LoadOptions: plugin.LoadOptions{Owner: owner}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Call(t.Context(), "acme", "process", []byte(`{}`), nil); host.CodeOf(err) == host.NotFound {
			t.Fatal(err)
		}
	}
	c := metrics.New(&metrics.Options{Plugins: rt})
	got := text(t, c, &metrics.ViewOptions{Tenants: true})
	checkFormat(t, got)
	wantLines(t, got,
		`agenthost_plugin_slot_version{plugin="limiter"} 1`,
		`agenthost_plugin_slot_running_calls{plugin="limiter"} 0`,
		`agenthost_plugin_slot_open_breakers{plugin="limiter"} 0`,
		`agenthost_plugin_slot_held_versions{plugin="limiter"} 0`,
		`agenthost_plugin_slot_version{plugin="secret-project",tenant="acme"} 1`)
	if !strings.Contains(got, `agenthost_plugin_slot_version_since_seconds{plugin="limiter"} 1.`) {
		t.Errorf("no time since when a version serves:\n%s", got)
	}
	got = text(t, c, nil)
	wantLines(t, got, `agenthost_plugin_slot_version{plugin="limiter"} 1`)
	for _, name := range []string{"acme", "secret-project"} {
		if strings.Contains(got, name) {
			t.Errorf("without tenants %s is named:\n%s", name, got)
		}
	}
	if !strings.Contains(got, `plugin="(tenants)"`) {
		t.Errorf("without tenants there is no sum of their plugins:\n%s", got)
	}
}

// A program's own registry holds its metrics and the collector's.
func ExampleCollector_View() {
	registry := prometheus.NewRegistry()
	ready := prometheus.NewGauge(prometheus.GaugeOpts{Name: "shop_ready", Help: "Whether the shop is open."})
	registry.MustRegister(ready, metrics.New(nil).View(nil))
	families, err := registry.Gather()
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range families {
		fmt.Println(f.GetName())
	}
	// Output:
	// agenthost_runs_in_progress
	// shop_ready
}
