package plugin

import (
	"encoding/json"

	"github.com/agenthost/agenthost/host"
)

// What exports answer, read as pdk/ABI.md has it.

// CheckAnswer says why what an export answered is not what pdk/ABI.md says of it,
// just as a run would find it: code internal; nil if nothing is wrong. An error
// object that is one is an answer. name and input are those of the [Plugin.Call]
// that r came from; what the answer is about (agents that a router names, a state
// that a tool changes, messages that are edited) is not looked at. Code
// invalid_argument for a name that is no export.
func (p *Plugin) CheckAnswer(name string, input []byte, r *CallResult) error {
	e, err := p.exportNamed(name)
	if err != nil {
		return err
	}
	var asked struct{ Tool, Processor, Router, Provider string }
	_ = readJSON(input, &asked) // a call may be one that no host makes
	switch {
	case r.GuestError:
		_, err = readGuestError(p.id, p.exportName(e), r.Output)
	case e == exportTool:
		err = p.checkToolAnswer(asked.Tool, r.Output)
	case e == exportProcess:
		_, err = p.readProcessed(asked.Processor, r.Output)
	case e == exportRoute:
		_, err = p.readRoute(asked.Router, r.Output)
	case e == exportProvide:
		_, err = p.readProvided(asked.Provider, r.Output)
	case e == exportObserve:
		err = p.decode(e, r.Output, &struct{}{})
	case e == exportDescribe:
		_, err = readManifest(r.Output)
	default: // a function of an Extism plugin
		_, err = p.plainContent(e, r.Output)
	}
	return err
}

// checkToolAnswer holds an answer to the result schema of the tool, if there is
// one of that name.
func (p *Plugin) checkToolAnswer(tool string, raw []byte) (err error) {
	var result *host.Schema
	if info := p.manifest.tool(tool); info != nil {
		if result, err = p.resultSchema(info); err != nil {
			return err
		}
	}
	_, err = p.readToolAnswer(raw, result)
	return err
}

// resultSchema is what a tool's content must fit; nil is anything.
func (p *Plugin) resultSchema(info *ToolInfo) (*host.Schema, error) {
	if len(info.Result) == 0 {
		return nil, nil
	}
	s, err := host.CompileSchema(info.Result)
	if err != nil {
		return nil, host.Errorf(host.InvalidArgument, "plugin %q: result of tool %q: %w", p.id, info.Name, err)
	}
	return s, nil
}

func (p *Plugin) readToolAnswer(raw []byte, result *host.Schema) (*toolOutput, error) {
	var got toolOutput
	if err := p.decode(exportTool, raw, &got); err != nil {
		return nil, err
	}
	if got.Interrupt == nil && result != nil {
		if err := result.Validate(orNull(got.Content)); err != nil {
			return nil, host.Errorf(host.Internal, "plugin %q: a result does not fit its schema: %w", p.id, err)
		}
	}
	return &got, nil
}

func (p *Plugin) readProcessed(name string, raw []byte) (*host.Processed, error) {
	var got struct {
		Messages json.RawMessage `json:"messages"`
		Edits    json.RawMessage `json:"edits"`
		Report   json.RawMessage `json:"report"`
	}
	if err := p.decode(exportProcess, raw, &got); err != nil {
		return nil, err
	}
	var err error
	done := &host.Processed{Report: got.Report}
	if isSet(got.Messages) {
		done.Messages, err = host.DecodeMessages(got.Messages)
		if done.Messages == nil {
			done.Messages = []*host.Message{}
		}
	}
	if isSet(got.Messages) && isSet(got.Edits) {
		return nil, host.Errorf(host.Internal, "plugin %q: processor %q returned both messages and edits", p.id, name).
			WithHint("the plugin is broken; see pdk/ABI.md")
	}
	if err == nil && isSet(got.Edits) {
		done.Edits, err = host.DecodeEdits(got.Edits)
	}
	if err != nil {
		return nil, host.Errorf(host.Internal, "plugin %q: the output of processor %q: %w", p.id, name, err)
	}
	return done, nil
}

func isSet(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

func (p *Plugin) readRoute(name string, raw []byte) (*host.Route, error) {
	var got struct {
		Next     []string `json:"next"`
		Delegate string   `json:"delegate"`
		Reason   string   `json:"reason"`
	}
	if err := p.decode(exportRoute, raw, &got); err != nil {
		return nil, err
	}
	if got.Delegate != "" && len(got.Next) > 0 {
		return nil, host.Errorf(host.Internal, "plugin %q: router %q both names agents and delegates", p.id, name)
	}
	return &host.Route{Next: got.Next, Delegate: got.Delegate, Reason: clean(got.Reason)}, nil
}

// provided is what a provider answers, its tools by their names.
type provided struct {
	host.Provided
	tools []string
}

func (p *Plugin) readProvided(name string, raw []byte) (*provided, error) {
	var got struct {
		Instructions string          `json:"instructions"`
		Messages     json.RawMessage `json:"messages"`
		Store        bool            `json:"store"`
		Tools        []string        `json:"tools"`
	}
	if err := p.decode(exportProvide, raw, &got); err != nil {
		return nil, err
	}
	out := &provided{host.Provided{Instructions: got.Instructions, Store: got.Store}, got.Tools}
	if isSet(got.Messages) {
		var err error
		if out.Messages, err = host.DecodeMessages(got.Messages); err != nil {
			return nil, host.Errorf(host.Internal, "plugin %q: the output of provider %q: %w", p.id, name, err)
		}
	}
	return out, nil
}
