package host

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/internal/redact"
	"github.com/agenthost/agenthost/host/internal/schema"
	"github.com/agenthost/agenthost/host/internal/toolfault"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runevent"
)

// SchemaOf returns the schema of a Go type's JSON, for [AgentOptions].Output.
// An optional member (a pointer, omitempty) is required and nullable in the model's
// schema, and tags say more of a member, as for [NewTool]. Slices and maps that are
// nil may be null, which is how Go writes them. Code invalid_argument for a type
// that JSON cannot hold.
func SchemaOf[T any]() (*Schema, error) {
	told, checked, err := schema.InferDocument(reflect.TypeFor[T]())
	if err != nil {
		return nil, Errorf(InvalidArgument, "schema of %s: %w", reflect.TypeFor[T](), err)
	}
	s, err := CompileSchema(checked)
	if err != nil {
		return nil, err
	}
	s.told, s.strict = told, true
	return s, nil
}

// outputSpec describes the wanted output to the agent's model.
func (a *Agent) outputSpec() *llm.OutputSpec {
	s := a.opts.Output
	if s == nil {
		return nil
	}
	return &llm.OutputSpec{Name: outputName(a.name), Schema: s.told, Strict: s.strict}
}

// outputName makes a name that every provider takes.
func outputName(agent string) string {
	fit := func(r rune) rune {
		if r < 0x80 && toolfault.CheckName(string(r)) == nil {
			return r
		}
		return '_'
	}
	name := strings.Map(fit, agent)
	return name[:min(len(name), toolfault.MaxName)]
}

// readOutput returns the JSON that an answer is, bare or in a fence as models
// like to put it.
func (s *Schema) readOutput(text string) (json.RawMessage, error) {
	raw := bytes.TrimSpace([]byte(text))
	if inner, fenced := bytes.CutPrefix(raw, []byte("```")); fenced {
		if inner, fenced = bytes.CutSuffix(inner, []byte("```")); fenced {
			raw = bytes.TrimSpace(bytes.TrimPrefix(inner, []byte("json")))
		}
	}
	if len(raw) == 0 {
		return nil, Errorf(InvalidArgument, "the answer is empty")
	}
	return raw, s.Validate(raw)
}

// takeOutput reads the agent's output from its last answer. One that does not fit
// goes back to the model once, with its fault: the better answer takes its place,
// and the exchange about it is not kept.
func (t *turn) takeOutput(ctx context.Context, req *llm.Request, resp *llm.Response) error {
	s := t.client.outputOr(t.agent.opts.Output)
	if s == nil || resp.FinishReason == chat.FinishPaused || len((&Message{Parts: resp.Parts}).ToolCalls()) > 0 {
		return nil
	}
	out, err := s.readOutput((&Message{Parts: resp.Parts}).Text())
	if err == nil {
		t.result.Output = out
		return nil
	}
	t.run.events.Emit(&runevent.ModelRetried{Attempt: 1, Code: CodeOf(err), Reason: err.Error()})
	better, err := t.repairOutput(ctx, req, resp, err)
	if err != nil {
		return err
	}
	*resp = *better
	if out, err = s.readOutput((&Message{Parts: resp.Parts}).Text()); err != nil {
		t.misfit = Errorf(Unavailable, "agent %q: the answer of model %q does not fit its output, in two attempts: %w", t.agent.name, t.model.Name(), err).
			WithHint("simplify the schema, or use a model that keeps to it")
		return nil
	}
	t.result.Output = out
	return nil
}

// repairOutput tells the model the fault of its answer and asks again.
func (t *turn) repairOutput(ctx context.Context, req *llm.Request, resp *llm.Response, fault error) (*llm.Response, error) {
	if err := t.run.ledger.CheckLeft(); err != nil {
		return nil, err
	}
	again := *req
	wrong := UserText("That is not the JSON that was asked for: " + redact.Cut(fault.Error()) +
		". Answer again, with nothing but JSON of this schema: " + string(t.client.outputOr(t.agent.opts.Output).told))
	if again.Conversation = t.run.service.id; again.Conversation != "" { // the service has the rest
		again.Messages = withInstructions(t.prompt.text(), []*Message{wrong})
	} else {
		again.Messages = append(req.Messages[:len(req.Messages):len(req.Messages)], AssistantText((&Message{Parts: resp.Parts}).Text()), wrong)
	}
	again.Tools, again.ProviderTools, again.ToolChoice = nil, nil, ""
	t.result.Rounds++
	better, err := t.run.asks.Generate(ctx, t.model, &again, t.result.Rounds, true)
	if err != nil {
		return nil, wrapError(err, "agent %q: model %q", t.agent.name, t.model.Name())
	}
	t.result.Usage = t.result.Usage.Add(better.Usage)
	if err := t.noteConversation(ctx, better); err != nil {
		return nil, err
	}
	if err := t.hookResponse(ctx, better); err != nil {
		return nil, err
	}
	better.Parts = slices.DeleteFunc(better.Parts, func(p Part) bool { // none was offered
		_, isCall := p.(*ToolCall)
		return isCall
	})
	return better, nil
}
