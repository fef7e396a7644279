package plugin

import (
	"context"
	"strings"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/sys"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/internal/callmeter"
	"github.com/agenthost/agenthost/host/plugin/internal/wasienv"
)

// wasiPrices charges for WASI, and bounds it: some of its functions read as much
// memory as a guest asks for, and know neither a budget nor a deadline.
type wasiPrices struct{}

// keepsFiles are the WASI functions that change what the system keeps of open
// files. An image does not hold that. fd_fdstat_set_flags is none of them: there
// are only the three standard files, whose flags nothing keeps, and every Go
// guest that imports os sets them when it starts.
var keepsFiles = map[string]bool{
	"fd_close": true, "fd_renumber": true, "fd_seek": true, "path_open": true, "sock_accept": true,
	"fd_fdstat_set_rights": true,
}

const (
	// wasiPrice is the price of a WASI function, without the bytes it reads or writes.
	wasiPrice = 16
	// maxWASIEntries bounds the bytes of a path, and the buffers or subscriptions,
	// that a guest gives a function of WASI: while it reads them, nothing looks at
	// the deadline.
	maxWASIEntries = 1 << 12
	// wasiEntryPrice is the price of a buffer or subscription, in instructions.
	wasiEntryPrice = 16
)

// NewFunctionListener returns what charges for a function before it runs, and
// stops a guest that gives it more to read at once than maxWASIEntries.
func (wasiPrices) NewFunctionListener(f api.FunctionDefinition) experimental.FunctionListener {
	var bytes, entries, bounded []int
	for i, name := range f.ParamNames() {
		switch {
		case strings.HasPrefix(name, "result."): // says where an answer goes
		case name == "buf_len":
			bytes = append(bytes, i)
		case strings.HasSuffix(name, "path_len"):
			bytes, bounded = append(bytes, i), append(bounded, i)
		case strings.HasSuffix(name, "_len"), name == "nsubscriptions":
			entries, bounded = append(entries, i), append(bounded, i)
		}
	}
	keeps := keepsFiles[f.Name()]
	return experimental.FunctionListenerFunc(func(ctx context.Context, _ api.Module, _ api.FunctionDefinition, params []uint64, _ experimental.StackIterator) {
		inst := instanceOf(ctx)
		if inst == nil {
			return
		}
		for _, i := range bounded {
			if n := uint32(params[i]); n > maxWASIEntries {
				inst.meter.Stop(host.Errorf(host.Internal, "%s: %s is given %s of %d, more than %d",
					inst.meter.Subject(), f.Name(), f.ParamNames()[i], n, maxWASIEntries).
					WithHint("the plugin is broken; see pdk/ABI.md"))
			}
		}
		price := int64(wasiPrice)
		for _, i := range bytes {
			price += int64(uint32(params[i])) / callmeter.BytesPerInstruction
		}
		for _, i := range entries {
			price += int64(uint32(params[i])) * wasiEntryPrice
		}
		inst.meter.Charge(price)
		if keeps {
			inst.wasi.KeepState()
		}
	})
}

// moduleConfig configures a module with an environment.
func moduleConfig(env *wasienv.Env) wazero.ModuleConfig {
	return wazero.NewModuleConfig().WithName("").WithStartFunctions().
		WithStdout(env.Output()).WithStderr(env.Errors()).
		WithNanosleep(env.Sleep).
		WithRandSource(env).
		WithWalltime(env.Walltime, sys.ClockResolution(wasienv.ClockStep)).
		WithNanotime(env.Nanotime, sys.ClockResolution(wasienv.ClockStep))
}
