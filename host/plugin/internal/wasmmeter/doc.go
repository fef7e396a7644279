// Package wasmmeter makes a metered module of an untrusted one. In goes a
// WebAssembly module of unknown origin with [Limits], out comes a module that
// compiles in bounded time, counts what it executes, and can be stopped at any
// moment ([Prepare]). The package runs no code of the guest and knows no engine.
//
// It promises:
//
//   - A module that is damaged, beyond a limit, or uses anything later than
//     WebAssembly 2.0 is refused with an error that says why.
//   - The metered module computes the same results as the original, and an invalid
//     module stays invalid.
//   - The same bytes and limits give the same bytes, and the same call of the
//     metered module costs the same fuel, on every machine.
//   - Time and memory are proportional to the module's size.
//
// # Why a rewrite
//
// wazero has no fuel, and its own interruption (WithCloseOnContextDone) makes
// guests several times slower, misses code without loops, and leaves Go no
// point to preempt the guest, so that one plugin stalls every goroutine of the
// process. The rewrite puts a counter into the guest: cheap, and the same on
// every machine and in every run.
//
// # What the host must do: the meter protocol
//
// A metered module differs from its original in these ways:
//
//   - It imports one function more, "agenthost_meter" "tick" of type
//     (fuel i64, depth i64) -> i64, the fuel check. The host instantiates a host
//     module of that name ([ImportModule], [ImportCheck]) before any guest.
//   - It exports two mutable i64 globals, "agenthost_meter.fuel" and
//     "agenthost_meter.depth" ([FuelGlobal], [DepthGlobal]), and each mutable
//     global of its own with a numeric type, as "agenthost_meter.global.N" with N
//     its index ([GlobalExport]), so that an image of an instance can be saved
//     and restored.
//   - It has no start section: its start function is exported as
//     "agenthost_meter.start" ([StartExport]), for the host to call before
//     anything else. So instantiation runs no code of the guest, and an instance
//     that is filled from an image runs none at all.
//   - Its memory and its tables have a maximum, at most the limit.
//   - Its custom sections are gone, except for the names of its functions, which stack
//     traces show, those of added functions too.
//   - memory.fill, memory.copy and the memory.init of a long segment are calls of
//     functions that do them in pieces (bulk.go).
//   - Data segments that lie close together are one (data.go), and forward jumps
//     in Go code take the short way (jumps.go).
//
// fuel counts down: each stretch of straight code subtracts its price before it
// runs, bulk operations (memory.fill, memory.copy, memory.grow, table.copy...)
// subtract a price by their length as well. At function entries, loop headers,
// bulk operations, and within long code without any of these (stretch.go), a guest
// whose fuel is below zero calls the fuel check, and continues with the result as its
// new fuel. So:
//
//   - The meter of the call in progress travels in the context given to Call,
//     which wazero hands to the fuel check.
//   - Before a call the host sets fuel to a quantum, which is how long the guest may
//     run between two checks of the deadline; 1,000,000 is 0.1 to 0.3 ms. Leaving it at
//     0 is right too, and costs one fuel check.
//   - The fuel check receives the fuel that is left, which is negative, and owed. It
//     checks the context, the call's budget and the tenant's. To continue it returns
//     fuel + quantum and counts quantum as granted; to stop the guest it panics with an
//     error, which wazero makes the error of the call, and errors.Is and errors.As see
//     through it. A result below zero is allowed and leads to another fuel check soon.
//   - After a call that returned: spent = granted - fuel. The same input costs
//     the same on every machine and with any quantum.
//   - After a call that failed, for whatever reason: spent is computed alike;
//     the instance must be closed, never used again.
//
// depth counts down as well, in two counts (depth.go): each function that calls
// others subtracts its frame's weight (1, more for functions with very many
// locals and operands) and an estimate of its stack while it runs. The weights
// begin with [Limits.CallDepth], the units of stack with those of the heaviest
// frame of the module; the host sets others before a call. After each call that
// returned depth has its former value. When it is below zero the fuel check is
// called with depth < 0:
//
//   - The weights (see [UnpackDepth]) are below zero: the guest recursed too deep,
//     and the fuel check must panic with an error that says so.
//   - Else the units are: the stack is about to grow. The host reserves memory for
//     that and sets depth to more units, at most as many as there is weight left,
//     or panics. fuel may be left, and is then returned unchanged.
//
// Keep the api.Global values of fuel and depth with the instance; looking them
// up by name on every call costs more than the call.
//
// # Prices
//
// One unit is one instruction; instructions.go lists the expensive ones. Labels and
// nops are free, and so are ends, except for the values that cross them (crossings.go).
// [PriceVersion] identifies the prices of a usage report. A stretch of code may include
// a few units for instructions right after it that are jumped over, always the same
// (slack).
//
// # The pass is not a validator
//
// It does not check types. But because it adds a function, globals and types,
// every index is checked against the original module before anything is added, so that
// an invalid module stays invalid, and wazero refuses to compile it.
package wasmmeter
