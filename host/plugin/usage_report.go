package plugin

import (
	"strings"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
	"github.com/agenthost/agenthost/host/plugin/internal/usagereport"
)

// UsageReport is the usage of a runtime's plugins From a time To another: Items by
// tenant, plugin and export, in that order, and the version of the Prices of their
// instructions. Since returns the part since an earlier report, Sum one with fewer items.
type UsageReport = usagereport.Report

// LineItem is the usage by the calls of one Export of a Plugin for one Tenant; in a sum,
// some of the three are "". Owned marks the plugins of tenants. It has the calls by
// Outcome and by Latency, and sums: Instructions, Duration (wall time inside the sandbox),
// Wait (until calls began), Throttled (the part of Duration in which others ran), Compile
// (of a tenant's own plugins, on the line "(compile)" of each), HostCalls, InputBytes and
// OutputBytes. PeakMemory is that of the largest call. The instructions of starts of
// instances are on the line "(start)" of each plugin, so that the instructions of a tenant
// are those that its budget counts.
type LineItem = usagereport.Item

// Outcome is how a call ended.
type Outcome = usagereport.Outcome

// The outcomes.
const (
	OutcomeOK       = usagereport.OK       // with a result
	OutcomeError    = usagereport.Error    // with an error object of the guest's
	OutcomeTrap     = usagereport.Trap     // by a trap, or a fault of its own
	OutcomeLimit    = usagereport.Limit    // by a limit, or a tenant's budget
	OutcomeTimeout  = usagereport.Timeout  // at its deadline
	OutcomeCanceled = usagereport.Canceled // because its caller left
	OutcomeRefused  = usagereport.Refused  // before it began: no free instance, no budget, too large an input
)

// Latency counts calls by how long they took: element i those of at least
// 2^(i-1) and less than 2^i microseconds, the last one all that took longer. It is an
// array of 25 numbers.
type Latency = usagereport.Latency

// LatencyBound returns the time that calls in element i of a [Latency] stay under;
// those in the last element have no bound.
func LatencyBound(i int) time.Duration { return usagereport.LatencyBound(i) }

const (
	// OtherTenants stands for the tenants without lines of their own.
	OtherTenants = usagereport.OtherTenants

	// TenantPlugins stands for the plugins of tenants in a sum over tenants.
	TenantPlugins = usagereport.TenantPlugins
)

// UsageReport returns the usage of all calls since the runtime began: those that have
// ended, over all versions of each plugin, also of plugins that are closed. For
// rates, take it twice and see [UsageReport.Since].
func (rt *Runtime) UsageReport() *UsageReport { return rt.usageBook.Report(rt.began) }

// billed returns the tenant whose calls these are: a plugin's owner for those that
// try it, and otherwise the caller.
func (b *binding) billed() string {
	if b.account.id == describeTenant {
		return b.plugin.owner
	}
	return b.account.id
}

// startLine is the line of a report with the instructions of the starts of instances, which
// belong to no export.
const startLine = "(start)"

// startPayer pays for the start of an instance, and has it in the report.
type startPayer struct{ inst *instance }

// ChargeInstructions implements [callmeter.Account].
func (p *startPayer) ChargeInstructions(n int64, now time.Time) error {
	b := p.inst.call.binding
	b.plugin.runtime.usageBook.Record(b.billed(), b.plugin.id, startLine, b.plugin.owner != "").Started(n)
	return p.inst.call.payer.ChargeInstructions(n, now)
}

// usageRecord returns the one of an export's calls in this binding.
func (b *binding) usageRecord(e abi.Export) *usagereport.Record {
	if e >= abi.ExportCount { // a function of an Extism plugin: not kept here
		return b.plugin.runtime.usageBook.Record(b.billed(), b.plugin.id, b.plugin.module.exportName(e), b.plugin.owner != "")
	}
	if t := b.usageRecords[e].Load(); t != nil {
		return t
	}
	t := b.plugin.runtime.usageBook.Record(b.billed(), b.plugin.id, strings.TrimPrefix(b.plugin.module.exportName(e), abi.ExportPrefix), b.plugin.owner != "")
	b.usageRecords[e].Store(t)
	return t
}

// refused counts a call that was not begun, unless there is no such plugin for
// the tenant, or none any more.
func (bs *bindings) refused(r *callRequest, arrived time.Time, err error) error {
	switch host.CodeOf(err) {
	case host.NotFound, host.FailedPrecondition:
	default:
		bs.of(r.tenant).usageRecord(r.export).Refuse(time.Since(arrived))
	}
	return err
}
