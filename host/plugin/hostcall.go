package plugin

import (
	"context"
	"log/slog"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/agenthost/agenthost/host/plugin/internal/abi"
	"github.com/agenthost/agenthost/host/plugin/internal/guesttext"
	"github.com/agenthost/agenthost/host/plugin/internal/wasmmeter"
)

const (
	i32 = api.ValueTypeI32
	i64 = api.ValueTypeI64
)

// linkImports instantiates the modules that guests import: the meter, WASI preview 1, and
// the functions of the ABI.
func linkImports(ctx context.Context, wasm wazero.Runtime, wasiListeners experimental.FunctionListenerFactory) error {
	meter := wasm.NewHostModuleBuilder(wasmmeter.ImportModule)
	meter.NewFunctionBuilder().WithGoFunction(api.GoFunc(func(ctx context.Context, stack []uint64) {
		stack[0] = uint64(instanceOf(ctx).checkFuel(int64(stack[0]), int64(stack[1]), &stack[0]))
	}), []api.ValueType{i64, i64}, []api.ValueType{i64}).Export(wasmmeter.ImportCheck)
	if _, err := meter.Instantiate(ctx); err != nil {
		return err
	}
	if _, err := wasi_snapshot_preview1.Instantiate(experimental.WithFunctionListenerFactory(ctx, wasiListeners), wasm); err != nil {
		return err
	}
	b := wasm.NewHostModuleBuilder(abi.ImportModule)
	for _, f := range []struct {
		name    string
		params  []api.ValueType
		results []api.ValueType
		fn      func(*call, api.Memory, []uint64)
	}{
		{"input_read", []api.ValueType{i32, i32, i32}, []api.ValueType{i32}, inputRead},
		{"output_write", []api.ValueType{i32, i32}, nil, outputWrite},
		{"output_reset", nil, nil, outputReset},
		{"host_call", []api.ValueType{i32, i32, i32, i32}, []api.ValueType{i64}, hostCall},
		{"host_call_bytes", []api.ValueType{i32, i32, i32, i32, i32, i32}, []api.ValueType{i64}, hostCallBytes},
		{"host_read", []api.ValueType{i32, i32, i32}, []api.ValueType{i32}, hostRead},
		{"log", []api.ValueType{i32, i32, i32}, nil, guestLog},
	} {
		b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(ctx context.Context, m api.Module, stack []uint64) {
			f.fn(&instanceOf(ctx).call, m.Memory(), stack)
		}), f.params, f.results).Export(f.name)
	}
	_, err := b.Instantiate(ctx)
	return err
}

// clean is [guesttext.Clean].
func clean(s string) string { return guesttext.Clean(s) }

// operations answer a guest's host calls. The operations of a call depend on its
// kind: a tool has state, a processor has messages.
type operations interface {
	// operate runs one operation. Its error goes to the guest as an object.
	operate(ctx context.Context, op string, req []byte) ([]byte, error)
}

// Operations returns the names of the operations that guests can call.
func Operations() []string { return abi.Operations() }

// LogLine is a line that a guest wrote.
type LogLine struct {
	Plugin, Tenant, Export string
	Level                  slog.Level
	Text                   string // no control characters but \n and \t
}

var _ experimental.FunctionListenerFactory = wasiPrices{}
