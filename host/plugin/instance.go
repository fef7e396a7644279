package plugin

import (
	"context"
	"errors"
	"time"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/guestprofile"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
	"github.com/agenthost/agenthost/host/plugin/internal/callmeter"
	"github.com/agenthost/agenthost/host/plugin/internal/extism"
	"github.com/agenthost/agenthost/host/plugin/internal/fairsched"
	"github.com/agenthost/agenthost/host/plugin/internal/instancepool"
	"github.com/agenthost/agenthost/host/plugin/internal/linearmem"
	"github.com/agenthost/agenthost/host/plugin/internal/wasienv"
	"github.com/agenthost/agenthost/host/plugin/internal/wasmmeter"
)

// instance is one instantiated module. It runs one call at a time. It belongs to
// one tenant until it is restored to its image, and then to none.
type instance struct {
	plugin *Plugin
	tenant string // "": it is restored, and idle
	meter  callmeter.Meter
	call   call
	guest  guest
	// ctx has the lifetime of the instance, and carries the instance to the functions
	// that the guest imports. A context for each call would cost more than the call.
	ctx       context.Context
	image     *image // nil: it can not be restored
	callStack callStack
	calls     int
	took      time.Duration // the last call
	wasi      *wasienv.Env
	extism    *extism.State      // nil for a native plugin
	profile   *guestprofile.Call // nil: the call has none

	link instancepool.Link[*instance] // whose Restored says that it is equal to its image
}

// startName is what the code that runs before the first call is called in errors
// and logs.
const startName = "start"

// instanceContext is the context of all calls into an instance. The functions
// that a guest imports find the instance by its type.
type instanceContext struct {
	context.Context // the lifetime of the instance
	inst            *instance
}

type instanceKey struct{}

// Value answers for contexts that were made of this one.
func (c *instanceContext) Value(key any) any {
	if key == (instanceKey{}) {
		return c.inst
	}
	return nil
}

func instanceOf(ctx context.Context) *instance {
	if c, ok := ctx.(*instanceContext); ok {
		return c.inst
	}
	inst, _ := ctx.Value(instanceKey{}).(*instance)
	return inst
}

// newInstance makes an instance for the tenant of a binding: of the image, or by
// running its start code. ctx bounds that together with the limit StartTimeout.
// The instance is never nil; with an error it is to be closed.
func (p *Plugin) newInstance(ctx context.Context, b *binding, flow *fairsched.Flow) (*instance, error) {
	inst := b.emptyInstance(flow)
	inst.call.payer = b.payer(ctx)
	inst.meter.SetPayer(callmeter.Payer{Tenant: b.account.id, Account: &startPayer{inst}, Flow: flow})
	defer inst.meter.SetPayer(callmeter.Payer{Tenant: b.account.id, Account: &inst.call.payer, Flow: flow})
	inst.beginStart(ctx, p.limits.StartInstructions)
	defer inst.leave()
	if err := inst.payInstance(); err != nil {
		return inst, err
	}
	if err := inst.makeModule(flow); err != nil {
		return inst, inst.failure(err)
	}
	im := p.module.images().get(p.limits)
	if im != nil && p.module.hasImages() && im.suits(b) && inst.guest.resize(im.memory.Size(), inst.meter.YieldAfterBytes) {
		return inst, inst.fill(im)
	}
	before, err := inst.heldBefore()
	if err != nil {
		return inst, err
	}
	if err := inst.runStart(startFunctions(inst.guest.module, p.module.extism != nil)); err != nil {
		return inst, err
	}
	inst.started()
	_ = inst.meter.Settle(inst.meter.Spent(), time.Now()) // the call is stopped, if that was too much
	return inst, inst.keepImage(before)
}

// emptyInstance returns an instance without a module, for a call of that flow.
func (b *binding) emptyInstance(flow *fairsched.Flow) *instance {
	p := b.plugin
	inst := &instance{plugin: p}
	inst.meter = callmeter.New(&p.runtime.meters, p.id, &inst.callStack)
	inst.extism = p.module.extism.newState(inst, flow)
	inst.ctx = &instanceContext{context.Background(), inst}
	inst.call.meter = &inst.meter
	inst.wasi = wasienv.New(&inst.call, &inst.meter, p.runtime.began)
	inst.assign(b, flow)
	return inst
}

// assign gives the instance to the tenant of a binding, for a call of that flow.
func (inst *instance) assign(b *binding, flow *fairsched.Flow) {
	inst.tenant, inst.call.binding = b.account.id, b
	inst.meter.SetPayer(callmeter.Payer{Tenant: b.account.id, Account: &inst.call.payer, Flow: flow})
}

// release takes a restored instance from its tenant.
func (inst *instance) release() {
	inst.tenant, inst.call.binding = "", nil
	inst.call.payer = payer{}
	inst.meter.SetPayer(callmeter.Payer{})
}

// runStart runs the functions that come before the first call. Each has a stack of
// its own, which goes before the next one runs: one is counted at a time.
func (inst *instance) runStart(functions []api.Function) error {
	for i, fn := range functions {
		functions[i] = nil
		if _, err := inst.callStack.use(fn).Call(inst.ctx, make([]uint64, len(fn.Definition().ParamTypes()))...); err != nil {
			return inst.failure(err)
		}
		if inst.meter.EndGrowth(); inst.meter.Unscheduled() {
			return inst.meter.LateError()
		}
		inst.callStack.shrink(&inst.guest.functions)
	}
	return nil
}

// instantiate makes the module of an instance. It runs no code of the guest.
func (inst *instance) instantiate(flow *fairsched.Flow) (err error) {
	rt := inst.plugin.runtime
	maker := &memoryAllocator{linearmem.Allocator{Budget: &rt.memories, Flow: flow}}
	defer func() {
		if r := recover(); r != nil {
			err = inst.meter.Fail(noMemory(r))
		}
	}()
	mod, err := inst.plugin.module.code.instantiate(experimental.WithMemoryAllocator(inst.ctx, maker), moduleConfig(inst.wasi))
	if err != nil {
		if maker.memory.Made != nil { // wazero forgets it when a segment does not fit
			maker.memory.Made.Free()
		}
		return err
	}
	inst.guest.module, inst.guest.linear = mod, maker.memory.Made
	if maker.memory.Made != nil { // wazero's Memory is not nil in a module without memory
		inst.guest.memory = mod.Memory()
	}
	inst.meter.SetFuel(mod.ExportedGlobal(wasmmeter.FuelGlobal).(api.MutableGlobal))
	for _, i := range inst.plugin.module.code.keeps.globals {
		inst.guest.globals = append(inst.guest.globals, mod.ExportedGlobal(wasmmeter.GlobalExport(i)).(api.MutableGlobal))
	}
	claim := linearmem.Claim{Budget: &rt.memories, Flow: flow}
	depth := mod.ExportedGlobal(wasmmeter.DepthGlobal).(api.MutableGlobal)
	if !inst.callStack.open(depth, inst.plugin.limits.CallDepth, claim, inst.plugin.module.code.keeps.tables) {
		return inst.meter.Fail(rt.exhausted())
	}
	return nil
}

// memoryAllocator is a [linearmem.Allocator] as wazero wants one.
type memoryAllocator struct{ memory linearmem.Allocator }

// Allocate implements [experimental.MemoryAllocator]. It panics if there is no memory,
// which instantiate recovers.
func (a *memoryAllocator) Allocate(_, most uint64) experimental.LinearMemory {
	return a.memory.Allocate(most)
}

// exhausted is the error of a call for which there is no memory, which is no fault of
// the plugin.
func (rt *Runtime) exhausted() error { return blameless(rt.memories.Exhausted()) }

// noMemory returns the error that the allocator panicked with.
func noMemory(recovered any) error {
	err, ok := recovered.(error)
	switch {
	case !ok:
	case errors.Is(err, linearmem.ErrExhausted): // others have it all
		return blameless(err)
	default:
		return err
	}
	panic(recovered)
}

// The limits of start-up code, of describe and of other calls.
var (
	startLimits    = callmeter.LimitNames{Timeout: "StartTimeout", Instructions: "StartInstructions"}
	describeLimits = callmeter.LimitNames{Timeout: "StartTimeout", Instructions: "Instructions"}
	callLimits     = callmeter.LimitNames{Timeout: "Timeout", Instructions: "Instructions"}
)

// beginStart prepares the instance for work before its first call: start-up code, which
// may use so many instructions, or the return to its image.
func (inst *instance) beginStart(ctx context.Context, instructions int64) {
	limits := &inst.plugin.limits
	inst.begin(limits, inst.plugin.module.script.input(), &callmeter.Call{
		Context: ctx, Export: startName, Start: time.Now(),
		Timeout: limits.StartTimeout, Instructions: instructions, Limits: &startLimits,
	})
}

// beginCall prepares the instance for a call.
func (inst *instance) beginCall(ctx context.Context, r *callRequest, now time.Time) {
	limits := &inst.call.binding.rights().limits
	c := callmeter.Call{
		Context: ctx, Export: inst.plugin.module.exportName(r.export), Start: now,
		Timeout: limits.Timeout, Instructions: limits.Instructions, Limits: &callLimits,
	}
	if r.export == abi.Describe {
		c.Timeout, c.Limits = limits.StartTimeout, &describeLimits
	}
	inst.call.payer = r.payer
	inst.begin(limits, r.input, &c)
	inst.call.ops = r.ops
	if r.raw != nil {
		inst.profile = r.raw.Profile.Begin()
		inst.wasi.SetOrigin(r.raw.Clock, r.raw.Seed)
	}
	if r.raw != nil && r.export != abi.Describe {
		inst.call.raw = rawOperations{binding: inst.call.binding, export: r.export, opts: r.raw}
		inst.call.ops = &inst.call.raw
	}
}

func (inst *instance) begin(limits *Limits, input []byte, c *callmeter.Call) {
	inst.call.begin(limits, input)
	inst.link.Restored, inst.link.Used = false, c.Start
	inst.wasi.Reset()
	if inst.extism != nil {
		inst.extism.Begin(inst.tenant, input, extism.Limits{OutputBytes: limits.OutputBytes, VarBytes: limits.VarBytes})
	}
	inst.meter.Begin(c)
}

// rest lets go of what an idle instance need not hold.
func (inst *instance) rest() {
	inst.call.rest()
	inst.meter.Rest()
	inst.extism.Rest()
	inst.callStack.shrink(&inst.guest.functions)
}

// run calls one export. Any error means that the instance must be closed.
func (inst *instance) run(e abi.Export) (output []byte, guestErr bool, err error) {
	if inst.extism != nil {
		return inst.runExtism(inst.plugin.module.exportName(e))
	}
	fn := inst.guest.function(e)
	if fn == nil {
		return nil, false, host.Errorf(host.Unimplemented, "plugin %q does not export %s", inst.plugin.id, e)
	}
	inst.calls++
	stack := inst.guest.stack[:]
	stack[0] = uint64(len(inst.call.input))
	err = inst.callStack.use(fn).CallWithStack(inst.ctx, stack)
	inst.leave()
	if err != nil {
		return nil, false, inst.failure(err)
	}
	if err := inst.meter.CheckBudget(); err != nil {
		return nil, false, err
	}
	switch code := uint32(stack[0]); code {
	case 0, 1:
		return inst.call.output, code == 1, nil
	default:
		return nil, false, host.Errorf(host.Internal, "plugin %q: %s returned %d, not 0 or 1", inst.plugin.id, e, int32(code)).
			WithHint("the plugin is broken; see pdk/ABI.md")
	}
}

// leave notes that no guest code runs any more, so that nothing can be stopped
// from inside it, and logs the lines that it has not ended.
func (inst *instance) leave() {
	inst.meter.Return()
	inst.profile.Return(inst.meter.Spent())
	inst.wasi.Flush()
}

// cost returns what the call has used so far.
func (inst *instance) cost(started time.Time) host.Cost {
	inst.took = time.Since(started)
	c := host.Cost{
		Plugin:       inst.plugin.id,
		Instructions: inst.meter.Spent(),
		DurationUS:   inst.took.Microseconds(),
		HostCalls:    inst.call.calls,
		OutputBytes:  len(inst.call.output),
		ThrottledUS:  inst.meter.Throttled().Microseconds(),
	}
	inst.profile.Return(c.Instructions)
	inst.profile = nil
	if inst.guest.memory != nil {
		c.PeakMemory = int64(inst.guest.memory.Size()) + inst.extism.Size() + inst.callStack.peak()
	}
	return c
}

// checkFuel is the fuel check of a guest whose fuel has run out, or that has gone as deep
// as it may for now.
func (inst *instance) checkFuel(fuel, depth int64, sp *uint64) int64 {
	inst.meter.EndGrowthInGuest()
	if depth < 0 {
		inst.callStack.deepen(&inst.meter, depth, sp)
	}
	if fuel >= 0 {
		return fuel
	}
	return inst.meter.Refuel(fuel)
}

// Close gives back the memory of the instance. No call is in it.
func (inst *instance) Close() {
	inst.extism.Close()
	inst.callStack.claim.Set(0)
	inst.guest.close()
}
