// Package runledger is the contract of ledgers, which bound and record what tenants use.
//
// A host asks its [Ledger] whether a run may begin, and opens a [Record] for it. The record
// is asked before each call of a model and each batch of tool calls, and counts their usage
// and the time of the run. It closes with the run, with an [Entry] for the commit of the
// turn if it wants one stored there.
//
// Package host has these types under its own names: host.Ledger, host.UsageRecord,
// host.ModelCall and host.TurnEntry. The package bounds nothing itself and knows no run.
package runledger
