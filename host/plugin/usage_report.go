package plugin

import (
	"cmp"
	"maps"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host"
)

// The bounds of a runtime's usage report.
const (
	// defaultReportedTenants is how many tenants have lines of their own; the use
	// of further tenants is summed under OtherTenants.
	defaultReportedTenants = 10_000

	// OtherTenants stands for the tenants without lines of their own.
	OtherTenants = "(others)"

	// maxUsageRecords bounds the records, one for each tenant, plugin and export. Further
	// ones are summed under OtherTenants and then under otherPlugins.
	maxUsageRecords = 200_000
	otherPlugins    = "(others)"

	// TenantPlugins stands for the plugins of tenants in a sum over tenants.
	TenantPlugins = "(tenants)"
)

// Outcome is how a call ended.
type Outcome int

// The outcomes.
const (
	OutcomeOK       Outcome = iota // with a result
	OutcomeError                   // with an error object of the guest's
	OutcomeTrap                    // by a trap, or a fault of its own
	OutcomeLimit                   // by a limit, or a tenant's budget
	OutcomeTimeout                 // at its deadline
	OutcomeCanceled                // because its caller left
	OutcomeRefused                 // before it began: no free instance, no budget, too large an input
	outcomeCount
)

var outcomeNames = [outcomeCount]string{"ok", "error", "trap", "limit", "timeout", "canceled", "refused"}

// String returns the outcome's name in metrics.
func (o Outcome) String() string { return outcomeNames[o] }

// outcomeOf tells how a call ended that was begun.
func outcomeOf(err error, guestErr bool) Outcome {
	if err == nil && !guestErr {
		return OutcomeOK
	}
	if err == nil {
		return OutcomeError
	}
	switch host.CodeOf(err) {
	case host.ResourceExhausted:
		return OutcomeLimit
	case host.DeadlineExceeded:
		return OutcomeTimeout
	case host.Canceled:
		return OutcomeCanceled
	}
	return OutcomeTrap
}

// latencyBuckets is how many buckets a histogram of times has: bucket i counts
// calls that took less than 2 to the i microseconds, the last one all from 8.4 s on.
const latencyBuckets = 25

// Latency counts calls by how long they took: element i those of at least
// 2^(i-1) and less than 2^i microseconds, the last one all that took longer.
type Latency [latencyBuckets]int64

func latencyBucket(d time.Duration) int {
	return min(bits.Len64(uint64(max(0, d.Microseconds()))), latencyBuckets-1)
}

// Count returns how many calls there are.
func (l *Latency) Count() (n int64) {
	for _, c := range l {
		n += c
	}
	return n
}

// Quantile returns a time that the share q of the calls stay under, from 0 to 1:
// the upper end of a bucket, thus at most twice too long. 0 without calls.
func (l *Latency) Quantile(q float64) time.Duration {
	rest := q * float64(l.Count())
	for i, c := range l {
		if rest -= float64(c); c > 0 && rest <= 0 {
			return LatencyBound(i)
		}
	}
	return 0
}

// LatencyBound returns the time that calls in element i of a [Latency] stay under;
// those in the last element have no bound.
func LatencyBound(i int) time.Duration { return time.Microsecond << i }

// LineItem is the usage by the calls of one export of a plugin for one tenant.
type LineItem struct {
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
func (c *LineItem) Calls() (n int64) {
	for _, o := range c.Outcomes {
		n += o
	}
	return n
}

// Errors returns how many of the calls did not end well.
func (c *LineItem) Errors() int64 { return c.Calls() - c.Outcomes[OutcomeOK] }

// add adds v to c; the peak is the larger of the two.
func (c *LineItem) add(v *LineItem, sign int64) {
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

// UsageReport is the usage of a runtime's plugins since it began, or in a part of that
// time.
type UsageReport struct {
	From   time.Time  `json:"from"`
	To     time.Time  `json:"to"`
	Prices int        `json:"prices"`  // the PriceVersion of its instructions
	Items  []LineItem `json:"charges"` // by tenant, plugin and export
}

// Since returns the usage since an earlier report of the same runtime. Peaks
// stay those since the beginning.
func (b *UsageReport) Since(earlier *UsageReport) *UsageReport {
	before := make(map[usageKey]*LineItem, len(earlier.Items))
	for i := range earlier.Items {
		c := &earlier.Items[i]
		before[c.key()] = c
	}
	out := &UsageReport{From: earlier.To, To: b.To, Prices: b.Prices}
	for _, c := range b.Items {
		if old := before[c.key()]; old != nil {
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
func (b *UsageReport) Sum(tenant, plugin, export bool) *UsageReport {
	sums := map[usageKey]*LineItem{}
	for i := range b.Items {
		c := &b.Items[i]
		var key usageKey
		if tenant {
			key.tenant = c.Tenant
		}
		if plugin {
			key.plugin, key.owned = c.Plugin, c.Owned
			if c.Owned && !tenant {
				key.plugin = TenantPlugins
			}
		}
		if export {
			key.export = c.Export
		}
		sum := sums[key]
		if sum == nil {
			sum = &LineItem{Tenant: key.tenant, Plugin: key.plugin, Export: key.export, Owned: key.owned}
			sums[key] = sum
		}
		sum.add(c, 1)
	}
	out := newUsageReport(b.From, b.To, maps.Values(sums))
	out.Prices = b.Prices
	return out
}

func newUsageReport(from, to time.Time, items func(func(*LineItem) bool)) *UsageReport {
	b := &UsageReport{From: from, To: to, Prices: PriceVersion, Items: []LineItem{}}
	for c := range items {
		b.Items = append(b.Items, *c)
	}
	slices.SortFunc(b.Items, func(x, y LineItem) int { return x.key().compare(y.key()) })
	return b
}

// usageKey says whose calls a usageRecord counts.
type usageKey struct {
	tenant, plugin, export string
	owned                  bool // the plugin is the tenant's
}

func (c *LineItem) key() usageKey { return usageKey{c.Tenant, c.Plugin, c.Export, c.Owned} }

func (k usageKey) compare(l usageKey) int {
	if n := strings.Compare(k.tenant, l.tenant); n != 0 {
		return n
	}
	if n := strings.Compare(k.plugin, l.plugin); n != 0 {
		return n
	}
	return strings.Compare(k.export, l.export)
}

// usageRecord counts the calls of one export of a plugin for one tenant. Its mutex is
// cheaper than an atomic counter for each field, and held for a few additions
// only.
type usageRecord struct {
	mu  sync.Mutex
	sum LineItem // without the names
}

// record counts a call that was begun. It allocates nothing.
func (t *usageRecord) record(cost *host.Cost, took, wait time.Duration, o Outcome) {
	bucket := latencyBucket(took)
	t.mu.Lock()
	c := &t.sum
	c.Outcomes[o]++
	c.Latency[bucket]++
	c.Instructions += cost.Instructions
	c.Duration += took
	c.Wait += wait
	c.Throttled += time.Duration(cost.ThrottledUS) * time.Microsecond
	c.PeakMemory = max(c.PeakMemory, cost.PeakMemory)
	c.HostCalls += int64(cost.HostCalls)
	c.InputBytes += int64(cost.InputBytes)
	c.OutputBytes += int64(cost.OutputBytes)
	t.mu.Unlock()
}

// refuse counts a call that was not begun.
func (t *usageRecord) refuse(waited time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sum.Outcomes[OutcomeRefused]++
	t.sum.Wait += waited
}

// compiled counts the time to compile a plugin.
func (t *usageRecord) compiled(took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sum.Compile += took
}

// lineItem returns the record as a line.
func (t *usageRecord) lineItem(k usageKey) *LineItem {
	t.mu.Lock()
	c := t.sum
	t.mu.Unlock()
	c.Tenant, c.Plugin, c.Export, c.Owned = k.tenant, k.plugin, k.export, k.owned
	return &c
}

// usageRecords are those of a runtime.
type usageRecords struct {
	tenants int // limit

	mu     sync.Mutex
	all    map[usageKey]*usageRecord
	billed map[string]struct{} // tenants
}

func newUsageRecords(tenants int) (*usageRecords, error) {
	if tenants < 0 {
		return nil, host.Errorf(host.InvalidArgument, "ReportedTenants is %d", tenants).WithHint("leave it out for the default")
	}
	return &usageRecords{tenants: cmp.Or(tenants, defaultReportedTenants), all: map[usageKey]*usageRecord{}, billed: map[string]struct{}{}}, nil
}

// usageRecord returns the one that counts for a tenant's calls.
func (ms *usageRecords) usageRecord(tenant, plugin, export string, owned bool) *usageRecord {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if _, ok := ms.billed[tenant]; !ok {
		if len(ms.billed) >= ms.tenants {
			tenant = OtherTenants
		} else {
			ms.billed[strings.Clone(tenant)] = struct{}{}
		}
	}
	k := usageKey{tenant, plugin, export, owned}
	if m := ms.all[k]; m != nil {
		return m
	}
	if len(ms.all) >= maxUsageRecords {
		k.tenant = OtherTenants
	}
	if len(ms.all) >= 2*maxUsageRecords || owned && k.tenant == OtherTenants {
		k.plugin = otherPlugins
	}
	m := ms.all[k]
	if m == nil {
		m = &usageRecord{}
		ms.all[usageKey{strings.Clone(k.tenant), k.plugin, k.export, k.owned}] = m
	}
	return m
}

func (ms *usageRecords) report(from time.Time) *UsageReport {
	ms.mu.Lock()
	all := maps.Clone(ms.all)
	ms.mu.Unlock()
	return newUsageReport(from, time.Now(), func(yield func(*LineItem) bool) {
		for k, m := range all {
			if !yield(m.lineItem(k)) {
				return
			}
		}
	})
}

// UsageReport returns the usage of all calls since the runtime began: those that have
// ended, over all versions of each plugin, also of plugins that are closed. For
// rates, take it twice and see [UsageReport.Since].
func (rt *Runtime) UsageReport() *UsageReport { return rt.usageRecords.report(rt.began) }

// billed returns the tenant whose calls these are: a plugin's owner for those that
// try it, and otherwise the caller.
func (b *binding) billed() string {
	if b.account.id == describeTenant {
		return b.plugin.owner
	}
	return b.account.id
}

// usageRecord returns the one of an export's calls in this binding.
func (b *binding) usageRecord(e export) *usageRecord {
	if e >= exportCount { // a function of an Extism plugin: not kept here
		return b.plugin.runtime.usageRecords.usageRecord(b.billed(), b.plugin.id, b.plugin.module.exportName(e), b.plugin.owner != "")
	}
	if t := b.usageRecords[e].Load(); t != nil {
		return t
	}
	t := b.plugin.runtime.usageRecords.usageRecord(b.billed(), b.plugin.id, strings.TrimPrefix(b.plugin.module.exportName(e), exportPrefix), b.plugin.owner != "")
	b.usageRecords[e].Store(t)
	return t
}

// refused counts a call that was not begun, unless there is no such plugin for
// the tenant, or none any more.
func (bs *bindings) refused(r *callRequest, arrived time.Time, err error) error {
	switch host.CodeOf(err) {
	case host.NotFound, host.FailedPrecondition:
	default:
		bs.of(r.tenant).usageRecord(r.export).refuse(time.Since(arrived))
	}
	return err
}
