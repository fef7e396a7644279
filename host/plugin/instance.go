package plugin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/sys"

	"github.com/agenthost/agenthost/host"
)

// export is an entry point of a plugin.
type export int

const (
	exportDescribe export = iota
	exportTool
	exportProcess
	exportRoute
	exportProvide
	exportObserve
	exportCount
)

// exportPrefix is what every export's name begins with.
const exportPrefix = "agenthost_"

// initializeExport is called once, before anything else, if it is there.
const initializeExport = "_initialize"

var exportNames = [exportCount]string{
	"agenthost_describe", "agenthost_tool", "agenthost_process", "agenthost_route", "agenthost_provide", "agenthost_observe",
}

func (e export) String() string { return exportNames[e] }

// slice is how many instructions a guest runs between two looks at its
// deadline: 50 to 100 us of them, long against a tick and short against 1 ms.
const slice = 100_000

// instance is one instantiated module. It runs one call at a time. It belongs to
// one tenant until it is restored to its image, and then to nobody.
type instance struct {
	plugin   *Plugin
	tenant   string // "": it is restored, and idle
	seat     *seat  // of its tenant
	share    *share // of its call
	turnless bool   // its call has no turn
	module   api.Module
	memory   api.Memory
	linear   *linearMemory // what memory lies in
	// ctx carries the instance to the functions that the guest imports. It is
	// made once: a context for each call would cost more than the call.
	ctx     context.Context
	fuel    api.MutableGlobal
	depth   api.Global
	globals []api.MutableGlobal // what an image saves besides memory
	image   *image              // nil: it can not be restored
	funcs   [exportCount]api.Function
	calls   int
	took    time.Duration // the last call
	stack   [1]uint64
	world   world
	call    call
	extism  *extismState // nil for a native plugin

	// While idle, guarded by Plugin.mu.
	restored   bool      // is equal to its image
	used       time.Time // when its last call began
	prev, next *instance // of all that are idle
}

// keptResponse bounds the buffer that an idle instance keeps.
const keptResponse = 64 << 10

// call is the state of the call in progress. One value serves all calls of an
// instance.
type call struct {
	ctx       context.Context // the caller's
	deadline  time.Time
	callers   bool // the deadline is the caller's, not the limit's
	limits    *Limits
	budget    int64 // instructions
	export    string
	granted   int64 // fuel handed out
	charged   int64 // price of host operations
	billed    int64 // charged to the tenant
	unseen    int64 // charged since the last look at the limits
	told      int64 // of what is spent, what turns know of
	stint     int64 // what was spent when it got its turn
	input     []byte
	output    []byte
	response  []byte // of the last host operation
	calls     int
	logged    int
	ops       operations
	raw       rawOperations // what ops is in a raw call
	stopped   error         // why the host stopped it
	throttled time.Duration // waited for its turn, once begun
}

// startName is what the code that runs before the first call is called in errors
// and logs.
const startName = "start"

// instanceContext is the context of all calls into an instance. The functions
// that a guest imports find the instance by its type.
type instanceContext struct {
	context.Context
	inst *instance
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

// newInstance makes an instance for the tenant of a seat: of the image, or by
// running its start code. ctx bounds that together with the limit StartTimeout.
// The instance is never nil; with an error it is to be closed.
func (p *Plugin) newInstance(ctx context.Context, s *seat, sh *share) (*instance, error) {
	inst := &instance{plugin: p, tenant: s.account.id, seat: s, share: sh, extism: p.newExtismState()}
	inst.ctx = &instanceContext{context.Background(), inst}
	inst.world.inst = inst
	inst.begin(ctx, startName, time.Now(), p.limits.StartTimeout, &p.limits)
	inst.call.budget = p.limits.StartInstructions
	defer inst.world.flush()
	if err := inst.instantiate(); err != nil {
		return inst, inst.failure(err)
	}
	im := p.code.images.get(p.limits)
	if im != nil && p.hasImages() && p.code.keeps.fills && im.suits(s) && inst.resize(im.size) {
		inst.fill(im)
		return inst, nil
	}
	before := inst.heldBefore()
	for _, init := range startFunctions(inst.module, p.extism != nil) {
		if _, err := init.Call(inst.ctx, make([]uint64, len(init.Definition().ParamTypes()))...); err != nil {
			return inst, inst.failure(err)
		}
	}
	inst.keepImage(before)
	return inst, nil
}

// instantiate makes the module of an instance, and runs its start section.
func (inst *instance) instantiate() (err error) {
	rt := inst.plugin.runtime
	maker := &memoryMaker{from: &rt.memories, share: inst.share}
	defer func() {
		if r := recover(); r != nil {
			err = noMemory(r)
			inst.call.stopped = err
		}
	}()
	mod, err := inst.plugin.code.instantiate(experimental.WithMemoryAllocator(inst.ctx, maker), inst.world.config())
	if err != nil {
		return err
	}
	inst.module, inst.linear = mod, maker.made
	if maker.made != nil { // wazero's Memory is not nil where there is none
		inst.memory = mod.Memory()
	}
	inst.fuel, _ = mod.ExportedGlobal(meterFuel).(api.MutableGlobal)
	inst.depth = mod.ExportedGlobal(meterDepth)
	for _, i := range inst.plugin.code.keeps.globals {
		inst.globals = append(inst.globals, mod.ExportedGlobal(globalExport(i)).(api.MutableGlobal))
	}
	return nil
}

// noMemory returns the error that the allocator panicked with.
func noMemory(recovered any) error {
	if err, ok := recovered.(error); ok {
		return err
	}
	panic(recovered)
}

// begin prepares the instance for code that may run until a timeout.
func (inst *instance) begin(ctx context.Context, name string, now time.Time, timeout time.Duration, limits *Limits) {
	c := &inst.call
	response := c.response[:0]
	if cap(response) > keptResponse {
		response = nil
	}
	*c = call{ctx: ctx, deadline: now.Add(timeout), limits: limits, budget: limits.Instructions, export: name, response: response}
	if d, ok := ctx.Deadline(); ok && d.Before(c.deadline) {
		c.deadline, c.callers = d, true
	}
	inst.restored, inst.turnless, inst.used = false, false, now
	inst.world.reset()
	inst.extism.begin(inst.tenant)
	if inst.fuel != nil {
		c.granted = min(slice, c.budget)
		inst.fuel.Set(uint64(c.granted))
	}
}

// beginCall prepares the instance for a call.
func (inst *instance) beginCall(ctx context.Context, r *callRequest, now time.Time) {
	limits := &inst.seat.rights().limits
	timeout := limits.Timeout
	if r.export == exportDescribe {
		timeout = limits.StartTimeout
	}
	inst.begin(ctx, inst.plugin.exportName(r.export), now, timeout, limits)
	c := &inst.call
	c.input, c.ops = r.input, r.ops
	if r.raw != nil && r.export != exportDescribe {
		c.raw = rawOperations{seat: inst.seat, export: r.export, opts: r.raw}
		c.ops = &c.raw
	}
}

// rest lets go of what an idle instance need not hold.
func (inst *instance) rest() {
	c := &inst.call
	c.ctx, c.input, c.output, c.ops, c.raw = nil, nil, nil, nil, rawOperations{}
	inst.extism.rest()
	if cap(c.response) > keptResponse {
		c.response = nil
	}
}

// run calls one export. Any error means that the instance must be closed.
func (inst *instance) run(e export) (output []byte, guestErr bool, err error) {
	if inst.extism != nil {
		return inst.runExtism(inst.plugin.exportName(e))
	}
	fn := inst.function(e)
	if fn == nil {
		return nil, false, host.Errorf(host.Unimplemented, "plugin %q does not export %s", inst.plugin.id, e)
	}
	inst.calls++
	defer inst.world.flush()
	stack := inst.stack[:]
	stack[0] = uint64(len(inst.call.input))
	if err := fn.CallWithStack(inst.ctx, stack); err != nil {
		return nil, false, inst.failure(err)
	}
	if inst.spent() > inst.call.limits.Instructions {
		return nil, false, inst.budgetError()
	}
	switch code := uint32(stack[0]); code {
	case 0, 1:
		return inst.call.output, code == 1, nil
	default:
		return nil, false, host.Errorf(host.Internal, "plugin %q: %s returned %d, not 0 or 1", inst.plugin.id, e, int32(code)).
			WithHint("the plugin is broken; see pdk/ABI.md")
	}
}

// function returns an export, nil if there is none. Each comes with a stack of
// its own, so those that are never called are never made.
func (inst *instance) function(e export) api.Function {
	if inst.funcs[e] == nil {
		inst.funcs[e] = inst.module.ExportedFunction(e.String())
	}
	return inst.funcs[e]
}

// cost returns what the call has used so far.
func (inst *instance) cost(started time.Time) host.Cost {
	inst.took = time.Since(started)
	c := host.Cost{
		Plugin:       inst.plugin.id,
		Instructions: inst.spent(),
		DurationUS:   inst.took.Microseconds(),
		HostCalls:    inst.call.calls,
		OutputBytes:  len(inst.call.output),
		ThrottledUS:  inst.call.throttled.Microseconds(),
	}
	if inst.memory != nil {
		c.PeakMemory = int64(inst.memory.Size()) + inst.extism.size()
	}
	return c
}

func (inst *instance) spent() int64 {
	if inst.fuel == nil {
		return inst.call.granted + inst.call.charged
	}
	return inst.call.granted - int64(inst.fuel.Get()) + inst.call.charged
}

// tick is called by a guest whose fuel has run out: it looks at everything that
// may stop a call and hands out the next slice.
func (inst *instance) tick(fuel, depth int64) int64 {
	c := &inst.call
	if depth < 0 {
		inst.stop(host.Errorf(host.ResourceExhausted, "plugin %q: %s recursed deeper than the limit CallDepth of %d",
			inst.plugin.id, c.export, c.limits.CallDepth))
	}
	c.unseen = 0
	inst.checkTime()
	spent := c.granted - fuel + c.charged
	inst.bill(spent)
	left := c.budget - spent
	if left <= 0 {
		inst.stop(inst.budgetError())
	}
	more := min(slice, left)
	c.granted += more
	inst.yield(spent)
	return fuel + more
}

// yield lets others run: the rest of the program, and calls whose turn it is. A
// guest is machine code that Go cannot interrupt, so this is where a collection
// of garbage, for one, gets to stop it.
func (inst *instance) yield(spent int64) {
	runtime.Gosched()
	c, turns := &inst.call, inst.plugin.runtime.turns
	w := turns.again(inst.share, spent-c.told, spent-c.stint)
	c.told = spent
	if w != nil {
		inst.await(w)
	}
}

// await waits until it is the call's turn again, and stops the call if its time
// is up before.
func (inst *instance) await(w *waiter) {
	c := &inst.call
	since := time.Now()
	err := inst.plugin.runtime.turns.await(c.ctx, inst.share, w, c.deadline.Sub(since))
	c.throttled += time.Since(since)
	c.stint = c.told
	inst.turnless = err != nil
	if err != nil {
		inst.stopWaiting()
	}
}

// stopWaiting stops a call whose time was up before its turn came: its caller has
// left, or others have kept it waiting.
func (inst *instance) stopWaiting() {
	if c := &inst.call; c.ctx.Err() != nil {
		inst.stop(gone(c.ctx, "plugin %q: %s", inst.plugin.id, c.export))
	}
	inst.stop(blameless(inst.timeoutError()))
}

// pause gives the call's turn to others while a host operation waits. resume
// takes it again, and stops the call if its time is up before.
func (inst *instance) pause() {
	inst.plugin.runtime.turns.pause(inst.share, inst.unaccounted())
	inst.turnless = true
}

func (inst *instance) resume() {
	c := &inst.call
	since := time.Now()
	err := inst.plugin.runtime.turns.resume(c.ctx, inst.share, c.deadline.Sub(since))
	c.throttled += time.Since(since)
	c.stint = c.told
	inst.turnless = err != nil
	if err != nil {
		inst.stopWaiting()
	}
}

// unaccounted returns what has been spent since turns were told.
func (inst *instance) unaccounted() int64 {
	c := &inst.call
	spent := inst.spent()
	n := spent - c.told
	c.told = spent
	return n
}

// charge takes the price of what the host does for a guest from the call's
// budget, and looks at the limits as often as a tick would: what a guest asks
// for in few instructions may be much.
func (inst *instance) charge(n int64) {
	c := &inst.call
	c.charged += n
	if c.unseen += n; c.unseen >= slice {
		inst.look()
	}
}

// look stops a call that is out of time or budget.
func (inst *instance) look() {
	c := &inst.call
	c.unseen = 0
	inst.checkTime()
	spent := inst.spent()
	if spent > c.budget {
		inst.stop(inst.budgetError())
	}
	inst.bill(spent)
}

func (inst *instance) budgetError() error {
	c, name := &inst.call, "Instructions"
	if c.export == startName {
		name = "StartInstructions"
	}
	return host.Errorf(host.ResourceExhausted, "plugin %q: %s used up the limit %s of %d", inst.plugin.id, c.export, name, c.budget).WithHint("raise the limit, or give the plugin less to do")
}

// checkTime stops a call whose caller has left or whose time is up.
func (inst *instance) checkTime() {
	c := &inst.call
	if c.ctx.Err() != nil {
		inst.stop(gone(c.ctx, "plugin %q: %s", inst.plugin.id, c.export))
	}
	if !time.Now().Before(c.deadline) {
		inst.stop(inst.timeoutError())
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

// failure turns what wazero says of a call that did not return into an error of
// ours. It keeps wazero's stack trace out: that is for the plugin's log.
func (inst *instance) failure(err error) error {
	id, c := inst.plugin.id, &inst.call
	if c.stopped != nil {
		return c.stopped
	}
	inst.plugin.runtime.opts.Logger.Debug("plugin call failed", "plugin", id, "tenant", inst.tenant, "export", c.export, "error", err)
	var exit *sys.ExitError
	if errors.As(err, &exit) && inst.world.lastWords() == "" {
		return host.Errorf(host.Internal, "plugin %q: %s exited with code %d", id, c.export, exit.ExitCode())
	}
	what, _, _ := strings.Cut(err.Error(), "\n")
	what = strings.TrimPrefix(what, "wasm error: ")
	if words := inst.world.lastWords(); words != "" {
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

func (inst *instance) close() {
	if inst.module != nil {
		_ = inst.module.Close(context.Background()) // nothing runs in it; there is nothing to do about an error
	}
}

// The world of a guest: a clock that moves 1 ms a reading and by what is slept,
// the same random bytes for every call, stdout and stderr into the log, and
// nothing else. With the permissions clock and random it is the real ones.

// worldEpoch is what time it is when a virtual clock starts: 2025-01-01.
const worldEpoch = 1_735_689_600 * int64(time.Second)

type world struct {
	inst    *instance
	now     int64  // virtual, nanoseconds since the epoch
	seed    uint64 // of the fixed random bytes
	told    bool   // the real time, once
	stderr  []byte // a panic's message
	changed bool   // the guest has done what no image undoes, see keepsFiles
	real    bool   // the guest has read the real clock or real random bytes
	clock   bool   // the guest has read a clock
	random  bool   // the guest has read random bytes

	output, errors logWriter
}

const worldTick = int64(time.Millisecond)

// worldEnd is where a virtual clock stops: in the year 2225.
const worldEnd = worldEpoch + 200*365*24*int64(time.Hour)

func (w *world) reset() {
	w.now, w.seed = worldEpoch, 0x9e3779b97f4a7c15
	w.stderr = w.stderr[:0]
}

// flush logs what the guest has written.
func (w *world) flush() {
	w.output.flush()
	w.errors.flush()
}

func (w *world) config() wazero.ModuleConfig {
	w.output, w.errors = logWriter{world: w, level: 1}, logWriter{world: w, level: 2}
	cfg := wazero.NewModuleConfig().WithName("").WithStartFunctions().
		WithStdout(&w.output).WithStderr(&w.errors).
		WithNanosleep(w.sleep)
	return cfg.WithRandSource(w).
		WithWalltime(w.walltime, sys.ClockResolution(worldTick)).
		WithNanotime(w.nanotime, sys.ClockResolution(worldTick))
}

// tellsTime reports whether the guest may know the time. It is asked each time,
// since grants change while instances wait.
func (w *world) tellsTime() bool {
	s := w.inst.seat
	w.clock = true
	if !s.rights().granted.Clock {
		return false
	}
	w.real = true
	if !w.told {
		w.told = true
		s.usage.note(func(p *Permissions) { p.Clock = true })
	}
	return true
}

func (w *world) walltime() (int64, int32) {
	if w.tellsTime() {
		now := time.Now()
		return now.Unix(), int32(now.Nanosecond())
	}
	w.now += worldTick
	return w.now / int64(time.Second), int32(w.now % int64(time.Second))
}

func (w *world) nanotime() int64 {
	if w.tellsTime() {
		return time.Since(w.inst.plugin.runtime.began).Nanoseconds()
	}
	w.now += worldTick
	return w.now - worldEpoch
}

// sleep moves the virtual clock. Nothing really waits: a guest cannot hold a
// thread. With a real clock it waits in pieces, so that deadlines hold.
func (w *world) sleep(ns int64) {
	if ns <= 0 {
		return
	}
	if !w.tellsTime() {
		w.now = min(w.now+min(ns, int64(time.Hour)), worldEnd)
		return
	}
	c := &w.inst.call
	w.inst.pause()
	timer := time.NewTimer(min(time.Duration(ns), time.Until(c.deadline)+worldTimerSlack))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.ctx.Done():
	}
	w.inst.checkTime()
	w.inst.resume()
}

const worldTimerSlack = time.Millisecond

// Read fills b with random bytes: real ones if granted, the fixed ones of
// splitmix64 otherwise.
func (w *world) Read(b []byte) (int, error) {
	w.random = true
	if s := w.inst.seat; s.rights().granted.Random {
		w.real = true
		s.usage.note(func(p *Permissions) { p.Random = true })
		return cryptoRandom.Read(b)
	}
	for i := range b {
		if i%8 == 0 {
			w.seed += 0x9e3779b97f4a7c15
		}
		z := w.seed
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		z ^= z >> 31
		b[i] = byte(z >> (i % 8 * 8))
	}
	return len(b), nil
}

// maxLastWords bounds what is kept of stderr for an error's text.
const maxLastWords = 4 << 10

// lastWords returns the message of a Go guest's panic or fatal error, if it
// wrote one.
func (w *world) lastWords() string {
	line, _, _ := strings.Cut(string(w.stderr), "\n")
	return strings.TrimSpace(clean(line))
}

// hear keeps what follows the last sign of a Go guest's end. The Go runtime
// writes the sign by itself, and then the message.
func (w *world) hear(b []byte) {
	if bytes.HasPrefix(b, []byte("panic: ")) || bytes.HasPrefix(b, []byte("fatal error: ")) {
		w.stderr = w.stderr[:0]
	} else if len(w.stderr) == 0 {
		return
	}
	w.stderr = append(w.stderr, b[:min(len(b), maxLastWords-len(w.stderr))]...)
}

// logWriter sends a guest's stdout or stderr to its log by lines. A Go guest's
// panic, for one, is written a word at a time.
type logWriter struct {
	world *world
	level int
	line  []byte // begun
}

// maxLogLine bounds what is kept of a line that does not end.
const maxLogLine = 4 << 10

// Write implements io.Writer. It takes whatever it is given, and keeps what
// LogBytes leaves room for.
func (l *logWriter) Write(b []byte) (int, error) {
	inst, n := l.world.inst, len(b)
	inst.charge(1 + int64(n)/bytesPerInstruction)
	if l == &l.world.errors {
		l.world.hear(b)
	}
	c := &inst.call
	b = b[:min(n, max(0, c.limits.LogBytes-c.logged-len(l.line)))]
	if i := bytes.LastIndexByte(b, '\n'); i >= 0 {
		inst.log(l.level, append(l.line, b[:i]...))
		l.line = append(l.line[:0], b[i+1:]...)
	} else {
		l.line = append(l.line, b...)
	}
	if len(l.line) > maxLogLine {
		l.flush()
	}
	return n, nil
}

// flush logs a line that has not ended.
func (l *logWriter) flush() {
	if len(l.line) > 0 {
		l.world.inst.log(l.level, l.line)
		l.line = nil
	}
}

var _ io.Writer = (*logWriter)(nil)
