package plugin

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/nested"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
	"github.com/agenthost/agenthost/host/plugin/internal/callmeter"
)

// callTools calls tools of the agent at work. Meanwhile the call has no place among those
// of its tenant: the tools may be the plugin's own, or another's that calls this one's.
func (o *toolOperations) callTools(ctx context.Context, req []byte) ([]byte, error) {
	var in struct {
		Calls []struct {
			Name      string
			Arguments json.RawMessage
		}
	}
	if err := abi.ReadRequest("tool.call", req, &in); err != nil {
		return nil, err
	}
	if len(in.Calls) == 0 {
		return nil, host.Errorf(host.InvalidArgument, "request of tool.call: it has no calls")
	}
	calls := make([]nested.Call, len(in.Calls))
	for i, c := range in.Calls {
		if c.Name == "" {
			return nil, host.Errorf(host.InvalidArgument, "request of tool.call: call %d names no tool", i)
		}
		if i == 0 || c.Name != in.Calls[i-1].Name {
			if err := o.mayCall(c.Name); err != nil {
				return nil, err
			}
		}
		calls[i] = nested.Call{Name: c.Name, Arguments: c.Arguments}
	}
	var answers []nested.Answer
	var err error
	callmeter.WhileCalling(ctx, func(ctx context.Context) {
		within, resume := o.binding.plugin.instances.Suspend(ctx, o.binding.account.id)
		defer resume()
		answers, err = o.call.CallTools(within, calls)
	})
	if err != nil {
		return nil, err
	}
	return answersJSON(answers), nil
}

// mayCall fails unless a tool may be called.
func (o *toolOperations) mayCall(name string) error {
	granted := &o.binding.rights().granted
	if !granted.MayCall(name) {
		return o.binding.denied("tools="+name, "call the tool "+clean(name))
	}
	o.binding.usage.note(func(p *Permissions) {
		if !slices.Contains(p.Tools, name) && len(p.Tools) < nested.MaxCalls {
			p.Tools = append(p.Tools, name)
		}
	})
	return nil
}

func answersJSON(answers []nested.Answer) []byte {
	const around = `{"kind":"result","content":},`
	size := abi.EnvelopeSize
	for i := range answers {
		size += len(answers[i].Content) + len(around)
	}
	b := append(make([]byte, 0, size), `{"results":[`...)
	for i := range answers {
		a := &answers[i]
		if i > 0 {
			b = append(b, ',')
		}
		if a.Kind == nested.Result && a.Code == "" && len(a.Content) > 0 && len(a.Media) == 0 { // most are
			b = append(append(append(b, `{"kind":"result","content":`...), a.Content...), '}')
			continue
		}
		out := abi.NewObject(len(a.Content) + abi.EnvelopeSize)
		out.Text("kind", string(a.Kind))
		out.Raw("content", a.Content)
		if a.Kind == nested.Error {
			out.Raw("is_error", json.RawMessage("true"))
		}
		if a.Code != "" {
			out.Text("code", string(a.Code))
		}
		if len(a.Media) > 0 {
			out.Raw("media", mediaJSON(a.Media))
		}
		b = append(b, out.End()...)
	}
	return append(b, "]}"...)
}

func mediaJSON(list []*chat.Media) json.RawMessage {
	raw, err := json.Marshal(list)
	if err != nil {
		return json.RawMessage("[]")
	}
	return raw
}
