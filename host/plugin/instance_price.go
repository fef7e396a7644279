package plugin

import (
	"math"

	"github.com/agenthost/agenthost/host/plugin/internal/fairsched"
	"github.com/agenthost/agenthost/host/plugin/internal/wasmmeter"
)

// What an instance costs before any code of it runs: the host copies its data,
// makes a reference for each element, and clears its tables, all in one call of
// wazero that nothing interrupts. So an instance has a price by what it is made of,
// paid before it is made, and one that takes long is made apart: without the call's
// turn, which others have meanwhile, and one at a time.
const (
	// instancePrice is what an instance costs beside its start-up code and what it is
	// made of: a tenant's budget pays it, and it counts for whose turn it is. Otherwise
	// making one after the other by trapping would be free.
	instancePrice = 500_000

	// callPrice is the price of a call beside its instructions: to begin and to end it
	// takes the host some microseconds, which others wait.
	callPrice = 10_000

	// What an instance is made of, each measured on one core of a 2020s server.
	elementPrice = 500 // 100 to 200 ns: each is an object of its own
	entryPrice   = 4   // of a table, with the pages
	dataPrice    = 1   // a byte of data: 0.7 ns where pages are new
	segmentPrice = 200 // a segment of data or elements
	globalPrice  = 200 // a global, with its export

	// apartPrice is from which price on an instance is made apart: half a
	// millisecond. A guest in Go is below it.
	apartPrice = 4_000_000

	// What tables count for in the limit TotalMemoryBytes. They lie in the Go heap, as
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

// tableBytes is what the tables and elements of an instance count for. Of a module
// that changes tables each counts at its largest, so that table.grow needs no memory
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
// the call's time is up, as others may have had their turn first.
func (inst *instance) payInstance() error {
	price := inst.plugin.module.code.keeps.price
	_ = inst.binding.account.charge(instructions, price) // the call is stopped, if that was too much
	if !inst.work(price) {
		return inst.late()
	}
	return nil
}

// makeModule instantiates the module, apart if that takes long.
func (inst *instance) makeModule() error {
	price := inst.plugin.module.code.keeps.price
	if price < apartPrice {
		return inst.instantiate()
	}
	inst.pause()
	err := inst.instantiateApart(price)
	if inst.retake(); inst.turnless {
		err = inst.late()
		inst.call.stopped = err
	}
	return err
}

// instantiateApart waits until no other instance is being made that takes long, the
// tenants' one after the other by what each has had made, and makes this one.
func (inst *instance) instantiateApart(price int64) error {
	c, apart := &inst.call, inst.plugin.runtime.apart
	sh, err := apart.Enter(c.ctx, inst.tenant, c.timeLeft())
	if err != nil { // the call's time is up
		inst.call.stopped = blameless(inst.late())
		return inst.call.stopped
	}
	defer apart.Leave(sh, price, true)
	return inst.instantiate()
}

// newApart returns the turns of instances that are made apart.
func newApart() *fairsched.Scheduler { return fairsched.New(1, math.MaxInt) }
