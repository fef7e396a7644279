package plugin

import (
	"context"
	"encoding/json"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/instrument"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
	"github.com/agenthost/agenthost/host/plugin/internal/callmeter"
	"github.com/agenthost/agenthost/host/usage"
)

// Models chooses the model that answers a plugin. It is safe for concurrent use.
type Models interface {
	// Model returns the model that a tenant's plugins may ask by a name; "" is the
	// one that plugins are given when they name none, nil for the model of the
	// agent at work. Code not_found for a name that the tenant does not have.
	Model(ctx context.Context, tenant, name string) (host.Model, error)
}

// defaultMaxTokens bounds an answer for which the plugin sets no bound, and
// maxMaxTokens one for which it does.
const (
	defaultMaxTokens = 4096
	maxMaxTokens     = 65_536
)

// generateRequest is the request of model.generate.
type generateRequest struct {
	Messages     json.RawMessage
	Instructions string
	Model        string
	MaxTokens    int `json:"max_tokens"`
	Schema       json.RawMessage
}

func (b *binding) generate(ctx context.Context, scope host.Scope, req []byte) ([]byte, error) {
	if !b.rights().granted.Model {
		return nil, b.denied("model", "ask a model")
	}
	b.usage.note(func(p *Permissions) { p.Model = true })
	in, question, err := readGenerate(req)
	if err != nil {
		return nil, err
	}
	question.Scope = scope
	var model host.Model
	callmeter.WhileBlocked(ctx, func(ctx context.Context) { model, err = b.model(ctx, in.Model) })
	if err != nil {
		return nil, err
	}
	// The request is charged to the budget at once, by its size, and corrected by the
	// usage that the model reports.
	estimate := int64(len(req)/4 + question.MaxOutputTokens)
	pays := b.payer(ctx)
	if err := pays.Priced(model.Name()); err != nil {
		return nil, err
	}
	if err := pays.Check(usage.Money, time.Now()); err != nil {
		return nil, err
	}
	if err := pays.Reserve(usage.ModelTokens, estimate); err != nil {
		return nil, err
	}
	var resp *llm.Response
	said := 0
	callmeter.WhileBlocked(ctx, func(ctx context.Context) {
		resp, said, err = wholeAnswer(ctx, model, question, b.rights().limits.ResponseBytes)
	})
	if err != nil { // the text received until then is paid for
		got := host.Usage{InputTokens: len(req) / 4, OutputTokens: (said + 3) / 4, Estimated: true}
		pays.settleModel(model.Name(), got, min(int64(got.Total())-estimate, 0))
		return nil, modelError(err)
	}
	used := resp.Usage
	if used.Total() == 0 {
		used = host.Usage{InputTokens: len(req) / 4, OutputTokens: len(host.NewMessage(host.Assistant, resp.Parts...).AppendJSON(nil)) / 4, Estimated: true}
	}
	pays.settleModel(model.Name(), used, int64(used.Total())-estimate)
	return generateResponse(resp, used), nil
}

// settleModel counts a call of a model, and the tokens that differ from those reserved.
// The next call learns if that was too much.
func (p *payer) settleModel(model string, used host.Usage, tokens int64) {
	_ = p.ChargeModel(model, used)
	_ = p.Charge(usage.ModelTokens, tokens, time.Now())
}

func readGenerate(req []byte) (*generateRequest, *llm.Request, error) {
	in := &generateRequest{}
	if err := abi.ReadRequest("model.generate", req, in); err != nil {
		return nil, nil, err
	}
	if abi.IsSet(in.Schema) {
		return nil, nil, host.Errorf(host.Unimplemented, "request of model.generate: this host holds no answer to a schema").
			WithHint("ask for JSON in words and check it")
	}
	messages, err := chat.DecodeMessages(in.Messages)
	if err != nil || len(messages) == 0 {
		return nil, nil, host.Errorf(host.InvalidArgument, "request of model.generate: it needs messages: %v", err)
	}
	for _, m := range messages {
		if len(m.ToolCalls())+len(m.ToolResults()) > 0 || m.Role == host.ToolRole {
			return nil, nil, host.Errorf(host.InvalidArgument, "request of model.generate: its messages hold tool calls or results").
				WithHint("put what they say into text")
		}
	}
	if in.MaxTokens < 0 || in.MaxTokens > maxMaxTokens {
		return nil, nil, host.Errorf(host.InvalidArgument, "request of model.generate: max_tokens is %d, not up to %d", in.MaxTokens, maxMaxTokens)
	}
	out := &llm.Request{Whole: true, MaxOutputTokens: in.MaxTokens, ToolChoice: host.ToolChoiceNone}
	if in.MaxTokens == 0 {
		out.MaxOutputTokens = defaultMaxTokens
	}
	if in.Instructions != "" {
		out.Messages = append(out.Messages, host.NewMessage(host.System, &host.Text{Text: in.Instructions}))
	}
	out.Messages = append(out.Messages, messages...)
	return in, out, nil
}

// model finds whom to ask: by name, or the model of the agent at work.
func (b *binding) model(ctx context.Context, name string) (host.Model, error) {
	if models := b.plugin.runtime.opts.Models; models != nil {
		m, err := models.Model(ctx, b.account.id, name)
		if err != nil {
			return nil, host.Errorf(host.CodeOf(err), "there is no model %q", clean(name))
		}
		if m != nil {
			return m, nil
		}
	}
	m := host.ModelOf(ctx)
	switch {
	case name != "" && (m == nil || m.Name() != name):
		return nil, host.Errorf(host.NotFound, "there is no model %q", clean(name)).WithHint("leave the name out for the agent's own")
	case m == nil:
		return nil, host.Errorf(host.FailedPrecondition, "model.generate has no model to ask in this call")
	}
	return m, nil
}

// wholeAnswer asks the model and waits for the whole answer. said is how many
// bytes of it have come, with an error too.
func wholeAnswer(ctx context.Context, m host.Model, req *llm.Request, max int) (resp *llm.Response, said int, err error) {
	for chunk, err := range instrument.Generate(ctx, m, req, instrument.ForPlugin) {
		switch {
		case err != nil:
			return nil, said, err
		case chunk.Response != nil:
			return chunk.Response, said, nil
		}
		if said += len(chunk.Text) + len(chunk.Reasoning); said > max {
			return nil, said, host.Errorf(host.ResourceExhausted, "the model's answer is more than the limit ResponseBytes of %d", max)
		}
	}
	return nil, said, host.Errorf(host.Unavailable, "the model ended without an answer")
}

// modelError returns a model's error for the guest: the upstream's words could hold
// the operator's data.
func modelError(err error) error {
	e := fault.AsError(err)
	switch e.Code {
	case host.Canceled, host.DeadlineExceeded, host.ResourceExhausted:
	case host.InvalidArgument:
		return host.Errorf(host.InvalidArgument, "the model does not take the request")
	default:
		return &host.Error{Code: host.Unavailable, Message: "the model does not answer", Retryable: true, Err: err}
	}
	return &host.Error{Code: e.Code, Message: "the model was asked in vain: " + string(e.Code), Retryable: e.Retryable, Err: err}
}

func generateResponse(resp *llm.Response, used host.Usage) []byte {
	out := abi.NewObject(abi.EnvelopeSize)
	m := host.NewMessage(host.Assistant, resp.Parts...)
	out.Message("message", m)
	out.Key("usage")
	out.B = append(out.B, '{')
	out.Int("input_tokens", int64(used.InputTokens))
	out.Int("output_tokens", int64(used.OutputTokens))
	out.B = append(out.B, '}')
	out.Text("finish_reason", string(resp.FinishReason))
	return out.End()
}
