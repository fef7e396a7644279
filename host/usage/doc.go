// Package usage keeps what tenants use and bounds it: tokens, calls, instructions, time
// and money, in windows from a second to a calendar month, on any [kv.Driver].
//
//	ledger, err := usage.New(driver, &usage.Options{
//		Default: usage.Plan{Limits: []usage.Limit{{Resource: usage.Tokens, Amount: 200_000}}},
//		Prices:  prices,
//	})
//	defer ledger.Close(ctx)
//	err = ledger.SetPlan("acme", &usage.Plan{Limits: []usage.Limit{
//		{Resource: usage.Money, Amount: usage.Units(50), Window: usage.CalendarMonth},
//	}})
//	h, err := host.New(&host.Options{Ledger: ledger})
//
// A [Plan] has the limits of a tenant. A run asks whether something is left before its
// first write, and reserves each model call before it is made: the tokens of the request
// with the most tokens that the answer may have. So a limit is not passed by a whole call.
// A model that returns more than it was asked for has its excess counted, and the next
// call is refused. A refusal is an error of code resource_exhausted with the name of the
// limit and RetryAfter, and holds a [*ExhaustedError].
//
// # Records
//
// Each run leaves one [Record] with tenant, key, agents, models, price version and the
// amounts used. Package plugin charges what sandboxed code uses through a [Payer]: to the
// run that a call belongs to, or, outside runs, to a record without a run: so are the
// describing and the compiling of a tenant's own plugins. [Ledger.BillOf] sums records
// by day and by month, [Ledger.Export] returns them in order from a cursor.
// The amounts of the records are those that the limits count: a bill over a window and the
// use of that window are equal.
//
// # Hosts and crashes
//
// All hosts on one store share a tenant's limits. A host leases a block of each limit, at
// most 1 % of it or one call, and counts against its lease without a write; a lease counts
// as spent for other hosts. The record of a run is stored by the commit of its turn, where
// the history is on the same store, and moves from the lease to the settled use within
// [Options].FlushInterval. A lease that its host does not renew, because the host was
// killed, expires after [LeaseTerm]: then another host settles the records that the host
// had stored, and the rest of the lease is free again. Use that a killed host had neither
// stored nor settled is lost with the lease; it is at most that lease.
//
// Clocks of hosts may differ by [MaxClockSkew].
//
// # Windows
//
// A window of a length begins with the first use after the last one has ended. A calendar
// window ([CalendarDay] and others) begins and ends in UTC, for all tenants alike. A window
// is stored with its use, so that a restart changes nothing.
package usage
