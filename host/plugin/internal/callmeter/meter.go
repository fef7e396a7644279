package callmeter

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/plugin/internal/fairsched"
)

const (
	// FuelQuantum is how many instructions a guest runs between two looks at its
	// deadline: 50 to 100 us of them, long against a check and short against 1 ms.
	FuelQuantum = 100_000

	// BytesPerInstruction is the price of bytes that the host copies for a guest.
	BytesPerInstruction = 16

	// threadYieldInterval is how long a guest runs until it lets other goroutines run
	// without a request for it. Go wakes a thread that looks for work each time, which
	// often enough takes the guest itself to another core: once a fuel check made a guest
	// that decodes JSON take 1.8 times as long.
	threadYieldInterval = 200 * time.Microsecond
)

// Host is what the meters of one runtime share. Its fields do not change.
type Host struct {
	Scheduler *fairsched.Scheduler // of all calls

	// Uninterruptible has one running: work of the host that takes long and that nothing
	// interrupts, such as the growth of a stack.
	Uninterruptible *fairsched.Scheduler

	// Blameless marks an error that says nothing about the plugin.
	Blameless func(error) error
}

// Fuel is the counter of a guest, which the guest lowers by the price of its
// instructions.
type Fuel interface {
	Get() uint64
	Set(uint64)
}

// Account is a tenant's budget. It is safe for concurrent use.
type Account interface {
	// ChargeInstructions takes n instructions. It fails with code resource_exhausted if
	// more than the budget is used then; n counts all the same, since it has been used.
	ChargeInstructions(n int64, now time.Time) error
}

// Payer is the tenant that calls are made for.
type Payer struct {
	Tenant  string
	Account Account
	Flow    *fairsched.Flow // of Host.Scheduler; not nil in a call
}

// Call describes a call.
type Call struct {
	Context      context.Context // the caller's; the call's lifetime lies in its
	Export       string          // in errors
	Start        time.Time
	Timeout      time.Duration
	Instructions int64
	Limits       *LimitNames // of the two before; not to be changed
}

// LimitNames are the names that a call's limits have in errors.
type LimitNames struct{ Timeout, Instructions string }

// Stack is the memory that counts for the stack of a guest.
type Stack interface {
	// Suspend counts what the stack has, while its guest runs no code.
	Suspend()
	// Resume counts again what the stack may grow to. It fails with code
	// resource_exhausted if there is no memory for that.
	Resume() error
}

// guestStack is the stack of an instance, which may be nil.
type guestStack struct{ of Stack }

// suspend counts the stack for what it has, while its guest runs no code; a guest that has
// returned has no use for it. resume is called before the guest runs again, if it does.
func (s guestStack) suspend(returned bool) (resume func() error) {
	if s.of == nil || returned {
		return func() error { return nil }
	}
	s.of.Suspend()
	return s.of.Resume
}

// Meter counts and bounds the calls of one instance. It is for the goroutine of the call.
type Meter struct {
	host   *Host
	plugin string // in errors
	fuel   Fuel   // nil: the instance has no module yet
	payer  Payer
	stack  guestStack

	call          Call
	deadline      deadline
	granted       int64
	charged       int64 // price of the host's work
	billed        int64 // charged to the tenant
	unchecked     int64 // charged since the last look at the limits
	place         place
	threadYielded time.Time // when other goroutines last ran
	stopped       error
	returned      bool
}

// New returns the meter of an instance of a plugin. The stack may be nil: nothing counts for
// it then.
func New(h *Host, plugin string, stack Stack) Meter {
	return Meter{host: h, plugin: plugin, stack: guestStack{stack}}
}

// SetFuel gives the meter the fuel counter of the instance's module.
func (m *Meter) SetFuel(f Fuel) { m.fuel = f }

// SetPayer sets the tenant of the next calls; the zero value is none, between calls.
func (m *Meter) SetPayer(p Payer) { m.payer = p }

// Begin begins a call.
func (m *Meter) Begin(c *Call) {
	m.call = *c
	m.deadline.begin(c)
	m.granted, m.charged, m.billed, m.unchecked = 0, 0, 0, 0
	m.place = place{}
	m.threadYielded, m.stopped, m.returned = c.Start, nil, false
	if m.fuel != nil {
		m.granted = min(FuelQuantum, c.Instructions)
		m.fuel.Set(uint64(m.granted))
	}
}

// Return notes that no guest code runs any more, so that nothing can be stopped from
// inside it.
func (m *Meter) Return() {
	m.returned = true
	m.EndGrowth()
}

// Rest drops the caller's context of a call that has ended.
func (m *Meter) Rest() { m.call.Context, m.deadline.caller = nil, nil }

// Export returns the name that the call has in errors.
func (m *Meter) Export() string { return m.call.Export }

// Subject names the plugin and the export, as errors of the call begin.
func (m *Meter) Subject() string { return fmt.Sprintf("plugin %q: %s", m.plugin, m.call.Export) }

// Spent returns the instructions that the call has used, with the host's work for it.
func (m *Meter) Spent() int64 {
	if m.fuel == nil {
		return m.granted + m.charged
	}
	return m.granted - int64(m.fuel.Get()) + m.charged
}

// Refuel is the fuel check of a guest whose counter is negative: it checks everything that
// may stop a call, lets others run, and returns the counter with the next quantum of fuel.
func (m *Meter) Refuel(fuel int64) int64 {
	m.unchecked = 0
	m.CheckTime()
	spent := m.granted - fuel + m.charged
	m.bill(spent)
	left := m.call.Instructions - spent
	if left <= 0 {
		m.Stop(m.call.budgetError(m.Subject()))
	}
	more := min(FuelQuantum, left)
	m.granted += more
	m.yield(spent)
	return fuel + more
}

// Charge takes the price of the host's work for a guest from the call's budget, and checks
// the limits as often as Refuel would: few instructions may ask for much work.
func (m *Meter) Charge(n int64) {
	m.EndGrowthInGuest()
	m.charged += n
	if m.unchecked += n; m.unchecked >= FuelQuantum && !m.returned {
		m.Check()
	}
}

// ChargeReturned takes the price of work after the guest has returned. It fails if the
// call's budget is used up then.
func (m *Meter) ChargeReturned(n int64) error {
	m.charged += n
	return m.CheckBudget()
}

// CheckBudget fails if the call's budget is used up.
func (m *Meter) CheckBudget() error {
	if m.Spent() > m.call.Instructions {
		return m.call.budgetError(m.Subject())
	}
	return nil
}

// Check stops a call that is out of time or budget, and lets other calls run if it has
// used a quantum since the last yield: few instructions may ask for much work.
func (m *Meter) Check() {
	m.unchecked = 0
	m.CheckTime()
	spent := m.Spent()
	if spent > m.call.Instructions {
		m.Stop(m.call.budgetError(m.Subject()))
	}
	m.bill(spent)
	if spent-m.place.reported >= FuelQuantum {
		m.yield(spent)
	}
}

// bill charges the tenant for a call's instructions since the last bill, and stops
// the call if the budget is exceeded. spent is the call's total.
func (m *Meter) bill(spent int64) {
	if err := m.Settle(spent, time.Now()); err != nil {
		m.Stop(m.BudgetStop(err))
	}
}

// Settle charges the tenant for the instructions of the call up to spent, its total. It
// fails if the tenant's budget is used up then.
func (m *Meter) Settle(spent int64, now time.Time) error {
	n := spent - m.billed
	m.billed = spent
	return m.payer.Account.ChargeInstructions(n, now)
}

// BudgetStop adds the plugin and the stopped call to an error of a tenant's budget.
func (m *Meter) BudgetStop(err error) error {
	e := *fault.AsError(err)
	e.Message = fmt.Sprintf("%s was stopped: %s", m.Subject(), e.Message)
	return &e
}

// budgetError returns the error of a call that has used up its instructions.
func (c *Call) budgetError(subject string) error {
	return host.Errorf(host.ResourceExhausted, "%s used up the limit %s of %d", subject, c.Limits.Instructions, c.Instructions).
		WithHint("raise the limit, or give the plugin less to do")
}

// CheckTime stops a call whose caller has left or whose time is up.
func (m *Meter) CheckTime() {
	if m.deadline.passed(time.Now()) {
		m.Stop(m.LateError())
	}
}

// LateError returns the error of a call that must end early: its caller has left, its time
// is up, or other calls have kept it waiting until then.
func (m *Meter) LateError() error {
	switch {
	case m.deadline.caller.Err() != nil:
		return EndedError(m.deadline.caller, "%s", m.Subject())
	case m.place.unscheduled:
		return m.host.Blameless(m.deadline.error(m.Subject(), &m.call))
	}
	return m.deadline.error(m.Subject(), &m.call)
}

// Stop ends the guest from inside a function that it imports: the WebAssembly runtime
// unwinds its stack and returns the panic as the call's error.
func (m *Meter) Stop(err error) {
	m.stopped = err
	panic(err)
}

// StopBlameless is Stop with an error that says nothing about the plugin.
func (m *Meter) StopBlameless(err error) { m.Stop(m.host.Blameless(err)) }

// Fail notes err as the cause for which the host ends the call, and returns it.
func (m *Meter) Fail(err error) error {
	m.stopped = err
	return err
}

// Stopped returns why the host has ended the call, nil if it has not.
func (m *Meter) Stopped() error { return m.stopped }

// YieldThread lets other goroutines run if they have waited for so long.
func (m *Meter) YieldThread(now time.Time) {
	if now.Sub(m.threadYielded) >= threadYieldInterval {
		runtime.Gosched()
		m.threadYielded = now
	}
}
