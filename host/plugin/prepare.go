package plugin

import (
	"crypto/sha256"
	"fmt"
)

// Load-time checks and metering.
//
// prepare takes the bytes of an untrusted module and gives back a module that
// can be compiled in bounded time, counts what it executes, and can be stopped
// at any moment. It runs no code of the guest.
//
// # Why a rewrite
//
// wazero has no fuel, and its own interruption (WithCloseOnContextDone) makes
// guests several times slower, misses code without loops, and leaves Go no
// point to preempt the guest, so that one plugin stalls every goroutine of the
// process. The rewrite puts a counter into the guest: cheap, exact, the same on
// every machine and in every run.
//
// # What the host must do: the meter protocol
//
// A prepared module differs from its original in these ways:
//
//   - It imports one function more, "agenthost_meter" "tick" of type
//     (fuel i64, depth i64) -> i64. The runtime instantiates a host module of
//     that name (meterModule, meterTick) before any guest.
//   - It exports two mutable i64 globals, "agenthost_meter.fuel" and
//     "agenthost_meter.depth" (meterFuel, meterDepth), and each mutable global
//     of its own with a numeric type, as "agenthost_meter.global.N" with N its
//     index (meterGlobal), so that an image of an instance can be saved and
//     restored.
//   - Its memory and its tables have a maximum, at most the limit.
//
// fuel counts down: each stretch of straight code subtracts its price before it
// runs, bulk operations (memory.fill, memory.copy, memory.grow, table.copy...)
// subtract a price by their length as well. At function entries, loop headers
// and bulk operations a guest whose fuel is below zero calls
// tick(fuel, depth), and goes on with the result as its new fuel. So:
//
//   - Instantiation: fuel is 0, so a start function ticks at once. The meter of
//     the call in progress travels in the context given to InstantiateModule
//     and Call, which wazero hands to tick.
//   - Before a call: fuel.Set(slice). Leaving it at 0 is right too, and costs
//     one tick. The slice is how long the guest may run between two looks at
//     the deadline; 100,000 is about 50 to 100 us.
//   - tick(fuel, depth): fuel is what is left, negative, and is owed. Check the
//     context, the call's budget and the tenant's; then return fuel + slice to
//     go on (counting slice as granted), or panic with an error to stop the
//     guest. wazero turns the panic into the error of the call, and errors.Is
//     and errors.As see through it. A result that is still below zero is
//     allowed and ticks again soon.
//   - After a call that returned: spent = granted - fuel.Get(), exact to the
//     instruction. The same input costs the same on every machine.
//   - After a call that failed, for whatever reason: spent is computed alike;
//     the instance must be closed, never reused.
//
// depth counts down as well: each function that calls others subtracts its
// frame's weight (1, more for functions with very many locals) while it runs.
// It starts at the limit's callDepth and is back there after each call that
// returned. When it is below zero tick is called with depth < 0: the guest
// recursed too deep, and tick must panic with an error that says so.
//
// Keep the api.Global values of fuel and depth with the instance; looking them
// up by name on every call costs more than the call.
//
// # Prices
//
// One unit is one instruction; see costs in wasmfmt_ops.go for the dear ones.
// Labels, ends and nops are free.
//
// # The pass is not a validator
//
// It does not check types. But because it adds a function, globals and types,
// every index is checked against the original module before anything is added,
// so that what is invalid before stays invalid after, which wazero then finds
// when it compiles the result.

// prepared is a module that passed the checks, and its metered form.
type prepared struct {
	structure
	wasm []byte // metered
}

// structure is what can be seen of a module without running it.
type structure struct {
	digest [sha256.Size]byte // of the original
	size   int               // of the original, in bytes
	module *wasmModule
}

// prepare checks a module and meters it.
func prepare(wasm []byte, l *structureLimits) (*prepared, error) {
	l = l.withDefaults()
	m, err := parseModule(wasm)
	if err != nil {
		return nil, err
	}
	metered, err := newMeter(m, l).write()
	if err != nil {
		return nil, err
	}
	return &prepared{structure: structure{digest: sha256.Sum256(wasm), size: len(wasm), module: m}, wasm: metered}, nil
}

// savedGlobals lists the mutable globals with a numeric type.
func (m *wasmModule) savedGlobals() []int {
	var list []int
	for i, g := range m.globals {
		if g.mutable && g.value >= typeF64 {
			list = append(list, i)
		}
	}
	return list
}

func globalExport(i int) string { return fmt.Sprintf("%s%d", meterGlobal, i) }
