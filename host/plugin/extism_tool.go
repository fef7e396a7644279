package plugin

import (
	"context"
	"encoding/json"
	"slices"
	"unicode/utf8"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
	"github.com/agenthost/agenthost/host/plugin/internal/guestmodule"
	"github.com/agenthost/agenthost/host/plugin/internal/refusal"
)

// Extism plugins that know nothing of this host. Each of their functions takes
// bytes and gives bytes, and is called as a tool.

// plainDescription begins the description of a function that has none of its own.
const plainDescription = "The Extism function "

// ExtismTool returns a tool that calls a function of an Extism plugin, whether
// or not the plugin knows of this host. If spec has Parameters, the function gets
// the arguments as JSON; if not, the tool takes one text as "input", and the
// function gets that text. Its output is the content: JSON unchanged, other text
// as a string. An empty name is the function's own. Code
// not_found if there is no such function, failed_precondition if the plugin is
// not an Extism one.
func (p *Plugin) ExtismTool(function string, spec llm.ToolSpec) (*host.Tool, error) {
	if p.module.extism == nil {
		return nil, host.Errorf(host.FailedPrecondition, "plugin %q is not an Extism plugin", p.id).WithHint("use Tool")
	}
	if !slices.Contains(p.module.extism.exports, function) {
		return nil, notOffered(p.id, "function", function, p.module.extism.exports)
	}
	if spec.Name == "" {
		spec.Name = function
	}
	return p.newTool(&ToolInfo{Name: spec.Name, Description: spec.Description, Parameters: spec.Parameters, Export: function}, "", nil)
}

// ExtismFunctions returns the names of the functions that an Extism plugin
// exports beside those of pdk/ABI.md; none for another plugin. [Plugin.Call]
// takes them.
func (p *Plugin) ExtismFunctions() []string { return slices.Clone(p.module.plainExports()) }

// plainHandler returns what runs a tool that is a function of its own.
func (p *Plugin) plainHandler(info *ToolInfo, result *host.Schema) (host.ToolHandler, error) {
	e, ok := p.module.exportOf(info.Export)
	if !ok {
		return nil, notOffered(p.id, "function", info.Export, p.module.plainExports())
	}
	return func(ctx context.Context, call *host.Call) (*host.ToolOutput, error) {
		out := &host.ToolOutput{}
		var err error
		out.Cost, err = p.call(ctx, call.Scope.Tenant, e, plainInput(info, call.Arguments), p.bindings.of(call.Scope.Tenant).toolOperations(call),
			func(ctx context.Context, raw []byte) (err error) {
				if out.Content, err = plainContent(p.id, p.module.exportName(e), raw); err == nil && result != nil {
					err = p.answers.CheckResult(ctx, result, out.Content)
				}
				return err
			})
		return out, err
	}, nil
}

// plainInput is what a function gets: its text, or the arguments.
func plainInput(info *ToolInfo, arguments json.RawMessage) []byte {
	if len(info.Parameters) > 0 {
		return arguments
	}
	var in struct{ Input string }
	_ = json.Unmarshal(arguments, &in) // they fit the schema of a tool that takes one text
	return []byte(in.Input)
}

func plainContent(plugin, function string, raw []byte) (json.RawMessage, error) {
	switch {
	case json.Valid(raw) && utf8.Valid(raw):
		return raw, nil
	case utf8.Valid(raw):
		return chat.AppendJSONString(nil, string(raw)), nil
	}
	return nil, host.Errorf(host.Internal, "plugin %q: the output of %s is %d bytes that are not text", plugin, function, len(raw)).
		WithHint("a model reads text; have the function answer with UTF-8")
}

// asks is what a plugin without a manifest is said to ask for.
func (o *ExtismOptions) asks(granted Permissions) Permissions {
	if o.Asks != nil {
		return Permissions{HTTP: o.Asks}
	}
	return Permissions{HTTP: granted.HTTP}
}

// plainManifest describes an Extism plugin that does not describe itself.
func (x *extismPlugin) plainManifest(id string) (*Manifest, error) {
	x.silent = true
	m := &Manifest{ABI: abi.Version, Name: id, Tools: x.Tools,
		Description: "An Extism plugin.", Permissions: x.asks}
	if len(m.Tools) == 0 {
		for _, name := range x.exports {
			if guestmodule.IsTool(name) {
				m.Tools = append(m.Tools, ToolInfo{Name: name, Description: plainDescription + name + ".", Export: name})
			}
		}
	}
	switch {
	case len(m.Tools) > 0:
	case slices.Contains(x.exports, guestmodule.CommandExport):
		return nil, refusal.Unsupported("it is a command: its only function is %s, which ends the instance that it runs in", guestmodule.CommandExport).
			WithHint("name it as a tool, with Export %s in ExtismOptions.Tools or under functions in agenthost.yaml, if each call may start it again; or export a function", guestmodule.CommandExport)
	default:
		return nil, refusal.Unsupported("it exports no function that a host could call").WithHint("export one without parameters")
	}
	return m, m.Complete()
}
