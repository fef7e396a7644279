package plugin

import (
	"time"

	"github.com/agenthost/agenthost/host/plugin/internal/fairsched"
	"github.com/agenthost/agenthost/host/plugin/internal/wasmmeter"
)

// The cost of an instance before any code of it runs: the host copies its data,
// makes a reference for each element, and clears its tables, all in one call of
// wazero that nothing interrupts. So an instance has a price by its parts, paid
// before it is made, and one that takes long is made apart: in a blocking section of
// the call, while other calls run, and one at a time.
const (
	// instancePrice is the price of an instance beside its start-up code and its parts:
	// the tenant's budget pays it, and the scheduler counts it. Otherwise making one
	// after the other by trapping would be free.
	instancePrice = 500_000

	// callPrice is the price of a call beside its instructions: the host takes some
	// microseconds to begin and to end it, and other calls wait meanwhile.
	callPrice = 10_000

	// The prices of an instance's parts, measured on one core of a 2020s server.
	elementPrice = 500 // 100 to 200 ns: each is an object of its own
	entryPrice   = 4   // of a table, with the pages
	dataPrice    = 1   // a byte of data: 0.7 ns where pages are new
	segmentPrice = 200 // a segment of data or elements
	globalPrice  = 200 // a global, with its export

	// apartPrice is the price from which an instance is made apart: half a
	// millisecond. A guest in Go is below it.
	apartPrice = 4_000_000

	// The bytes of tables in the limit TotalMemoryBytes. Tables lie in the Go heap, as
	// stacks do.
	entryBytes   = stackShare * 8
	elementBytes = stackShare * 48
)

// priceOfInstance is the price of an instance of a module.
func priceOfInstance(m *wasmmeter.Module) int64 {
	price := int64(instancePrice)
	for _, d := range m.Data {
		price += segmentPrice
		if d.Active {
			price += dataPrice * int64(d.Size())
		}
	}
	price += segmentPrice*int64(m.Elements) + elementPrice*int64(m.ElementItems) + globalPrice*int64(len(m.Globals))
	for _, t := range m.Tables {
		price += entryPrice * int64(t.Min)
	}
	return price
}

// tableBytes returns the bytes counted for an instance's tables and elements. Of a
// module that changes tables each counts at its largest, so that table.grow needs no memory
// that has not been counted.
func tableBytes(p *wasmmeter.Metered, most uint32) int64 {
	n := elementBytes * int64(p.Module.ElementItems)
	for _, t := range p.Module.Tables {
		size := t.Min
		if !p.Restorable {
			size = t.Clamp(most).Max
		}
		n += entryBytes * int64(size)
	}
	return n
}

// payInstance takes the price of an instance that is about to be made. It fails if
// the call's time is up, as other calls may have run first.
func (inst *instance) payInstance() error {
	price := inst.plugin.module.code.keeps.price
	_ = (&startPayer{inst}).ChargeInstructions(price, time.Now()) // the call is stopped, if that was too much
	if !inst.meter.YieldAfter(price) {
		return inst.meter.LateError()
	}
	return nil
}

// makeModule instantiates the module, apart if that takes long.
func (inst *instance) makeModule(flow *fairsched.Flow) error {
	price := inst.plugin.module.code.keeps.price
	if price < apartPrice {
		return inst.instantiate(flow)
	}
	return inst.meter.RunUninterruptible(price, func() error { return inst.instantiate(flow) })
}
