package plugin

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
	"github.com/agenthost/agenthost/host/plugin/internal/callmeter"
	"github.com/agenthost/agenthost/host/plugin/internal/guesttext"
	"github.com/agenthost/agenthost/host/plugin/internal/strictjson"
	"github.com/agenthost/agenthost/host/plugin/internal/wasmmeter"
)

var cryptoRandom = rand.Reader

const (
	i32 = api.ValueTypeI32
	i64 = api.ValueTypeI64
)

// linkImports instantiates the modules that guests import: the meter, WASI preview 1, and
// the five functions of the ABI.
func linkImports(ctx context.Context, wasm wazero.Runtime) error {
	meter := wasm.NewHostModuleBuilder(wasmmeter.ImportModule)
	meter.NewFunctionBuilder().WithGoFunction(api.GoFunc(func(ctx context.Context, stack []uint64) {
		stack[0] = uint64(instanceOf(ctx).checkFuel(int64(stack[0]), int64(stack[1]), &stack[0]))
	}), []api.ValueType{i64, i64}, []api.ValueType{i64}).Export(wasmmeter.ImportCheck)
	if _, err := meter.Instantiate(ctx); err != nil {
		return err
	}
	if _, err := wasi_snapshot_preview1.Instantiate(experimental.WithFunctionListenerFactory(ctx, wasiPrices{}), wasm); err != nil {
		return err
	}
	b := wasm.NewHostModuleBuilder(importModule)
	for _, f := range []struct {
		name    string
		params  []api.ValueType
		results []api.ValueType
		fn      func(*instance, api.Memory, []uint64)
	}{
		{"input_read", []api.ValueType{i32, i32, i32}, []api.ValueType{i32}, inputRead},
		{"output_write", []api.ValueType{i32, i32}, nil, outputWrite},
		{"host_call", []api.ValueType{i32, i32, i32, i32}, []api.ValueType{i64}, hostCall},
		{"host_read", []api.ValueType{i32, i32, i32}, []api.ValueType{i32}, hostRead},
		{"log", []api.ValueType{i32, i32, i32}, nil, guestLog},
	} {
		b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(ctx context.Context, m api.Module, stack []uint64) {
			f.fn(instanceOf(ctx), m.Memory(), stack)
		}), f.params, f.results).Export(f.name)
	}
	_, err := b.Instantiate(ctx)
	return err
}

// The five functions of the ABI. Each checks the range that the guest names
// before it copies, and stops a guest that names one outside its memory.

// input_read(ptr, offset, len) -> copied
func inputRead(inst *instance, mem api.Memory, stack []uint64) {
	stack[0] = uint64(inst.copyOut(mem, "input_read", inst.call.input, stack))
}

// host_read(ptr, offset, len) -> copied
func hostRead(inst *instance, mem api.Memory, stack []uint64) {
	stack[0] = uint64(inst.copyOut(mem, "host_read", inst.call.response, stack))
}

func (inst *instance) copyOut(mem api.Memory, name string, from []byte, stack []uint64) uint32 {
	ptr, offset, n := uint32(stack[0]), uint32(stack[1]), uint32(stack[2])
	if uint64(offset) >= uint64(len(from)) {
		return 0
	}
	chunk := from[offset:]
	if uint64(len(chunk)) > uint64(n) {
		chunk = chunk[:n]
	}
	inst.meter.Charge(int64(len(chunk)) / callmeter.BytesPerInstruction)
	if !mem.Write(ptr, chunk) {
		inst.broken(name, ptr, uint32(len(chunk)))
	}
	return uint32(len(chunk))
}

// output_write(ptr, len)
func outputWrite(inst *instance, mem api.Memory, stack []uint64) {
	ptr, n := uint32(stack[0]), uint32(stack[1])
	b, ok := mem.Read(ptr, n)
	if !ok {
		inst.broken("output_write", ptr, n)
	}
	c := &inst.call
	if len(b) > c.limits.OutputBytes-len(c.output) {
		inst.meter.Stop(host.Errorf(host.ResourceExhausted, "%s wrote more than the limit OutputBytes of %d",
			inst.meter.Subject(), c.limits.OutputBytes))
	}
	inst.meter.Charge(int64(n) / callmeter.BytesPerInstruction)
	c.output = append(c.output, b...)
}

// host_call(op_ptr, op_len, req_ptr, req_len) -> status<<32 | length
func hostCall(inst *instance, mem api.Memory, stack []uint64) {
	op, ok := mem.Read(uint32(stack[0]), uint32(stack[1]))
	if !ok {
		inst.broken("host_call", uint32(stack[0]), uint32(stack[1]))
	}
	if len(op) > maxOperationName {
		inst.meter.Stop(host.Errorf(host.Internal, "%s: host_call names an operation in %d bytes, more than %d",
			inst.meter.Subject(), len(op), maxOperationName).WithHint("the plugin is broken; see pdk/ABI.md"))
	}
	req, ok := mem.Read(uint32(stack[2]), uint32(stack[3]))
	if !ok {
		inst.broken("host_call", uint32(stack[2]), uint32(stack[3]))
	}
	status := uint64(0)
	response, err := inst.Operate(string(op), req)
	if err != nil {
		status = 1
		response = errorObject(err)
	}
	inst.call.response = append(inst.call.response[:0], response...)
	stack[0] = status<<32 | uint64(len(response))
}

// log(level, ptr, len)
func guestLog(inst *instance, mem api.Memory, stack []uint64) {
	ptr, n := uint32(stack[1]), uint32(stack[2])
	if left := uint32(max(0, inst.call.limits.LogBytes-inst.call.logged)); n > left {
		n = left // the cap; the rest is not even read
	}
	b, ok := mem.Read(ptr, n)
	if !ok {
		inst.broken("log", ptr, n)
	}
	inst.Log(int(int32(stack[0])), b)
}

const (
	// maxOperationName bounds the name that a guest gives in host_call.
	maxOperationName = 64
	// logPrice is the price of a log line in instructions.
	logPrice = 1000
)

func (inst *instance) broken(fn string, ptr, n uint32) {
	inst.meter.Stop(host.Errorf(host.Internal, "%s: %s names %d bytes at %d, outside its memory",
		inst.meter.Subject(), fn, n, ptr).WithHint("the plugin is broken; see pdk/ABI.md"))
}

// Log writes to the plugin's log, up to LogBytes a call.
func (inst *instance) Log(level int, text []byte) {
	c := &inst.call
	inst.meter.Charge(logPrice)
	text = text[:min(len(text), max(0, c.limits.LogBytes-c.logged))]
	if len(text) == 0 {
		return
	}
	if c.logged += len(text); c.logged >= c.limits.LogBytes {
		text = append(slices.Clone(text), " (log limit reached)"...)
	}
	inst.plugin.runtime.opts.Log(LogLine{
		Plugin: inst.plugin.id, Tenant: inst.tenant, Export: inst.meter.Export(),
		Level: logLevel(level), Text: clean(strings.TrimRight(string(text), "\n")),
	})
}

func logLevel(level int) slog.Level {
	switch level {
	case 0:
		return slog.LevelDebug
	case 2:
		return slog.LevelWarn
	case 3:
		return slog.LevelError
	}
	return slog.LevelInfo
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

// Operate runs a host operation for the guest.
func (inst *instance) Operate(op string, req []byte) ([]byte, error) {
	c := &inst.call
	if c.calls++; c.calls > c.limits.HostCalls {
		inst.meter.Stop(host.Errorf(host.ResourceExhausted, "%s made more than the limit HostCalls of %d",
			inst.meter.Subject(), c.limits.HostCalls))
	}
	if err := inst.binding.account.charge(hostCalls, 1); err != nil {
		inst.meter.Stop(inst.meter.BudgetStop(err))
	}
	price, known := abi.OperationPrice(op, len(req))
	if !known {
		return nil, host.Errorf(host.Unimplemented, "this host has no operation %q", clean(op))
	}
	values := signs(req)
	inst.meter.Charge(price + requestPrice(req, values))
	inst.meter.Check()
	if len(req) > c.limits.ResponseBytes {
		return nil, host.Errorf(host.ResourceExhausted, "request of %s is %d bytes, more than the limit ResponseBytes of %d", op, len(req), c.limits.ResponseBytes)
	}
	if err := checkSigns(op, values); err != nil {
		return nil, err
	}
	if c.ops == nil {
		return nil, host.Errorf(host.FailedPrecondition, "%s has nothing to call %q on", inst.meter.Export(), op)
	}
	response, err := inst.perform(op, bytes.Clone(req))
	if err == nil && len(response) > c.limits.ResponseBytes {
		err = host.Errorf(host.ResourceExhausted, "response of %s is %d bytes, more than the limit ResponseBytes of %d", op, len(response), c.limits.ResponseBytes)
	}
	if err != nil {
		if shown := host.ClientError(err, ""); shown.Error() != err.Error() {
			inst.plugin.runtime.opts.Logger.Warn("operation failed", "plugin", inst.plugin.id, "tenant", inst.tenant, "op", op, "error", err)
		}
		return nil, err
	}
	inst.meter.Charge(int64(len(response)) / callmeter.BytesPerInstruction)
	return response, nil
}

// Answer is Operate for a plugin that reads {"ok": ...} or {"error": {...}}.
func (inst *instance) Answer(op string, req []byte) []byte {
	key, response := "ok", []byte("{}")
	out, err := inst.Operate(op, req)
	switch {
	case err != nil:
		key, response = "error", errorObject(err)
	case len(out) > 0:
		response = out
	}
	o := newObject(len(response) + len(key) + 8)
	o.raw(key, json.RawMessage(response))
	return o.end()
}

// perform runs an operation. The operation runs in the call's quantum, except in its
// blocking sections, and its time counts like instructions that take as long: a short
// request may ask for much work. req is not the guest's memory, which is gone once the
// instance is closed.
func (inst *instance) perform(op string, req []byte) ([]byte, error) {
	o, cancel := inst.meter.BeginOperation()
	defer cancel()
	defer inst.hidePanic(op)
	response, err := inst.call.ops.operate(o, op, req)
	if late := o.End(); late != nil { // the guest does not see this error
		inst.meter.Stop(late)
	}
	return response, err
}

// hidePanic ends the guest when the program's part of an operation panics, such as a
// driver of a store: the words of the panic go to the log, not to the plugin's owner.
func (inst *instance) hidePanic(op string) {
	if inst.meter.Stopped() != nil {
		return // the host's own stop unwinds the guest
	}
	if p := recover(); p != nil {
		id := inst.plugin.id
		inst.plugin.runtime.opts.Logger.Error("panic in an operation", "plugin", id, "tenant", inst.tenant, "op", op, "panic", p, "stack", string(debug.Stack()))
		inst.meter.Stop(host.Errorf(host.Internal, "%s: the operation %s failed", inst.meter.Subject(), op))
	}
}

// errorObject is an error as a guest gets it: without the text of drivers and of the
// host's own failures, which operate writes to the log. Its sentences are cut where
// they repeat what the guest has sent.
func errorObject(err error) []byte {
	e := *host.ClientError(err, "")
	e.Message, e.Hint = shorten(e.Message), shorten(e.Hint)
	b, jsonErr := json.Marshal(&e)
	if jsonErr != nil {
		return []byte(`{"code":"internal","message":"error"}`)
	}
	return b
}

// guestError is the error object that a guest returned as an error.
func guestError(id, export string, raw []byte) error {
	e, err := readGuestError(id, export, raw)
	if err != nil {
		return err
	}
	e.Message, e.Hint = shorten(clean(e.Message)), shorten(clean(e.Hint))
	return &GuestError{Plugin: id, err: e}
}

// readGuestError reads the error object that a guest returned.
func readGuestError(id, export string, raw []byte) (*host.Error, error) {
	var e struct {
		Code          host.Code
		Message, Hint string
		Retryable     bool
	}
	if err := strictjson.Unmarshal(raw, &e); err != nil || e.Message == "" {
		return nil, host.Errorf(host.Internal, "plugin %q: %s returned an error without a message", id, export)
	}
	if !e.Code.Valid() {
		e.Code = host.Internal
	}
	return &host.Error{Code: e.Code, Message: e.Message, Hint: e.Hint, Retryable: e.Retryable}, nil
}

// maxGuestMessage bounds the message and the hint of a guest's error, which go to a
// model and to the operator's log.
const maxGuestMessage = 8 << 10

// shorten cuts a text that is too long, at a character's end.
func shorten(s string) string {
	if len(s) <= maxGuestMessage {
		return s
	}
	return strings.ToValidUTF8(s[:maxGuestMessage], "") + "…"
}

// GuestError is an error that a plugin returned, as opposed to one it ran into.
type GuestError struct {
	Plugin string
	err    *host.Error
}

// Error returns the plugin's own words.
func (e *GuestError) Error() string { return e.err.Error() }

// Unwrap returns the error as a [*host.Error].
func (e *GuestError) Unwrap() error { return e.err }

// LogLine is a line that a guest wrote.
type LogLine struct {
	Plugin, Tenant, Export string
	Level                  slog.Level
	Text                   string // no control characters but \n and \t
}

var (
	_ error     = (*GuestError)(nil)
	_ io.Reader = (*wasiEnv)(nil)

	_ experimental.FunctionListenerFactory = wasiPrices{}
)
