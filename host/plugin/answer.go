package plugin

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
	"github.com/agenthost/agenthost/host/plugin/internal/strictjson"
)

// The answers of exports, read by the rules of pdk/ABI.md.

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
	_ = strictjson.Unmarshal(input, &asked) // a call may be one that no host makes
	switch {
	case r.GuestError:
		_, err = readGuestError(p.id, p.module.exportName(e), r.Output)
	case e == exportTool:
		_, err = p.answers.readToolAnswer(context.Background(), r.Output, p.schemas.Tool(asked.Tool).Result)
	case e == exportProcess:
		_, err = p.answers.readProcessed(context.Background(), asked.Processor, r.Output)
	case e == exportRoute:
		_, err = p.answers.readRoute(context.Background(), asked.Router, r.Output)
	case e == exportProvide:
		_, err = p.answers.readProvided(context.Background(), asked.Provider, r.Output)
	case e == exportObserve:
		err = p.answers.decode(context.Background(), e, r.Output, &struct{}{})
	case e == exportDescribe:
		_, err = abi.ReadManifest(r.Output)
	default: // a function of an Extism plugin
		_, err = plainContent(p.id, p.module.exportName(e), r.Output)
	}
	return err
}

// answers reads the outputs of a plugin's exports. An output that breaks the ABI is an
// error of code internal that names the plugin.
type answers struct{ plugin string }

func (a answers) readToolAnswer(ctx context.Context, raw []byte, result *host.Schema) (*host.ToolOutput, error) {
	var got toolOutput
	if err := a.decode(ctx, exportTool, raw, &got); err != nil {
		return nil, err
	}
	artifacts, err := a.readArtifacts(ctx, got.Artifacts)
	if err != nil {
		return nil, err
	}
	if got.Interrupt == nil && result != nil {
		if err := a.checkResult(ctx, result, orNull(got.Content)); err != nil {
			return nil, err
		}
	}
	return &host.ToolOutput{Content: got.Content, State: got.State, Artifacts: artifacts, Schedule: got.Schedule, Interrupt: got.Interrupt}, nil
}

// checkResult holds a tool's content to the schema that its manifest gives, for as
// long as the call may take.
func (a answers) checkResult(ctx context.Context, result *host.Schema, content json.RawMessage) error {
	if err := result.ValidateContext(ctx, content); err != nil {
		return host.Errorf(host.Internal, "plugin %q: a result does not fit its schema: %w", a.plugin, err)
	}
	return nil
}

// readArtifacts reads the artifacts of a tool's answer.
func (a answers) readArtifacts(ctx context.Context, raw json.RawMessage) (list []host.Artifact, err error) {
	if !isSet(raw) {
		return nil, nil
	}
	if err := a.decodable(exportTool, "artifacts", raw); err != nil {
		return nil, err
	}
	if err := strictjson.UnmarshalValid(ctx, raw, &list); err != nil {
		return nil, a.broken(exportTool, fmt.Errorf("artifacts: %w", err))
	}
	return list, nil
}

func (a answers) readProcessed(ctx context.Context, name string, raw []byte) (*host.Processed, error) {
	var got struct {
		Messages json.RawMessage `json:"messages"`
		Edits    json.RawMessage `json:"edits"`
		Report   json.RawMessage `json:"report"`
	}
	if err := a.decode(ctx, exportProcess, raw, &got); err != nil {
		return nil, err
	}
	var err error
	done := &host.Processed{Report: got.Report}
	if isSet(got.Messages) {
		done.Messages, err = a.readMessages(ctx, exportProcess, "processor", name, got.Messages)
		if done.Messages == nil {
			done.Messages = []*host.Message{}
		}
	}
	if isSet(got.Messages) && isSet(got.Edits) {
		return nil, host.Errorf(host.Internal, "plugin %q: processor %q returned both messages and edits", a.plugin, name).
			WithHint("the plugin is broken; see pdk/ABI.md")
	}
	if err == nil && isSet(got.Edits) {
		done.Edits, err = a.readEdits(ctx, name, got.Edits)
	}
	return done, err
}

// readMessages reads the messages of an answer of a part: a kind and a name.
func (a answers) readMessages(ctx context.Context, e export, kind, name string, raw json.RawMessage) (all []*host.Message, err error) {
	err = a.inPieces(ctx, e, "messages", raw, maxAnswerMessages, func(piece []byte) error {
		list, err := host.DecodeMessages(piece)
		all = append(all, list...)
		return a.partError(kind, name, err)
	})
	return all, err
}

// readEdits reads the edits of a processor's answer.
func (a answers) readEdits(ctx context.Context, name string, raw json.RawMessage) (all []host.Edit, err error) {
	err = a.inPieces(ctx, exportProcess, "edits", raw, maxAnswerEdits, func(piece []byte) error {
		list, err := host.DecodeEdits(piece)
		all = append(all, list...)
		return a.partError("processor", name, err)
	})
	return all, err
}

// partError names the part in the error of its answer.
func (a answers) partError(kind, name string, err error) error {
	if err == nil {
		return nil
	}
	return host.Errorf(host.Internal, "plugin %q: the output of %s %q: %w", a.plugin, kind, name, err)
}

func isSet(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

func (a answers) readRoute(ctx context.Context, name string, raw []byte) (*host.Route, error) {
	var got struct {
		Next     []string `json:"next"`
		Delegate string   `json:"delegate"`
		Reason   string   `json:"reason"`
	}
	if err := a.decode(ctx, exportRoute, raw, &got); err != nil {
		return nil, err
	}
	if got.Delegate != "" && len(got.Next) > 0 {
		return nil, host.Errorf(host.Internal, "plugin %q: router %q both names agents and delegates", a.plugin, name)
	}
	return &host.Route{Next: got.Next, Delegate: got.Delegate, Reason: clean(got.Reason)}, nil
}

// provided is a provider's answer, its tools by their names.
type provided struct {
	host.Provided
	tools []string
}

func (a answers) readProvided(ctx context.Context, name string, raw []byte) (*provided, error) {
	var got struct {
		Instructions string          `json:"instructions"`
		Messages     json.RawMessage `json:"messages"`
		Store        bool            `json:"store"`
		Tools        []string        `json:"tools"`
	}
	if err := a.decode(ctx, exportProvide, raw, &got); err != nil {
		return nil, err
	}
	if err := a.checkOffered(name, got.Tools); err != nil {
		return nil, err
	}
	out := &provided{host.Provided{Instructions: got.Instructions, Store: got.Store}, got.Tools}
	if isSet(got.Messages) {
		var err error
		if out.Messages, err = a.readMessages(ctx, exportProvide, "provider", name, got.Messages); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// checkOffered refuses the names of tools that a provider has given twice: a model
// could not tell them apart, and each would be made for nothing.
func (a answers) checkOffered(name string, tools []string) error {
	if err := a.atMost(exportProvide, "tools", len(tools), maxAnswerTools); err != nil {
		return err
	}
	seen := make(map[string]bool, len(tools))
	for _, tool := range tools {
		if seen[tool] {
			return host.Errorf(host.Internal, "plugin %q: provider %q offers the tool %q twice", a.plugin, name, clean(tool)).
				WithHint("the plugin is broken: it must name each tool once; see pdk/ABI.md")
		}
		seen[tool] = true
	}
	return nil
}
