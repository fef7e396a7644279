package callmeter

import (
	"time"

	"github.com/agenthost/agenthost/host/plugin/internal/fairsched"
)

// place is the place of a call in the run queue.
type place struct {
	reported     int64         // instructions that the scheduler knows of
	quantumStart int64         // instructions spent when its quantum began
	hostWork     int64         // the host's work since then, in instructions
	throttled    time.Duration // waited for the scheduler, once begun
	unscheduled  bool          // the call is not in the run queue

	growing *fairsched.Flow // of Host.Uninterruptible; nil: no stack grows
	grown   int64           // what the growth counts for there
}

// began notes how long the call has waited for a quantum that begins, or for one that
// could not be had.
func (p *place) began(since time.Time, err error) {
	p.throttled += time.Since(since)
	p.quantumStart, p.hostWork = p.reported, 0
	p.unscheduled = err != nil
}

// Unscheduled reports whether the call is not in the run queue: it is in a blocking
// section, or could not return from one in time.
func (m *Meter) Unscheduled() bool { return m.place.unscheduled }

// Throttled returns how long the call has waited in the run queue since it began.
func (m *Meter) Throttled() time.Duration { return m.place.throttled }

// yield lets other goroutines run, and calls that the scheduler puts first. A guest is
// machine code that Go cannot interrupt, so this is where a collection of garbage, for
// one, gets to stop it.
func (m *Meter) yield(spent int64) {
	m.YieldThread(time.Now())
	p := &m.place
	if p.growing != nil {
		return // the call is not in the run queue
	}
	w := m.host.Scheduler.Check(m.payer.Flow, spent-p.reported, spent-p.quantumStart+p.hostWork)
	p.reported = spent
	if w != nil && !m.await(w) {
		m.Stop(m.LateError())
	}
}

// await waits until the scheduler runs the call again. It reports false if the call's
// time is up before; then the call is unscheduled. Meanwhile the guest's stack counts for no
// more than it has: of many calls that alternate, few run.
func (m *Meter) await(w *fairsched.Waiter) bool {
	resume := m.stack.suspend(m.returned)
	since := time.Now()
	err := m.host.Scheduler.Await(m.deadline.caller, m.payer.Flow, w, m.deadline.at.Sub(since))
	m.place.began(since, err)
	if err != nil {
		return false
	}
	if err := resume(); err != nil {
		m.Stop(err)
	}
	return true
}

// YieldAfterBytes is the fuel check of the host's work on an instance's memory while no
// guest runs: bytes were read or written since the last check. It lets other calls run, and
// reports whether the work is still wanted: if not, LateError says why.
func (m *Meter) YieldAfterBytes(bytes int) bool {
	return m.YieldAfter(int64(bytes) / BytesPerInstruction)
}

// YieldAfter is YieldAfterBytes for work that takes as long as n instructions.
func (m *Meter) YieldAfter(n int64) bool {
	now, p := time.Now(), &m.place
	if p.unscheduled || m.deadline.passed(now) {
		return false
	}
	m.YieldThread(now)
	p.hostWork += n
	w := m.host.Scheduler.Check(m.payer.Flow, n, p.reported-p.quantumStart+p.hostWork)
	return w == nil || m.await(w)
}

// BeginBlocking takes the call out of the run queue while a host operation waits.
// EndBlocking puts it back, unless the call's time is up before; Resume stops the call
// then.
func (m *Meter) BeginBlocking() {
	if m.EndGrowth() && m.place.unscheduled {
		return
	}
	m.host.Scheduler.Block(m.payer.Flow, m.TakeUnreported())
	m.place.unscheduled = true
}

// EndBlocking ends a blocking section. The call is unscheduled then if its time is up.
func (m *Meter) EndBlocking() {
	since := time.Now()
	err := m.host.Scheduler.Unblock(m.deadline.caller, m.payer.Flow, m.deadline.at.Sub(since))
	m.place.began(since, err)
}

// Resume ends a blocking section of a function that the guest has called.
func (m *Meter) Resume() {
	if m.EndBlocking(); m.place.unscheduled {
		m.Stop(m.LateError())
	}
}

// TakeUnreported returns the instructions spent since the last report to the scheduler.
func (m *Meter) TakeUnreported() int64 {
	spent := m.Spent()
	n := spent - m.place.reported
	m.place.reported = spent
	return n
}

// Sleep waits for a time, or until the call must end, as a blocking section of a function
// that the guest has called.
func (m *Meter) Sleep(d time.Duration) {
	m.BeginBlocking()
	timer := time.NewTimer(min(d, time.Until(m.deadline.at)+sleepSlack))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-m.deadline.caller.Done():
	}
	m.CheckTime()
	m.Resume()
}

// sleepSlack is how long after its deadline a sleeping call wakes, so that the deadline has
// passed.
const sleepSlack = time.Millisecond

// RunUninterruptible runs work of the host that takes as long as n instructions and that
// nothing interrupts: in a blocking section, and one at a time. The scheduler orders the
// tenants by the price of such work. It fails if the call's time is up before or after.
func (m *Meter) RunUninterruptible(n int64, work func() error) error {
	m.BeginBlocking()
	err := func() error {
		flow, err := m.host.enterUninterruptible(m.payer.Tenant, &m.deadline)
		if err != nil {
			return m.Fail(m.host.Blameless(m.LateError()))
		}
		defer m.host.Uninterruptible.Leave(flow, n, true)
		return work()
	}()
	if m.EndBlocking(); m.place.unscheduled {
		err = m.Fail(m.LateError())
	}
	return err
}

// BeginGrowth lets the guest's stack grow, as work that nothing interrupts: the
// WebAssembly runtime is about to allocate and copy it, in Go code that has no place to
// yield. The guest continues outside the run queue until its next fuel check. The growth
// takes as long as n instructions.
func (m *Meter) BeginGrowth(n int64) {
	m.BeginBlocking()
	flow, err := m.host.enterUninterruptible(m.payer.Tenant, &m.deadline)
	if err != nil {
		m.StopBlameless(m.LateError())
	}
	m.place.growing, m.place.grown = flow, n
}

// enterUninterruptible waits until no other such work runs. It fails if the call's time is
// up before.
func (h *Host) enterUninterruptible(tenant string, d *deadline) (*fairsched.Flow, error) {
	return h.Uninterruptible.Enter(d.caller, tenant, time.Until(d.at))
}

// EndGrowth ends the growth that BeginGrowth began, if any. It reports whether one was in
// progress, and then queues the call again; Unscheduled says whether that failed.
func (m *Meter) EndGrowth() bool { return m.place.growing != nil && m.endGrowth() }

func (m *Meter) endGrowth() bool {
	p := &m.place
	m.host.Uninterruptible.Leave(p.growing, p.grown, true)
	p.growing = nil
	m.EndBlocking()
	return true
}

// EndGrowthInGuest is EndGrowth where a guest or its operation continues: it stops a guest
// whose time is up.
func (m *Meter) EndGrowthInGuest() {
	if m.place.growing == nil {
		return
	}
	if m.EndGrowth(); m.place.unscheduled && !m.returned {
		m.Stop(m.LateError())
	}
}
