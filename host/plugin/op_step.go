package plugin

import (
	"context"
	"encoding/json"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
	"github.com/agenthost/agenthost/host/plugin/internal/callmeter"
)

// beginStep tells a tool what a step returned when it was done, or has it do the
// step now.
func (o *toolOperations) beginStep(ctx context.Context, req []byte) ([]byte, error) {
	var in struct {
		Name       string
		Idempotent bool
	}
	if err := abi.ReadRequest("step.begin", req, &in); err != nil {
		return nil, err
	}
	var result json.RawMessage
	var done bool
	var err error
	callmeter.WhileBlocked(ctx, func(ctx context.Context) {
		result, done, err = o.call.BeginStep(ctx, in.Name, &host.StepOptions{Idempotent: in.Idempotent})
	})
	if err != nil {
		return nil, err
	}
	if !done {
		return []byte(`{"done":false}`), nil
	}
	out := abi.NewObject(len(result) + abi.EnvelopeSize)
	out.Raw("done", json.RawMessage("true"))
	out.Raw("result", result)
	return out.End(), nil
}

// endStep keeps what a step returned.
func (o *toolOperations) endStep(ctx context.Context, req []byte) ([]byte, error) {
	var in struct {
		Name   string
		Result json.RawMessage
	}
	if err := abi.ReadRequest("step.end", req, &in); err != nil {
		return nil, err
	}
	if len(in.Result) == 0 {
		return nil, host.Errorf(host.InvalidArgument, "request of step.end: it has no result").WithHint("null is one")
	}
	var err error
	callmeter.WhileBlocked(ctx, func(ctx context.Context) { err = o.call.EndStep(ctx, in.Name, in.Result) })
	return []byte("{}"), err
}
