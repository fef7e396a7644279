package plugin

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/internal/callmeter"
)

// extismFunc is a function that Extism plugins import.
type extismFunc struct {
	name    string
	params  []api.ValueType
	results []api.ValueType
	call    func(inst *instance, stack []uint64)
}

// extismPrice is the price of each of these functions, without what it copies.
const extismPrice = 16

// extismEnv returns what the module extism:host/env offers: everything that a
// plugin calls. What only hosts call, Extism offers to plugins as well
// (input_set, output_length, output_offset, reset, memory_bytes), and with it a
// plugin confuses its host; a module that imports one of those is refused.
func extismEnv() []extismFunc {
	var ( // an offset or a length is an i64
		none = []api.ValueType{}
		word = []api.ValueType{i32}
		one  = []api.ValueType{i64}
		two  = []api.ValueType{i64, i64}
	)
	return []extismFunc{
		{"alloc", one, one, extismAlloc},
		{"free", one, none, extismFree},
		{"length", one, one, extismLength},
		{"length_unsafe", one, one, extismLength},
		{"load_u8", one, word, extismLoad8},
		{"load_u64", one, one, extismLoad64},
		{"store_u8", []api.ValueType{i64, i32}, none, extismStore8},
		{"store_u64", two, none, extismStore64},
		{"input_length", none, one, extismInputLength},
		{"input_offset", none, one, extismInputOffset},
		{"input_load_u8", one, word, extismInputLoad8},
		{"input_load_u64", one, one, extismInputLoad64},
		{"output_set", two, none, extismOutputSet},
		{"error_set", one, none, extismErrorSet},
		{"error_get", none, one, extismErrorGet},
		{"config_get", one, one, extismConfigGet},
		{"var_get", one, one, extismVarGet},
		{"var_set", two, none, extismVarSet},
		{"http_request", two, one, extismHTTPRequest},
		{"http_status_code", none, word, extismHTTPStatus},
		{"http_headers", none, one, extismHTTPHeaders},
		{"get_log_level", none, word, extismLogLevel},
		{"log_trace", one, none, extismLog(0)},
		{"log_debug", one, none, extismLog(0)},
		{"log_info", one, none, extismLog(1)},
		{"log_warn", one, none, extismLog(2)},
		{"log_error", one, none, extismLog(3)},
	}
}

// extismUser returns what the module extism:host/user offers.
func extismUser() []extismFunc {
	return []extismFunc{{"agenthost_call", []api.ValueType{i64, i64}, []api.ValueType{i64}, extismHostCall}}
}

// linkExtism instantiates what Extism plugins import.
func linkExtism(ctx context.Context, wasm wazero.Runtime) error {
	for _, m := range []struct {
		name  string
		funcs []extismFunc
	}{{extismModule, extismEnv()}, {extismUserModule, extismUser()}} {
		b := wasm.NewHostModuleBuilder(m.name)
		for _, f := range m.funcs {
			b.NewFunctionBuilder().WithGoFunction(api.GoFunc(func(ctx context.Context, stack []uint64) {
				inst := instanceOf(ctx)
				inst.meter.Charge(extismPrice)
				f.call(inst, stack)
			}), f.params, f.results).Export(f.name)
		}
		if _, err := b.Instantiate(ctx); err != nil {
			return err
		}
	}
	return nil
}

// outsideBlocks stops a guest that names bytes which are not there.
func (inst *instance) outsideBlocks(fn string, at, n uint64) {
	inst.meter.Stop(host.Errorf(host.Internal, "%s: %s names %d bytes at offset %d, outside its blocks",
		inst.meter.Subject(), fn, n, at).WithHint("the plugin is broken"))
}

// block gives the guest a block of some bytes.
func (inst *instance) block(bytes []byte) uint64 {
	inst.meter.Charge(int64(len(bytes)) / callmeter.BytesPerInstruction)
	at, ok := inst.extism.blocks.put(bytes)
	if !ok {
		inst.noBlocks(uint64(len(bytes)))
	}
	return at
}

// noBlocks stops a guest for which there is no room.
func (inst *instance) noBlocks(n uint64) {
	if inst.extism.blocks.claim.Refused() {
		inst.meter.Stop(inst.plugin.runtime.exhausted())
	}
	inst.meter.Stop(host.Errorf(host.ResourceExhausted, "%s asked for a block of %d bytes, which the limit BlockBytes of %d has no room for",
		inst.meter.Subject(), n, inst.call.limits.BlockBytes).WithHint("raise the limit, or free blocks that are done with"))
}

// text reads a block that the guest hands over, and charges for it. A block that
// is not there is empty.
func (inst *instance) text(at uint64) []byte {
	b := inst.extism.blocks.bytes(at)
	inst.meter.Charge(int64(len(b)) / callmeter.BytesPerInstruction)
	return b
}

// alloc(n) -> offset
func extismAlloc(inst *instance, stack []uint64) {
	n := stack[0]
	if n <= uint64(inst.call.limits.BlockBytes) { // else there is no room anyway
		inst.meter.Charge(int64(n) / callmeter.BytesPerInstruction)
	}
	at, ok := inst.extism.blocks.alloc(n)
	if !ok {
		inst.noBlocks(n)
	}
	stack[0] = at
}

// free(offset)
func extismFree(inst *instance, stack []uint64) { inst.extism.free(stack[0]) }

// length(offset) -> n, and length_unsafe
func extismLength(inst *instance, stack []uint64) {
	stack[0] = inst.extism.blocks.length(stack[0])
}

// load_u8(offset) -> byte
func extismLoad8(inst *instance, stack []uint64) {
	b, ok := inst.extism.blocks.view(stack[0], 1)
	if !ok {
		inst.outsideBlocks("load_u8", stack[0], 1)
	}
	stack[0] = uint64(b[0])
}

// load_u64(offset) -> eight bytes
func extismLoad64(inst *instance, stack []uint64) {
	v, ok := inst.extism.blocks.load64(stack[0])
	if !ok {
		inst.outsideBlocks("load_u64", stack[0], 8)
	}
	stack[0] = v
}

// store_u8(offset, byte)
func extismStore8(inst *instance, stack []uint64) {
	b, ok := inst.extism.blocks.view(stack[0], 1)
	if !ok {
		inst.outsideBlocks("store_u8", stack[0], 1)
	}
	b[0] = byte(stack[1])
}

// store_u64(offset, eight bytes)
func extismStore64(inst *instance, stack []uint64) {
	if !inst.extism.blocks.store64(stack[0], stack[1]) {
		inst.outsideBlocks("store_u64", stack[0], 8)
	}
}

// input_length() -> n
func extismInputLength(inst *instance, stack []uint64) {
	stack[0] = uint64(len(inst.extism.input(inst.call.input)))
}

// input_offset() -> offset. Most plugins never ask: the input becomes a block
// when one does.
func extismInputOffset(inst *instance, stack []uint64) {
	x := &inst.extism.extismCall
	if !x.inputAsked {
		x.inputAt, x.inputAsked = inst.block(inst.call.input), true
	}
	stack[0] = x.inputAt
}

// input_load_u8(offset) -> byte, 0 past the end
func extismInputLoad8(inst *instance, stack []uint64) {
	in, at := inst.extism.input(inst.call.input), stack[0]
	stack[0] = 0
	if at < uint64(len(in)) {
		stack[0] = uint64(in[at])
	}
}

// input_load_u64(offset) -> eight bytes
func extismInputLoad64(inst *instance, stack []uint64) {
	in, at := inst.extism.input(inst.call.input), stack[0]
	if at > uint64(len(in)) || uint64(len(in))-at < 8 {
		inst.meter.Stop(host.Errorf(host.Internal, "%s: input_load_u64 names 8 bytes at %d of an input of %d",
			inst.meter.Subject(), at, len(in)).WithHint("the plugin is broken"))
	}
	stack[0] = le64(in[at:])
}

// output_set(offset, n). The bytes are read when the call is over, or when their
// block is freed.
func extismOutputSet(inst *instance, stack []uint64) {
	at, n := stack[0], stack[1]
	x := inst.extism
	if limit := inst.call.limits.OutputBytes; n > uint64(limit) {
		inst.meter.Stop(outputError(inst))
	}
	if at == 0 && n == 0 {
		return // no block: the output set before stands, as in Extism
	}
	if _, ok := x.blocks.view(at, n); !ok {
		inst.outsideBlocks("output_set", at, n)
	}
	inst.meter.Charge(int64(n) / callmeter.BytesPerInstruction)
	x.output = extismRange{at: at, n: n, set: true}
}

func outputError(inst *instance) error {
	return host.Errorf(host.ResourceExhausted, "%s wrote more than the limit OutputBytes of %d",
		inst.meter.Subject(), inst.call.limits.OutputBytes)
}

// error_set(offset); 0 takes an error back.
func extismErrorSet(inst *instance, stack []uint64) {
	x := inst.extism
	x.errorAt = stack[0]
	text := inst.text(stack[0])
	x.errorText = string(text[:min(len(text), maxExtismError)])
}

// error_get() -> offset
func extismErrorGet(inst *instance, stack []uint64) { stack[0] = inst.extism.errorAt }

// config_get(key) -> value, 0 for an unknown key
func extismConfigGet(inst *instance, stack []uint64) {
	inst.extism.own = true
	value, ok := inst.plugin.module.extism.Config[string(inst.text(stack[0]))]
	stack[0] = 0
	if ok {
		stack[0] = inst.block([]byte(value))
	}
}

// var_get(key) -> value, 0 for an unknown key. The key's block is freed.
func extismVarGet(inst *instance, stack []uint64) {
	value, ok := inst.extism.vars[string(inst.text(stack[0]))]
	inst.extism.free(stack[0])
	stack[0] = 0
	if ok {
		stack[0] = inst.block(value)
	}
}

// varWeight is what the limit counts for each variable beside its key and value.
const varWeight = 64

// var_set(key, value); without a value it removes the variable. Both blocks are
// freed.
func extismVarSet(inst *instance, stack []uint64) {
	x, name := inst.extism, string(inst.text(stack[0]))
	x.own = true
	x.free(stack[0])
	size := x.blocks.vars
	if old, ok := x.vars[name]; ok {
		size -= len(name) + len(old) + varWeight
		delete(x.vars, name)
	}
	if stack[1] == 0 {
		x.blocks.keepVars(size)
		return
	}
	value := slices.Clone(inst.text(stack[1]))
	x.free(stack[1])
	size += len(name) + len(value) + varWeight
	if limit := inst.call.limits.VarBytes; size > limit {
		inst.meter.Stop(host.Errorf(host.ResourceExhausted, "%s keeps more in variables than the limit VarBytes of %d",
			inst.meter.Subject(), limit).WithHint("raise the limit, or keep less"))
	}
	if !x.blocks.keepVars(size) {
		inst.meter.Stop(inst.plugin.runtime.exhausted())
	}
	if x.vars == nil {
		x.vars = map[string][]byte{}
	}
	x.vars[name] = value
}

// get_log_level() -> the least level that is of interest: debug
func extismLogLevel(_ *instance, stack []uint64) { stack[0] = 1 }

// log_LEVEL(text). The block is freed.
func extismLog(level int) func(*instance, []uint64) {
	return func(inst *instance, stack []uint64) {
		b := inst.extism.blocks.bytes(stack[0])
		inst.log(level, b[:min(len(b), max(0, inst.call.limits.LogBytes-inst.call.logged))])
		inst.extism.free(stack[0])
	}
}

// agenthost_call(op, request) -> response: {"ok": ...} or {"error": {...}}
func extismHostCall(inst *instance, stack []uint64) {
	op := inst.text(stack[0])
	if len(op) > maxOperationName {
		inst.meter.Stop(host.Errorf(host.Internal, "%s: agenthost_call names an operation in %d bytes, more than %d",
			inst.meter.Subject(), len(op), maxOperationName).WithHint("the plugin is broken; see pdk/ABI.md"))
	}
	key, response := "ok", []byte("{}")
	out, err := inst.operate(string(op), slices.Clone(inst.text(stack[1])))
	switch {
	case err != nil:
		key, response = "error", errorObject(err)
	case len(out) > 0:
		response = out
	}
	o := newObject(len(response) + len(key) + 8)
	o.raw(key, json.RawMessage(response))
	stack[0] = inst.block(o.end())
}
