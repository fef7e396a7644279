package plugin

import (
	"math"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/internal/extism"
	"github.com/agenthost/agenthost/host/plugin/internal/wasmmeter"
)

// The defaults of [Limits].
const (
	DefaultModuleBytes  = 16 << 20
	DefaultMemoryBytes  = 64 << 20
	defaultTableEntries = 100_000

	defaultCompileWork    = wasmmeter.DefaultCompileTime
	defaultCompileTimeout = 30 * time.Second
	defaultCompileMemory  = 1 << 30

	defaultCallDepth    = 10_000
	DefaultInstructions = 1_000_000_000

	// defaultStartInstructions is apart from a call's limit, because a language's
	// runtime runs code before the first call that is not the author's: a Go guest
	// starts in millions.
	defaultStartInstructions   = 1_000_000_000
	DefaultTimeout             = 5 * time.Second
	defaultStartTimeout        = 10 * time.Second
	DefaultInputBytes          = 16 << 20
	DefaultOutputBytes         = 8 << 20
	defaultHostCalls           = 10_000
	defaultResponseBytes       = 8 << 20
	defaultLogBytes            = 64 << 10
	defaultBlockBytes          = 64 << 20
	defaultVarBytes            = 1 << 20
	defaultInstances           = 16
	defaultWaiting             = 256
	defaultIdleInstances       = 4
	defaultMaxIdle             = 64
	defaultIdleTime            = time.Minute
	defaultMaxCallsPerInstance = 100_000
	DefaultKVBytes             = 16 << 20
)

// pageBytes is the size of a WebAssembly page.
const pageBytes = 64 << 10

// Limits bounds a plugin's use of resources. A zero field is its default; nothing is
// unlimited. A call that breaks one ends with an error of code
// resource_exhausted (deadline_exceeded for the timeouts) that names it, and
// its instance is thrown away.
type Limits struct {
	// Of the module, checked before anything is compiled.
	ModuleBytes  int // the file (16 MiB)
	TableEntries int // a table's size, at start and grown (100,000)

	// Of compiling it. CompileWork bounds an estimate, made from the module's
	// structure: this long for every 800 kB of code and once more (2 s; what
	// compilers write takes a third of its estimate). The other two hold with an
	// [Options.Compiler], which can be stopped.
	CompileWork    time.Duration
	CompileTimeout time.Duration // wall time (30 s)
	CompileMemory  int64         // bytes (1 GiB)

	// Of each instance.
	MemoryBytes int64 // linear memory, rounded down to pages of 64 KiB (64 MiB)

	// Of each call.
	Timeout           time.Duration // wall time, host operations included (5 s)
	StartTimeout      time.Duration // start section, _initialize and describe (10 s)
	Instructions      int64         // WebAssembly instructions (1,000,000,000)
	StartInstructions int64         // of the start section and _initialize (1,000,000,000)
	CallDepth         int           // nested function calls (10,000)
	InputBytes        int           // (16 MiB)
	OutputBytes       int           // (8 MiB)
	HostCalls         int           // host operations (10,000)
	ResponseBytes     int           // one host operation's response (8 MiB)
	LogBytes          int           // log lines, stdout and stderr; the rest is dropped (64 KiB)
	BlockBytes        int           // of an Extism plugin: what it exchanges with the host, output included (64 MiB)
	VarBytes          int           // of an Extism plugin: its variables (1 MiB)

	// Of each plugin.
	MaxIdle int // instances kept for the next calls of all tenants; the longest unused goes first (64)

	// IdleTime is how long an unused instance is kept (1 min).
	IdleTime time.Duration

	// Of each plugin and tenant.
	Instances           int   // running at one time; more calls wait (16)
	Waiting             int   // calls that wait for that; more are refused (256)
	IdleInstances       int   // kept for the next call (4)
	MaxCallsPerInstance int   // calls after which a new instance replaces the old one (100,000)
	KVBytes             int64 // keys and values that it keeps, 64 bytes more for each (16 MiB)
}

func (l Limits) withDefaults() Limits {
	ints := []struct {
		v *int
		d int
	}{
		{&l.ModuleBytes, DefaultModuleBytes}, {&l.TableEntries, defaultTableEntries}, {&l.CallDepth, defaultCallDepth},
		{&l.InputBytes, DefaultInputBytes}, {&l.OutputBytes, DefaultOutputBytes}, {&l.HostCalls, defaultHostCalls},
		{&l.ResponseBytes, defaultResponseBytes}, {&l.LogBytes, defaultLogBytes}, {&l.BlockBytes, defaultBlockBytes}, {&l.VarBytes, defaultVarBytes}, {&l.Instances, defaultInstances},
		{&l.IdleInstances, defaultIdleInstances}, {&l.MaxIdle, defaultMaxIdle}, {&l.MaxCallsPerInstance, defaultMaxCallsPerInstance}, {&l.Waiting, defaultWaiting},
	}
	for _, f := range ints {
		if *f.v == 0 {
			*f.v = f.d
		}
	}
	if l.CompileWork == 0 {
		l.CompileWork = defaultCompileWork
	}
	if l.CompileTimeout == 0 {
		l.CompileTimeout = defaultCompileTimeout
	}
	if l.CompileMemory == 0 {
		l.CompileMemory = defaultCompileMemory
	}
	if l.MemoryBytes == 0 {
		l.MemoryBytes = DefaultMemoryBytes
	}
	if l.KVBytes == 0 {
		l.KVBytes = DefaultKVBytes
	}
	if l.Instructions == 0 {
		l.Instructions = DefaultInstructions
	}
	if l.StartInstructions == 0 {
		l.StartInstructions = defaultStartInstructions
	}
	if l.Timeout == 0 {
		l.Timeout = DefaultTimeout
	}
	if l.StartTimeout == 0 {
		l.StartTimeout = defaultStartTimeout
	}
	if l.IdleTime == 0 {
		l.IdleTime = defaultIdleTime
	}
	return l
}

func (l Limits) check() error {
	for _, f := range []struct {
		name string
		v    int64
	}{
		{"ModuleBytes", int64(l.ModuleBytes)}, {"TableEntries", int64(l.TableEntries)}, {"CallDepth", int64(l.CallDepth)},
		{"InputBytes", int64(l.InputBytes)}, {"OutputBytes", int64(l.OutputBytes)}, {"HostCalls", int64(l.HostCalls)},
		{"ResponseBytes", int64(l.ResponseBytes)}, {"LogBytes", int64(l.LogBytes)}, {"BlockBytes", int64(l.BlockBytes)}, {"VarBytes", int64(l.VarBytes)}, {"Instances", int64(l.Instances)},
		{"IdleInstances", int64(l.IdleInstances)}, {"MaxIdle", int64(l.MaxIdle)}, {"MaxCallsPerInstance", int64(l.MaxCallsPerInstance)}, {"Waiting", int64(l.Waiting)},
		{"CompileWork", int64(l.CompileWork)}, {"CompileTimeout", int64(l.CompileTimeout)}, {"CompileMemory", l.CompileMemory}, {"MemoryBytes", l.MemoryBytes},
		{"KVBytes", l.KVBytes}, {"Instructions", l.Instructions}, {"StartInstructions", l.StartInstructions}, {"Timeout", int64(l.Timeout)}, {"StartTimeout", int64(l.StartTimeout)}, {"IdleTime", int64(l.IdleTime)},
	} {
		if f.v < 0 {
			return host.Errorf(host.InvalidArgument, "plugin limit %s is %d", f.name, f.v).WithHint("leave it out for the default")
		}
	}
	if l.MemoryBytes > 4<<30 {
		return host.Errorf(host.InvalidArgument, "plugin limit MemoryBytes is %d", l.MemoryBytes).WithHint("WebAssembly memory ends at 4 GiB")
	}
	if int64(l.BlockBytes) > extism.MaxBlockBytes {
		return host.Errorf(host.InvalidArgument, "plugin limit BlockBytes is %d, more than %d", l.BlockBytes, extism.MaxBlockBytes)
	}
	if l.MemoryBytes > 0 && l.MemoryBytes < pageBytes {
		return host.Errorf(host.InvalidArgument, "plugin limit MemoryBytes is %d", l.MemoryBytes).WithHint("a page of WebAssembly memory is %d bytes", pageBytes)
	}
	if int64(l.TableEntries) > math.MaxUint32 {
		return host.Errorf(host.InvalidArgument, "plugin limit TableEntries is %d", l.TableEntries).WithHint("a WebAssembly table ends at %d", math.MaxUint32)
	}
	return nil
}

// memoryPages is MemoryBytes in pages.
func (l Limits) memoryPages() uint32 { return uint32(l.MemoryBytes / pageBytes) }
