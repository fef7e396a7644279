package usagereport

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/agenthost/agenthost/host/plugin/internal/wasmmeter"
)

// Item is the usage by the calls of one export of a plugin for one tenant.
type Item struct {
	Tenant string `json:"tenant,omitempty"` // "" in a sum over tenants
	Plugin string `json:"plugin,omitempty"`
	Export string `json:"export,omitempty"`
	Owned  bool   `json:"owned,omitempty"` // the plugin is of tenants, and not the host's

	Outcomes     [outcomeCount]int64 `json:"outcomes"` // calls by Outcome
	Instructions int64               `json:"instructions"`
	Duration     time.Duration       `json:"duration_ns"`          // wall time inside the sandbox
	Wait         time.Duration       `json:"wait_ns"`              // until calls began
	Throttled    time.Duration       `json:"throttled_ns"`         // of Duration: while it was others' turn
	Compile      time.Duration       `json:"compile_ns,omitempty"` // of a tenant's own plugins, on the line "(compile)" of each
	PeakMemory   int64               `json:"peak_memory_bytes"`
	HostCalls    int64               `json:"host_calls"`
	InputBytes   int64               `json:"input_bytes"`
	OutputBytes  int64               `json:"output_bytes"`
	Latency      Latency             `json:"latency"` // of calls that began, without the wait
}

// Calls returns how many calls there were, refused ones too.
func (c *Item) Calls() (n int64) {
	for _, o := range c.Outcomes {
		n += o
	}
	return n
}

// Errors returns how many of the calls did not end well.
func (c *Item) Errors() int64 { return c.Calls() - c.Outcomes[OK] }

// add adds v to c; the peak is the larger of the two.
func (c *Item) add(v *Item, sign int64) {
	for i := range c.Outcomes {
		c.Outcomes[i] += sign * v.Outcomes[i]
	}
	for i := range c.Latency {
		c.Latency[i] += sign * v.Latency[i]
	}
	c.Instructions += sign * v.Instructions
	c.Duration += time.Duration(sign) * v.Duration
	c.Wait += time.Duration(sign) * v.Wait
	c.Throttled += time.Duration(sign) * v.Throttled
	c.Compile += time.Duration(sign) * v.Compile
	c.HostCalls += sign * v.HostCalls
	c.InputBytes += sign * v.InputBytes
	c.OutputBytes += sign * v.OutputBytes
	c.PeakMemory = max(c.PeakMemory, v.PeakMemory)
}

// Report is the usage of a runtime's plugins since it began, or in a part of that
// time.
type Report struct {
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`
	Prices int       `json:"prices"`  // the version of the prices of its instructions
	Items  []Item    `json:"charges"` // by tenant, plugin and export
}

// Since returns the usage since an earlier report of the same runtime. Peaks
// stay those since the beginning.
func (b *Report) Since(earlier *Report) *Report {
	before := make(map[key]*Item, len(earlier.Items))
	for i := range earlier.Items {
		c := &earlier.Items[i]
		before[c.id()] = c
	}
	out := &Report{From: earlier.To, To: b.To, Prices: b.Prices}
	for _, c := range b.Items {
		if old := before[c.id()]; old != nil {
			c.add(old, -1)
		}
		if c.Calls() > 0 || c.Compile > 0 {
			out.Items = append(out.Items, c)
		}
	}
	return out
}

// Sum returns the report with fewer lines: those with the same tenant, plugin and
// export, of those three that are asked for, become one.
func (b *Report) Sum(tenant, plugin, export bool) *Report {
	sums := map[key]*Item{}
	for i := range b.Items {
		c := &b.Items[i]
		var k key
		if tenant {
			k.tenant = c.Tenant
		}
		if plugin {
			k.plugin, k.owned = c.Plugin, c.Owned
			if c.Owned && !tenant {
				k.plugin = TenantPlugins
			}
		}
		if export {
			k.export = c.Export
		}
		sum := sums[k]
		if sum == nil {
			sum = &Item{Tenant: k.tenant, Plugin: k.plugin, Export: k.export, Owned: k.owned}
			sums[k] = sum
		}
		sum.add(c, 1)
	}
	out := newReport(b.From, b.To, maps.Values(sums))
	out.Prices = b.Prices
	return out
}

func newReport(from, to time.Time, items func(func(*Item) bool)) *Report {
	b := &Report{From: from, To: to, Prices: wasmmeter.PriceVersion, Items: []Item{}}
	for c := range items {
		b.Items = append(b.Items, *c)
	}
	slices.SortFunc(b.Items, func(x, y Item) int { return x.id().compare(y.id()) })
	return b
}

// key identifies the calls that a Record counts.
type key struct {
	tenant, plugin, export string
	owned                  bool // the plugin is the tenant's
}

func (c *Item) id() key {
	return key{tenant: c.Tenant, plugin: c.Plugin, export: c.Export, owned: c.Owned}
}

func (k key) compare(l key) int {
	if n := strings.Compare(k.tenant, l.tenant); n != 0 {
		return n
	}
	if n := strings.Compare(k.plugin, l.plugin); n != 0 {
		return n
	}
	return strings.Compare(k.export, l.export)
}
