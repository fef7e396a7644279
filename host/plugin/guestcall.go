package plugin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/tetratelabs/wazero/api"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
	"github.com/agenthost/agenthost/host/nested"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
	"github.com/agenthost/agenthost/host/plugin/internal/callmeter"
	"github.com/agenthost/agenthost/host/plugin/internal/rawbytes"
	"github.com/agenthost/agenthost/host/usage"
)

// call is the call in progress as the functions that its guest imports see it: what the
// guest reads, writes, logs and asks of the host. One value serves all calls of an instance.
type call struct {
	meter    *callmeter.Meter
	binding  *binding // of the tenant that the call is for
	payer    payer    // of what the call uses
	limits   *Limits
	input    []byte
	output   []byte
	response []byte // of the last host operation
	calls    int
	logged   int
	ops      operations
	raw      rawOperations // ops in a raw call
}

// keptResponse bounds the buffer that an idle instance keeps.
const keptResponse = 64 << 10

// begin prepares for a call.
func (c *call) begin(limits *Limits, input []byte) {
	response := c.response[:0]
	if cap(response) > keptResponse {
		response = nil
	}
	*c = call{meter: c.meter, binding: c.binding, payer: c.payer, limits: limits, input: input, response: response}
}

// rest frees the memory that an idle instance does not need.
func (c *call) rest() {
	c.input, c.output, c.ops, c.raw, c.payer = nil, nil, nil, rawOperations{}, payer{}
	if cap(c.response) > keptResponse {
		c.response = nil
	}
}

// The functions of the ABI. Each checks the range that the guest names
// before it copies, and stops a guest that names one outside its memory.

// input_read(ptr, offset, len) -> copied
func inputRead(c *call, mem api.Memory, stack []uint64) {
	stack[0] = uint64(c.copyOut(mem, "input_read", c.input, stack))
}

// host_read(ptr, offset, len) -> copied
func hostRead(c *call, mem api.Memory, stack []uint64) {
	stack[0] = uint64(c.copyOut(mem, "host_read", c.response, stack))
}

func (c *call) copyOut(mem api.Memory, name string, from []byte, stack []uint64) uint32 {
	ptr, offset, n := uint32(stack[0]), uint32(stack[1]), uint32(stack[2])
	if n == 0 || uint64(offset) >= uint64(len(from)) {
		return 0
	}
	chunk := from[offset:]
	if uint64(len(chunk)) > uint64(n) {
		chunk = chunk[:n]
	}
	c.meter.Charge(int64(len(chunk)) / callmeter.BytesPerInstruction)
	if !mem.Write(ptr, chunk) {
		c.broken(name, ptr, uint32(len(chunk)))
	}
	return uint32(len(chunk))
}

// output_write(ptr, len)
func outputWrite(c *call, mem api.Memory, stack []uint64) {
	b := c.memoryRange(mem, "output_write", stack[0], stack[1])
	if len(b) > c.limits.OutputBytes-len(c.output) {
		c.meter.Stop(host.Errorf(host.ResourceExhausted, "%s wrote more than the limit OutputBytes of %d",
			c.meter.Subject(), c.limits.OutputBytes))
	}
	c.meter.Charge(int64(len(b)) / callmeter.BytesPerInstruction)
	c.output = append(c.output, b...)
}

// output_reset()
func outputReset(c *call, _ api.Memory, _ []uint64) { c.output = c.output[:0] }

// host_call(op_ptr, op_len, req_ptr, req_len) -> status<<32 | length
func hostCall(c *call, mem api.Memory, stack []uint64) {
	op, req := c.operationName(mem, "host_call", stack), c.memoryRange(mem, "host_call", stack[2], stack[3])
	response, err := c.Operate(op, req)
	stack[0] = c.respond(response, nil, err)
}

// host_call_bytes(op_ptr, op_len, req_ptr, req_len, data_ptr, data_len) -> status<<32 | length
func hostCallBytes(c *call, mem api.Memory, stack []uint64) {
	const name = "host_call_bytes"
	op, req := c.operationName(mem, name, stack), c.memoryRange(mem, name, stack[2], stack[3])
	data := c.memoryRange(mem, name, stack[4], stack[5]) // the guest's memory, which the payload copies when it begins
	payload := rawbytes.New(op, data)
	response, err := c.operateWith(op, req, payload)
	stack[0] = c.respond(response, payload.Response(), err)
}

// operationName reads the name of an operation, whose range stands first.
func (c *call) operationName(mem api.Memory, fn string, stack []uint64) string {
	op := c.memoryRange(mem, fn, stack[0], stack[1])
	if len(op) > maxOperationName {
		c.meter.Stop(host.Errorf(host.Internal, "%s: %s names an operation in %d bytes, more than %d",
			c.meter.Subject(), fn, len(op), maxOperationName).WithHint("the plugin is broken; see pdk/ABI.md"))
	}
	return string(op)
}

// memoryRange returns a range of the guest's memory that a function is given. A range of no
// bytes lies anywhere.
func (c *call) memoryRange(mem api.Memory, fn string, ptr, n uint64) []byte {
	if uint32(n) == 0 {
		return []byte{}
	}
	b, ok := mem.Read(uint32(ptr), uint32(n))
	if !ok {
		c.broken(fn, uint32(ptr), uint32(n))
	}
	return b
}

// respond keeps the response of an operation, or its error, for host_read.
func (c *call) respond(response, beside []byte, err error) uint64 {
	status := uint64(0)
	if err != nil {
		status, response, beside = 1, abi.ErrorObject(err), nil
	}
	c.response = append(append(c.response[:0], response...), beside...)
	return status<<32 | uint64(len(response))
}

// log(level, ptr, len)
func guestLog(c *call, mem api.Memory, stack []uint64) {
	n := min(uint32(stack[2]), uint32(max(0, c.LogRoom()))) // the cap; the rest is not even read
	c.Log(int(int32(stack[0])), c.memoryRange(mem, "log", stack[1], uint64(n)))
}

const (
	// maxOperationName bounds the name that a guest gives in host_call.
	maxOperationName = 64
	// logPrice is the price of a log line in instructions.
	logPrice = 1000
)

func (c *call) broken(fn string, ptr, n uint32) {
	c.meter.Stop(host.Errorf(host.Internal, "%s: %s names %d bytes at %d, outside its memory",
		c.meter.Subject(), fn, n, ptr).WithHint("the plugin is broken; see pdk/ABI.md"))
}

// Log writes to the plugin's log, up to LogBytes a call.
func (c *call) Log(level int, text []byte) {
	c.meter.Charge(logPrice)
	text = text[:min(len(text), max(0, c.LogRoom()))]
	if len(text) == 0 {
		return
	}
	if c.logged += len(text); c.logged >= c.limits.LogBytes {
		text = append(slices.Clone(text), " (log limit reached)"...)
	}
	c.binding.plugin.runtime.opts.Log(LogLine{
		Plugin: c.binding.plugin.id, Tenant: c.binding.account.id, Export: c.meter.Export(),
		Level: logLevel(level), Text: clean(strings.TrimRight(string(text), "\n")),
	})
}

// LogRoom returns how many bytes the log takes in this call, negative if none.
func (c *call) LogRoom() int { return c.limits.LogBytes - c.logged }

// Grants returns whether the tenant's calls may read the real time and real random bytes.
func (c *call) Grants() (clock, random bool) {
	granted := &c.binding.rights().granted
	return granted.Clock, granted.Random
}

// Note records that real time or real random bytes were read.
func (c *call) Note(clock, random bool) {
	c.binding.usage.note(func(p *Permissions) { p.Clock, p.Random = p.Clock || clock, p.Random || random })
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

// Operate runs a host operation for the guest.
func (c *call) Operate(op string, req []byte) ([]byte, error) { return c.operateWith(op, req, nil) }

// operateWith runs an operation with the bytes that stand beside its JSON; nil: they are in it.
func (c *call) operateWith(op string, req []byte, payload *rawbytes.Payload) ([]byte, error) {
	if c.calls++; c.calls > c.limits.HostCalls {
		c.meter.Stop(host.Errorf(host.ResourceExhausted, "%s made more than the limit HostCalls of %d",
			c.meter.Subject(), c.limits.HostCalls))
	}
	if err := c.payer.Charge(usage.HostCalls, 1, time.Now()); err != nil {
		c.meter.Stop(c.meter.BudgetStop(err))
	}
	size := len(req) + payload.Size()
	price, err := c.binding.plugin.runtime.operationPrice(op, size)
	if err != nil {
		return nil, err
	}
	values := jsondoc.CountSigns(req)
	c.meter.Charge(price + requestPrice(size, values))
	c.meter.Check()
	if size > c.limits.ResponseBytes {
		return nil, host.Errorf(host.ResourceExhausted, "request of %s is %d bytes, more than the limit ResponseBytes of %d", op, size, c.limits.ResponseBytes)
	}
	if err := checkSigns(op, values); err != nil {
		return nil, err
	}
	if c.ops == nil {
		return nil, host.Errorf(host.FailedPrecondition, "%s has nothing to call %q on", c.meter.Export(), op)
	}
	response, err := c.perform(op, bytes.Clone(req), payload)
	size = len(response) + len(payload.Response())
	if err == nil && size > c.limits.ResponseBytes {
		err = host.Errorf(host.ResourceExhausted, "response of %s is %d bytes, more than the limit ResponseBytes of %d", op, size, c.limits.ResponseBytes)
	}
	if err != nil {
		if fault.Masked(err) {
			c.binding.plugin.runtime.opts.Logger.Warn("operation failed", "plugin", c.binding.plugin.id, "tenant", c.binding.account.id, "op", op, "error", err)
		}
		return nil, err
	}
	c.meter.Charge(int64(size) / callmeter.BytesPerInstruction)
	return response, nil
}

// Answer is Operate for a plugin that reads {"ok": ...} or {"error": {...}}.
func (c *call) Answer(op string, req []byte) []byte {
	key, response := "ok", []byte("{}")
	out, err := c.Operate(op, req)
	switch {
	case err != nil:
		key, response = "error", abi.ErrorObject(err)
	case len(out) > 0:
		response = out
	}
	o := abi.NewObject(len(response) + len(key) + 8)
	o.Raw(key, json.RawMessage(response))
	return o.End()
}

// perform runs an operation. The operation runs in the call's quantum, except in its
// blocking sections, and its time counts like instructions that take as long: a short
// request may ask for much work. req is not the guest's memory, which is gone once the
// instance is closed.
func (c *call) perform(op string, req []byte, payload *rawbytes.Payload) ([]byte, error) {
	o, cancel := c.meter.BeginOperation()
	defer cancel()
	beside, err := payload.Begin(o.Context)
	if err != nil {
		return nil, err
	}
	o.Context = beside
	defer c.hidePanic(o, op)
	response, err := c.ops.operate(o, op, req)
	if errors.Is(err, nested.ErrInterrupted) { // the call starts again when there is an answer
		c.meter.StopBlameless(err)
	}
	if late := o.End(); late != nil { // the guest does not see this error
		c.meter.Stop(late)
	}
	return response, err
}

// hidePanic ends the guest when the program's part of an operation panics, such as a
// driver of a store: the words of the panic go to the log, not to the plugin's owner.
func (c *call) hidePanic(ctx context.Context, op string) {
	if c.meter.Stopped() != nil {
		return // the host's own stop unwinds the guest
	}
	if p := recover(); p != nil {
		id := c.binding.plugin.id
		c.binding.plugin.runtime.opts.Logger.ErrorContext(ctx, "panic in an operation", "plugin", id, "tenant", c.binding.account.id, "op", op, "panic", p, "stack", string(debug.Stack()))
		c.meter.Stop(host.Errorf(host.Internal, "%s: the operation %s failed", c.meter.Subject(), op))
	}
}
