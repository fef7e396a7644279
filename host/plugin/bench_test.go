package plugin_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	extism "github.com/extism/go-sdk"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/agenthost/agenthost/host/plugin"
)

// BenchmarkCall compares what one call costs: through this host with metering
// and every limit on, on raw wazero with neither (the same module), through
// extism/go-sdk with a timeout (a guest that does the same with Extism's PDK),
// and as a plain Go function.
func BenchmarkCall(b *testing.B) {
	for _, size := range []int{0, 1 << 10, 100 << 10, 1 << 20} {
		input := make([]byte, size)
		for i := range input {
			input[i] = 'x'
		}
		b.Run(fmt.Sprintf("agenthost/%dB", size), func(b *testing.B) { benchHost(b, input) })
		b.Run(fmt.Sprintf("wazero/%dB", size), func(b *testing.B) { benchWazero(b, input) })
		b.Run(fmt.Sprintf("extism/%dB", size), func(b *testing.B) { benchExtism(b, input) })
		b.Run(fmt.Sprintf("native/%dB", size), func(b *testing.B) { benchNative(b, input) })
	}
}

func benchHost(b *testing.B, input []byte) {
	rt := newRuntime(b, nil)
	p := load(b, rt, "echo", buildGuest(b, "host/plugin/testdata/guests/echo"), nil)
	ctx := context.Background()
	if _, err := p.Call(ctx, "t", "tool", input, nil); err != nil { // makes the instance
		b.Fatal(err)
	}
	b.SetBytes(int64(len(input)))
	b.ReportAllocs()
	for b.Loop() {
		r, err := p.Call(ctx, "t", "tool", input, nil)
		if err != nil || len(r.Output) != len(input) {
			b.Fatal(err, len(r.Output))
		}
	}
}

func benchWazero(b *testing.B, input []byte) {
	call := rawEcho(b, input)
	b.SetBytes(int64(len(input)))
	b.ReportAllocs()
	for b.Loop() {
		call()
	}
}

// rawEcho returns a call of the echo guest on raw wazero.
func rawEcho(b *testing.B, input []byte) func() {
	call := rawGuest(b, context.Background(), buildGuest(b, "host/plugin/testdata/guests/echo"), wazero.NewRuntimeConfig(), input)
	return func() {
		if len(call()) != len(input) {
			b.Fatal("the echo is not what was sent")
		}
	}
}

// rawGuest returns a call of a guest on raw wazero, without limits; it returns
// the output.
func rawGuest(b *testing.B, ctx context.Context, wasm []byte, cfg wazero.RuntimeConfig, input []byte) func() []byte {
	rt := wazero.NewRuntimeWithConfig(ctx, cfg)
	b.Cleanup(func() { _ = rt.Close(ctx) })
	wasi_snapshot_preview1.MustInstantiate(ctx, rt)
	var output []byte
	_, err := rt.NewHostModuleBuilder("agenthost_v1").
		NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(_ context.Context, m api.Module, stack []uint64) {
		rest := input[uint32(stack[1]):]
		m.Memory().Write(uint32(stack[0]), rest)
		stack[0] = uint64(len(rest))
	}), []api.ValueType{api.ValueTypeI32, api.ValueTypeI32, api.ValueTypeI32}, []api.ValueType{api.ValueTypeI32}).Export("input_read").
		NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(_ context.Context, m api.Module, stack []uint64) {
		view, _ := m.Memory().Read(uint32(stack[0]), uint32(stack[1]))
		output = append([]byte(nil), view...)
	}), []api.ValueType{api.ValueTypeI32, api.ValueTypeI32}, nil).Export("output_write").
		Instantiate(ctx)
	if err != nil {
		b.Fatal(err)
	}
	mod, err := rt.InstantiateWithConfig(ctx, wasm,
		wazero.NewModuleConfig().WithStartFunctions("_initialize"))
	if err != nil {
		b.Fatal(err)
	}
	fn := mod.ExportedFunction("agenthost_tool")
	stack := make([]uint64, 1)
	return func() []byte {
		stack[0] = uint64(len(input))
		if err := fn.CallWithStack(ctx, stack); err != nil || stack[0] != 0 {
			b.Fatal(err, stack[0])
		}
		return output
	}
}

func benchExtism(b *testing.B, input []byte) {
	ctx := context.Background()
	compiled, err := extism.NewCompiledPlugin(ctx, extism.Manifest{
		Wasm:    []extism.Wasm{extism.WasmData{Data: buildGuest(b, "host/plugin/testdata/guests/extism")}},
		Timeout: uint64(plugin.DefaultTimeout / time.Millisecond),
	}, extism.PluginConfig{EnableWasi: true}, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer compiled.Close(ctx)
	p, err := compiled.Instance(ctx, extism.PluginInstanceConfig{})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(input)))
	b.ReportAllocs()
	for b.Loop() {
		_, out, err := p.CallWithContext(ctx, "agenthost_tool", input)
		if err != nil || len(out) != len(input) {
			b.Fatal(err, len(out))
		}
	}
}

func benchNative(b *testing.B, input []byte) {
	var output []byte
	echo := func(in []byte) []byte { return append([]byte(nil), in...) }
	b.SetBytes(int64(len(input)))
	b.ReportAllocs()
	for b.Loop() {
		output = echo(input)
	}
	if len(output) != len(input) {
		b.Fatal("lost bytes")
	}
}
