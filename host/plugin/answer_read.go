package plugin

import (
	"context"

	"github.com/agenthost/agenthost/host/internal/jsondoc"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
)

// answerReader turns an export's output into the result for the plugin's caller. Its
// context ends with the call; callmeter.Yield(ctx) lets others run between two pieces.
type answerReader func(ctx context.Context, output []byte) error

// The prices of reading an answer, in instructions. Reading is a part of the call:
// its budget pays before the first byte is looked at, and its deadline ends it.
const (
	// answerBytePrice is for each byte: it is validated, and skipped or copied.
	answerBytePrice = 4
	// answerSignPrice is for each sign that stands between values.
	answerSignPrice = 32
)

func answerPrice(output []byte, signs int) int64 {
	return int64(len(output))*answerBytePrice + int64(signs)*answerSignPrice
}

// readAnswer has the caller's reader read the output, or reads the error that it is.
// No guest code runs any more; the call still holds its quantum, and yields as an
// operation does.
func (inst *instance) readAnswer(r *callRequest, output []byte, guestErr bool) error {
	if err := inst.meter.ChargeReturned(answerPrice(output, jsondoc.CountSigns(output))); err != nil {
		return err
	}
	if !inst.meter.YieldAfter(0) {
		return inst.meter.LateError()
	}
	o, cancel := inst.meter.BeginOperation()
	defer cancel()
	var err error
	if guestErr {
		r.failed = abi.NewGuestError(inst.plugin.id, inst.meter.Export(), output)
	} else {
		err = r.read(o, output)
	}
	if late := o.End(); late != nil {
		return late
	}
	return err
}

// CheckAnswer returns an error of code internal if an export's answer breaks the rules
// of pdk/ABI.md, with the same checks as a run; nil if it is right. A well-formed error
// object is an answer. name and input are those of the [Plugin.Call] that returned r.
// CheckAnswer does not look at the subjects of the answer (agents that a router names,
// a state that a tool changes, messages that are edited). Code invalid_argument for a
// name that is no export.
func (p *Plugin) CheckAnswer(name string, input []byte, r *CallResult) error {
	e, err := p.module.exportNamed(name)
	if err != nil {
		return err
	}
	var asked struct{ Tool, Processor, Router, Provider string }
	_ = jsondoc.Unmarshal(input, &asked) // a call may be one that no host makes
	switch {
	case r.GuestError:
		_, err = abi.ReadError(p.id, p.module.exportName(e), r.Output)
	case e == abi.Tool:
		_, err = p.answers.Tool(context.Background(), r.Output, p.schemas.Tool(asked.Tool).Result)
	case e == abi.Process:
		_, err = p.answers.Process(context.Background(), asked.Processor, r.Output)
	case e == abi.Route:
		_, err = p.answers.Route(context.Background(), asked.Router, r.Output)
	case e == abi.Provide:
		_, _, err = p.answers.Provide(context.Background(), asked.Provider, r.Output)
	case e == abi.Observe:
		err = p.answers.Observe(context.Background(), r.Output)
	case e == abi.Describe:
		_, err = abi.ReadManifest(r.Output)
	default: // a function of an Extism plugin
		_, err = plainContent(p.id, p.module.exportName(e), r.Output)
	}
	return err
}
