package plugin

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
	"github.com/agenthost/agenthost/host/plugin/internal/artifactio"
	"github.com/agenthost/agenthost/host/plugin/internal/callmeter"
)

// baseOperations are the operations of every call: the granted ones, and those on the
// run's state and a provider's state, in calls that have them.
type baseOperations struct {
	binding *binding
	scope   host.Scope
	state   *host.State
	own     *host.ProviderState
}

func (o baseOperations) operate(ctx context.Context, op string, req []byte) ([]byte, error) {
	switch op {
	case "http.fetch":
		return o.binding.fetch(ctx, req)
	case "kv.get":
		return o.binding.kvGet(ctx, req)
	case "kv.put":
		return o.binding.kvPut(ctx, req)
	case "kv.delete":
		return o.binding.kvDelete(ctx, req)
	case "kv.list":
		return o.binding.kvList(ctx, req)
	case "model.generate":
		return o.binding.generate(ctx, o.scope, req)
	case "queue.send":
		return o.binding.send(ctx, o.scope, req)
	}
	if _, known := o.binding.plugin.runtime.operations.Price(op); known {
		return o.binding.embedded(ctx, o.scope, op, req)
	}
	switch {
	case op == "state.get" && o.state != nil:
		return o.getState(req)
	case op == "state.patch" && o.state != nil:
		return o.patchState(req)
	case op == "provider_state.get" && o.own != nil:
		return o.getOwn(req)
	case op == "provider_state.put" && o.own != nil:
		return o.putOwn(req)
	}
	return nil, host.Errorf(host.FailedPrecondition, "%s has nothing to work on in this call", op)
}

func (o baseOperations) getState(req []byte) ([]byte, error) {
	if err := o.binding.mayState(Read); err != nil {
		return nil, err
	}
	var in struct{ Path string }
	if err := abi.ReadRequest("state.get", req, &in); err != nil {
		return nil, err
	}
	var raw json.RawMessage
	revision := o.state.Revision() // before the value, which may be newer
	if in.Path == "" {
		raw, revision = o.state.Snapshot()
	} else {
		found, err := o.state.Get(in.Path, &raw)
		if err != nil {
			return nil, err
		}
		if !found {
			return nil, host.Errorf(host.NotFound, "the state has nothing at %q", in.Path)
		}
	}
	out := abi.NewObject(len(raw) + abi.EnvelopeSize)
	out.Raw("value", raw)
	out.Int("revision", revision)
	return out.End(), nil
}

func (o baseOperations) patchState(req []byte) ([]byte, error) {
	if err := o.binding.mayState(Write); err != nil {
		return nil, err
	}
	var in struct {
		Patch    []host.PatchOp
		Revision *int64
	}
	if err := abi.ReadRequest("state.patch", req, &in); err != nil {
		return nil, err
	}
	var err error
	if in.Revision != nil {
		err = o.state.PatchAt(*in.Revision, in.Patch)
	} else {
		err = o.state.Patch(in.Patch)
	}
	if err != nil {
		return nil, err
	}
	out := abi.NewObject(64)
	out.Int("revision", o.state.Revision())
	return out.End(), nil
}

func (o baseOperations) getOwn(req []byte) ([]byte, error) {
	if err := abi.ReadRequest("provider_state.get", req, &struct{}{}); err != nil {
		return nil, err
	}
	value, revision := o.own.JSON()
	out := abi.NewObject(len(value) + abi.EnvelopeSize)
	out.Raw("value", abi.OrNull(value))
	out.Int("revision", revision)
	return out.End(), nil
}

func (o baseOperations) putOwn(req []byte) ([]byte, error) {
	in := struct {
		Value    json.RawMessage
		Revision *int64
	}{}
	if err := abi.ReadRequest("provider_state.put", req, &in); err != nil {
		return nil, err
	}
	if in.Value == nil {
		return nil, host.Errorf(host.InvalidArgument, "request of provider_state.put: it has no value").WithHint("null is nothing kept")
	}
	at := int64(-1)
	if in.Revision != nil {
		if at = *in.Revision; at < 0 {
			return nil, host.Errorf(host.InvalidArgument, "request of provider_state.put: revision is %d", at)
		}
	}
	revision, err := o.own.SetAt(at, in.Value)
	if err != nil {
		return nil, err
	}
	out := abi.NewObject(64)
	out.Int("revision", revision)
	return out.End(), nil
}

// mayState fails unless the state may be read, or written.
func (b *binding) mayState(access Access) error {
	if !b.rights().granted.State.Allows(access) {
		return b.denied("state="+string(access), map[Access]string{Read: "read the state", Write: "change the state"}[access])
	}
	b.usage.note(func(p *Permissions) { p.State = p.State.Max(access) })
	return nil
}

// toolOperations are a tool's: events and artifacts of the run besides.
type toolOperations struct {
	binding   *binding
	call      *host.Call
	artifacts artifactio.Artifacts
}

func (b *binding) toolOperations(call *host.Call) *toolOperations {
	return &toolOperations{binding: b, call: call, artifacts: artifactio.Of(call)}
}

func (o *toolOperations) operate(ctx context.Context, op string, req []byte) ([]byte, error) {
	switch op {
	case "emit":
		return o.emit(ctx, req)
	case "artifact.write":
		return o.artifacts.Write(ctx, req)
	case "step.begin":
		return o.beginStep(ctx, req)
	case "step.end":
		return o.endStep(ctx, req)
	case "tool.call":
		return o.callTools(ctx, req)
	case "artifact.read":
		return o.artifacts.Read(ctx, req, o.binding.rights().limits.ResponseBytes)
	}
	return baseOperations{binding: o.binding, scope: o.call.Scope, state: o.call.State}.operate(ctx, op, req)
}

func (o *toolOperations) emit(ctx context.Context, req []byte) ([]byte, error) {
	const op = "emit"
	var in struct {
		Kind string
		Data json.RawMessage
	}
	if err := abi.ReadRequest(op, req, &in); err != nil {
		return nil, err
	}
	if in.Kind == "" {
		return nil, host.Errorf(host.InvalidArgument, "request of emit: it needs a kind")
	}
	var err error
	callmeter.WhileBlocked(ctx, func(context.Context) { err = o.call.Emit(in.Kind, in.Data) })
	return []byte("{}"), err
}

// viewOperations are those of a processor and of a router. A router without the
// permission to read the conversation has no view.
type viewOperations struct {
	baseOperations
	view    *host.View
	granted bool // the view is a router's, by its permission
}

func (o viewOperations) operate(ctx context.Context, op string, req []byte) ([]byte, error) {
	switch {
	case op != "messages.get" && op != "tokens.count":
		return o.baseOperations.operate(ctx, op, req)
	case o.view == nil, o.granted && !o.binding.rights().granted.Messages:
		return nil, o.binding.denied("messages", "read the conversation")
	}
	if o.granted {
		o.binding.usage.note(func(p *Permissions) { p.Messages = true })
	}
	if op == "messages.get" {
		return o.getMessages(req)
	}
	return o.countTokens(ctx, req)
}

func (o viewOperations) getMessages(req []byte) ([]byte, error) {
	var in struct{ Indices []int }
	if err := abi.ReadRequest("messages.get", req, &in); err != nil {
		return nil, err
	}
	limit := o.binding.rights().limits.ResponseBytes
	size := 0
	for _, i := range in.Indices { // messages beyond the limit are not even written
		if i < 0 || i >= len(o.view.Messages) {
			return nil, host.Errorf(host.InvalidArgument, "there is no message %d of %d", i, len(o.view.Messages))
		}
		n, _ := o.view.Messages[i].Size()
		if size += n; size > limit {
			return nil, tooManyMessages(limit)
		}
	}
	b := append(make([]byte, 0, size+abi.EnvelopeSize), `{"messages":[`...)
	for n, i := range in.Indices {
		if n > 0 {
			b = append(b, ',')
		}
		if b = o.view.Messages[i].AppendJSON(b); len(b) > limit {
			return nil, tooManyMessages(limit)
		}
	}
	return append(b, "]}"...), nil
}

func tooManyMessages(limit int) error {
	return host.Errorf(host.ResourceExhausted, "the messages are more than the limit ResponseBytes of %d", limit).
		WithHint("ask for fewer at once")
}

// countedBetweenYields is how much text is counted between two yields.
const countedBetweenYields = 16 << 10

// countTokens counts long texts, and many of them, and yields between pieces.
func (o viewOperations) countTokens(ctx context.Context, req []byte) ([]byte, error) {
	var in struct {
		Texts    []string
		Encoding string
	}
	if err := abi.ReadRequest("tokens.count", req, &in); err != nil {
		return nil, err
	}
	encoding, exact := o.view.Encoding()
	if in.Encoding != "" {
		encoding, exact = in.Encoding, true
	}
	b := append(make([]byte, 0, abi.EnvelopeSize), `{"tokens":[`...)
	unseen := 0
	for i, text := range in.Texts {
		if unseen += len(text); unseen >= countedBetweenYields {
			unseen = 0
			if err := callmeter.Yield(ctx); err != nil {
				return nil, err
			}
		}
		n, err := o.view.CountTokens(ctx, encoding, []byte(text))
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(n), 10)
	}
	b = append(b, `],"encoding":`...)
	b = chat.AppendJSONString(b, encoding)
	b = append(b, `,"exact":`...)
	return append(strconv.AppendBool(b, exact), '}'), nil
}
