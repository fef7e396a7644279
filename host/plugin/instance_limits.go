package plugin

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/internal/fairsched"
	"github.com/tetratelabs/wazero/sys"
)

// fuelQuantum is how many instructions a guest runs between two looks at its
// deadline: 50 to 100 us of them, long against a check and short against 1 ms.
const fuelQuantum = 100_000

func (inst *instance) spent() int64 {
	if inst.fuel == nil {
		return inst.call.granted + inst.call.charged
	}
	return inst.call.granted - int64(inst.fuel.Get()) + inst.call.charged
}

// checkFuel is the fuel check of a guest whose fuel has run out, or that has gone as deep
// as it may for now: it checks everything that may stop a call and hands out the next
// quantum of fuel.
func (inst *instance) checkFuel(fuel, depth int64, sp *uint64) int64 {
	c := &inst.call
	inst.endGrowthInGuest()
	if depth < 0 {
		inst.deepen(depth, sp)
	}
	if fuel >= 0 {
		return fuel
	}
	c.unchecked = 0
	inst.checkTime()
	spent := c.granted - fuel + c.charged
	inst.bill(spent)
	left := c.budget - spent
	if left <= 0 {
		inst.stop(inst.budgetError())
	}
	more := min(fuelQuantum, left)
	c.granted += more
	inst.yield(spent)
	return fuel + more
}

// threadYieldInterval is how long a guest runs until it lets other goroutines run without a
// request for it. Go wakes a thread that looks for work each time, which often
// enough takes the guest itself to another core: once a fuel check made a guest that
// decodes JSON take 1.8 times as long.
const threadYieldInterval = 200 * time.Microsecond

// yield lets other goroutines run, and calls that the scheduler puts first. A guest is
// machine code that Go cannot interrupt, so this is where a collection of garbage, for
// one, gets to stop it.
func (inst *instance) yield(spent int64) {
	c := &inst.call
	inst.yieldThread(time.Now())
	if inst.callStack.growing != nil {
		return // the call is not in the run queue
	}
	w := inst.plugin.runtime.scheduler.Check(inst.share, spent-c.reported, spent-c.quantumStart+c.hostWork)
	c.reported = spent
	if w != nil && !inst.awaitQuantum(w) {
		inst.stop(inst.lateError())
	}
}

// yieldThread lets other goroutines run if they have waited for so long.
func (inst *instance) yieldThread(now time.Time) {
	if c := &inst.call; now.Sub(c.yielded) >= threadYieldInterval {
		runtime.Gosched()
		c.yielded = now
	}
}

// awaitQuantum waits until the scheduler runs the call again. It reports false if the call's
// time is up before; then the call is unscheduled.
func (inst *instance) awaitQuantum(w *fairsched.Waiter) bool {
	c := &inst.call
	since := time.Now()
	err := inst.plugin.runtime.scheduler.Await(c.ctx, inst.share, w, c.deadline.Sub(since))
	c.throttled += time.Since(since)
	c.quantumStart, c.hostWork = c.reported, 0
	inst.unscheduled = err != nil
	return err == nil
}

// yieldAfterBytes is the fuel check of the host's work on an instance's memory while no guest
// runs: bytes were read or written since the last check. It lets other calls run, and
// reports whether the work is still wanted: if not, lateError says why.
func (inst *instance) yieldAfterBytes(bytes int) bool {
	return inst.yieldAfter(int64(bytes) / bytesPerInstruction)
}

// yieldAfter is yieldAfterBytes for work that takes as long as n instructions.
func (inst *instance) yieldAfter(n int64) bool {
	c, now := &inst.call, time.Now()
	if inst.unscheduled || c.ctx.Err() != nil || !now.Before(c.deadline) {
		return false
	}
	inst.yieldThread(now)
	c.hostWork += n
	w := inst.plugin.runtime.scheduler.Check(inst.share, n, c.reported-c.quantumStart+c.hostWork)
	return w == nil || inst.awaitQuantum(w)
}

// lateError returns the error of a call that must end early: its caller has left, its time
// is up, or other calls have kept it waiting until then.
func (inst *instance) lateError() error {
	c := &inst.call
	switch {
	case c.ctx.Err() != nil:
		return gone(c.ctx, "plugin %q: %s", inst.plugin.id, c.export)
	case inst.unscheduled:
		return blameless(inst.timeoutError())
	}
	return inst.timeoutError()
}

// beginBlocking frees the call's place in the scheduler while a host operation waits. endBlocking
// takes it again, unless the call's time is up before; resumeGuest stops the call then.
func (inst *instance) beginBlocking() {
	if inst.endGrowth() && inst.unscheduled {
		return
	}
	inst.plugin.runtime.scheduler.Block(inst.share, inst.takeUnreported())
	inst.unscheduled = true
}

func (inst *instance) resumeGuest() {
	if inst.endBlocking(); inst.unscheduled {
		inst.stop(inst.lateError())
	}
}

func (inst *instance) endBlocking() {
	c := &inst.call
	since := time.Now()
	err := inst.plugin.runtime.scheduler.Unblock(c.ctx, inst.share, c.deadline.Sub(since))
	c.throttled += time.Since(since)
	c.quantumStart, c.hostWork = c.reported, 0
	inst.unscheduled = err != nil
}

// takeUnreported returns the instructions spent since the last report to the scheduler.
func (inst *instance) takeUnreported() int64 {
	c := &inst.call
	spent := inst.spent()
	n := spent - c.reported
	c.reported = spent
	return n
}

// charge takes the price of the host's work for a guest from the call's budget, and
// checks the limits as often as checkFuel would: few instructions may ask for much work.
func (inst *instance) charge(n int64) {
	c := &inst.call
	inst.endGrowthInGuest()
	c.charged += n
	if c.unchecked += n; c.unchecked >= fuelQuantum && !c.returned {
		inst.checkLimits()
	}
}

// checkLimits stops a call that is out of time or budget, and lets other calls run if it has
// used a quantum since the last yield: few instructions may ask for much work.
func (inst *instance) checkLimits() {
	c := &inst.call
	c.unchecked = 0
	inst.checkTime()
	spent := inst.spent()
	if spent > c.budget {
		inst.stop(inst.budgetError())
	}
	inst.bill(spent)
	if spent-c.reported >= fuelQuantum {
		inst.yield(spent)
	}
}

func (inst *instance) budgetError() error {
	c, name := &inst.call, "Instructions"
	if c.export == startName {
		name = "StartInstructions"
	}
	return host.Errorf(host.ResourceExhausted, "plugin %q: %s used up the limit %s of %d", inst.plugin.id, c.export, name, c.budget).WithHint("raise the limit, or give the plugin less to do")
}

// timeLeft is how long the call may still run.
func (c *call) timeLeft() time.Duration { return time.Until(c.deadline) }

// checkTime stops a call whose caller has left or whose time is up.
func (inst *instance) checkTime() {
	if c := &inst.call; c.ctx.Err() != nil || !time.Now().Before(c.deadline) {
		inst.stop(inst.lateError())
	}
}

func (inst *instance) timeoutError() error {
	c := &inst.call
	if c.callers { // whose own timer is about to go off
		return &host.Error{Code: host.DeadlineExceeded, Err: context.DeadlineExceeded,
			Message: fmt.Sprintf("plugin %q: %s was stopped: %v", inst.plugin.id, c.export, context.DeadlineExceeded)}
	}
	name, limit := "Timeout", c.limits.Timeout
	if c.export == startName || c.export == exportDescribe.String() {
		name, limit = "StartTimeout", c.limits.StartTimeout
	}
	return host.Errorf(host.DeadlineExceeded, "plugin %q: %s ran longer than the limit %s of %s", inst.plugin.id, c.export, name, limit)
}

// stop ends the guest from inside a function that it imports: wazero unwinds
// its stack and returns the panic as the call's error.
func (inst *instance) stop(err error) {
	inst.call.stopped = err
	panic(err)
}

// hostPanic stands for a panic of Go's runtime in a function that a guest imports:
// its words concern the program only, so no caller reads them.
const hostPanic = "a function that it imports failed"

// failure turns what wazero says of a call that did not return into an error of
// ours. It keeps wazero's stack trace out: that is for the plugin's log.
func (inst *instance) failure(err error) error {
	id, c := inst.plugin.id, &inst.call
	if c.stopped != nil {
		return c.stopped
	}
	inst.plugin.runtime.opts.Logger.Debug("plugin call failed", "plugin", id, "tenant", inst.tenant, "export", c.export, "error", err)
	var exit *sys.ExitError
	if errors.As(err, &exit) && inst.wasi.lastWords() == "" {
		return host.Errorf(host.Internal, "plugin %q: %s exited with code %d", id, c.export, exit.ExitCode())
	}
	what, _, _ := strings.Cut(err.Error(), "\n")
	what = strings.TrimPrefix(what, "wasm error: ")
	if panicked := runtime.Error(nil); errors.As(err, &panicked) {
		what = hostPanic // the full text is in the log
	}
	if words := inst.wasi.lastWords(); words != "" {
		what = words
	}
	if words := inst.extism.lastError(); words != "" { // it was about to say why
		what += ": " + clean(words)
	}
	if inst.memoryFull() || strings.Contains(what, "out of memory") {
		return host.Errorf(host.ResourceExhausted, "plugin %q: %s ran out of memory under the limit MemoryBytes of %d: %s",
			id, c.export, c.limits.MemoryBytes, what).WithHint("raise the limit, or give the plugin less to do")
	}
	return host.Errorf(host.Internal, "plugin %q: %s trapped: %s", id, c.export, what)
}

// memoryFull reports whether memory can not grow by another page. A guest learns
// that from memory.grow and then traps in a way of its own.
func (inst *instance) memoryFull() bool {
	return inst.memory != nil && int64(inst.memory.Size())+pageBytes > inst.call.limits.MemoryBytes
}
