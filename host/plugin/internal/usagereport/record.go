package usagereport

import (
	"cmp"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host"
)

// The bounds of a report.
const (
	// defaultTenants is how many tenants have lines of their own; the use
	// of further tenants is summed under OtherTenants.
	defaultTenants = 10_000

	// OtherTenants stands for the tenants without lines of their own.
	OtherTenants = "(others)"

	// maxRecords bounds the records, one for each tenant, plugin and export. Further
	// ones are summed under OtherTenants and then under otherPlugins.
	maxRecords   = 200_000
	otherPlugins = "(others)"

	// TenantPlugins stands for the plugins of tenants in a sum over tenants.
	TenantPlugins = "(tenants)"
)

// Record counts the calls of one export of a plugin for one tenant. Its mutex is
// cheaper than an atomic counter for each field, and held for a few additions
// only.
type Record struct {
	mu  sync.Mutex
	sum Item // without the names
}

// Add counts a call that was begun. It allocates nothing.
func (r *Record) Add(cost *host.Cost, took, wait time.Duration, o Outcome) {
	bucket := latencyBucket(took)
	r.mu.Lock()
	c := &r.sum
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
	r.mu.Unlock()
}

// Refuse counts a call that was not begun.
func (r *Record) Refuse(waited time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sum.Outcomes[Refused]++
	r.sum.Wait += waited
}

// Started counts instructions that a plugin has used beside calls: to start an instance.
func (r *Record) Started(instructions int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sum.Instructions += instructions
}

// Compiled counts the time to compile a plugin.
func (r *Record) Compiled(took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sum.Compile += took
}

// lineItem returns the record as a line.
func (r *Record) lineItem(k key) *Item {
	r.mu.Lock()
	c := r.sum
	r.mu.Unlock()
	c.Tenant, c.Plugin, c.Export, c.Owned = k.tenant, k.plugin, k.export, k.owned
	return &c
}

// Book has the records of a runtime. It is safe for concurrent use.
type Book struct {
	tenants int // limit

	mu     sync.Mutex
	all    map[key]*Record
	billed map[string]struct{} // tenants
}

// New returns a book in which so many tenants have records of their own; 0 is 10,000.
// Code invalid_argument for a negative number.
func New(tenants int) (*Book, error) {
	if tenants < 0 {
		return nil, host.Errorf(host.InvalidArgument, "ReportedTenants is %d", tenants).WithHint("leave it out for the default")
	}
	return &Book{tenants: cmp.Or(tenants, defaultTenants), all: map[key]*Record{}, billed: map[string]struct{}{}}, nil
}

// Record returns the one that counts for a tenant's calls.
func (b *Book) Record(tenant, plugin, export string, owned bool) *Record {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.billed[tenant]; !ok {
		if len(b.billed) >= b.tenants {
			tenant = OtherTenants
		} else {
			b.billed[strings.Clone(tenant)] = struct{}{}
		}
	}
	k := key{tenant: tenant, plugin: plugin, export: export, owned: owned}
	if m := b.all[k]; m != nil {
		return m
	}
	if len(b.all) >= maxRecords {
		k.tenant = OtherTenants
	}
	if len(b.all) >= 2*maxRecords || owned && k.tenant == OtherTenants {
		k.plugin = otherPlugins
	}
	m := b.all[k]
	if m == nil {
		m = &Record{}
		b.all[key{tenant: strings.Clone(k.tenant), plugin: k.plugin, export: k.export, owned: k.owned}] = m
	}
	return m
}

// Report returns the usage of the calls that have ended since a time.
func (b *Book) Report(from time.Time) *Report {
	b.mu.Lock()
	all := maps.Clone(b.all)
	b.mu.Unlock()
	return newReport(from, time.Now(), func(yield func(*Item) bool) {
		for k, m := range all {
			if !yield(m.lineItem(k)) {
				return
			}
		}
	})
}
