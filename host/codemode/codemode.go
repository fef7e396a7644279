package codemode

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/pdk/js"
)

// ToolName is the name of the tool, unless [Options].Name is another.
const ToolName = "run_code"

// PluginID is the id under which a runtime has the engine.
const PluginID = "builtin:code"

// Options are the optional parts of a [Mode]. Zero fields are the defaults.
type Options struct {
	Name string // of the tool; default: ToolName

	// Direct offers the agent's other tools to its model as well. By default their schemas are
	// in no request but as declarations. That is cheaper, and no right less: a model that calls
	// one by its name all the same is answered, like every call held to the tool's approvals
	// and limits. A tool that an agent must not call is none of its tools.
	Direct bool

	// Keep gives code a variable keep, an object of JSON that the next call of one run
	// finds as this one left it, up to KeepBytes. Of calls at the same time each keeps the
	// members that it has changed. It is in the state of the run, under the name of the tool.
	Keep bool

	// The limits of one call. The time of the tools that it calls does not count.
	Timeout      time.Duration // wall time (5 s)
	Instructions int64         // WebAssembly instructions (1,000,000,000)
	MemoryBytes  int64         // of the engine (64 MiB)
	ResultBytes  int           // of what code returns, as JSON (64 KiB)
	ConsoleBytes int           // of what it writes to console; the rest is left out (8 KiB)
	Instances    int           // that run for one tenant at one time; more calls wait (16)

	// DeclarationBytes is how long the declarations of the tools may be in the
	// description (16 KiB). With more, code finds them by search_tools(query).
	DeclarationBytes int
}

// The defaults of [Options], and bounds.
const (
	DefaultTimeout          = plugin.DefaultTimeout
	DefaultInstructions     = plugin.DefaultInstructions
	DefaultMemoryBytes      = plugin.DefaultMemoryBytes
	DefaultResultBytes      = 64 << 10
	DefaultConsoleBytes     = 8 << 10
	DefaultDeclarationBytes = 16 << 10

	// MaxCatalogBytes bounds the declarations that search_tools looks through.
	MaxCatalogBytes = 1 << 20

	// KeepBytes bounds what code keeps in a run.
	KeepBytes = 32 << 10

	// minMemoryBytes is what the engine needs to start.
	minMemoryBytes = 4 << 20
)

func (o *Options) withDefaults() Options {
	var own Options
	if o != nil {
		own = *o
	}
	own.Name = cmp.Or(own.Name, ToolName)
	own.Timeout = cmp.Or(own.Timeout, DefaultTimeout)
	own.Instructions = cmp.Or(own.Instructions, DefaultInstructions)
	own.MemoryBytes = cmp.Or(own.MemoryBytes, DefaultMemoryBytes)
	own.ResultBytes = cmp.Or(own.ResultBytes, DefaultResultBytes)
	own.ConsoleBytes = cmp.Or(own.ConsoleBytes, DefaultConsoleBytes)
	own.DeclarationBytes = cmp.Or(own.DeclarationBytes, DefaultDeclarationBytes)
	return own
}

// Check returns an error of code invalid_argument for options that make no sense.
func (o *Options) Check() error {
	own := o.withDefaults()
	switch {
	case own.Timeout < 0 || own.Instructions < 0 || own.ResultBytes < 0 || own.ConsoleBytes < 0 || own.DeclarationBytes < 0 || own.Instances < 0:
		return host.Errorf(host.InvalidArgument, "a limit of code is negative").WithHint("leave it out for the default")
	case own.MemoryBytes < minMemoryBytes:
		return host.Errorf(host.InvalidArgument, "code has %d bytes of memory", own.MemoryBytes).
			WithHint("the engine alone needs %d", minMemoryBytes)
	}
	return nil
}

// script is the plugin that runs code.
//
//go:embed code.js
var script []byte

// Mode runs the code of models in a runtime of plugins.
type Mode struct {
	opts   Options
	plugin *plugin.Plugin

	operate operate // of the code's host operations; nil: the runtime alone
}

// operate is [plugin.CallOptions].Operate.
type operate = func(ctx context.Context, op string, request []byte, next plugin.Operation) ([]byte, error)

// New loads the engine into a runtime, which closes it. opts may be nil. The engine is
// compiled once for all modes of a runtime that has it among its
// [plugin.Options].Interpreters. Code invalid_argument for options that make no sense;
// errors of [plugin.Runtime.Load].
func New(ctx context.Context, rt *plugin.Runtime, opts *Options) (*Mode, error) {
	if err := opts.Check(); err != nil {
		return nil, err
	}
	m := &Mode{opts: opts.withDefaults()}
	load := &plugin.LoadOptions{
		Granted:   plugin.Permissions{Tools: []string{"*"}},
		Isolation: plugin.IsolationFresh,
		Limits: plugin.Limits{Timeout: m.opts.Timeout, Instructions: m.opts.Instructions, MemoryBytes: m.opts.MemoryBytes,
			Instances: m.opts.Instances, LogBytes: m.opts.ConsoleBytes},
	}
	wasm, err := js.Pack(script)
	if err != nil {
		return nil, err
	}
	if m.plugin, err = rt.Load(ctx, PluginID, wasm, load); host.CodeOf(err) == host.FailedPrecondition { // a runtime without the engine
		if wasm, err = js.PackStandalone(script); err == nil {
			m.plugin, err = rt.Load(ctx, PluginID, wasm, load)
		}
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

// Tools returns the tool that runs code, and the given ones, which it may call. Without
// [Options].Direct these are offered to no model, which can call them all the same. An agent is given all of them. Tools that
// an agent has beside, from a context provider or for one run, can be called as well; its
// description does not declare them. Code invalid_argument for a tool that cannot be used.
func (m *Mode) Tools(tools ...*host.Tool) ([]*host.Tool, error) {
	specs := make([]llm.ToolSpec, len(tools))
	for i, t := range tools {
		specs[i] = t.ToolSpec
	}
	run, err := m.tool(specs)
	if err != nil {
		return nil, err
	}
	list := []*host.Tool{run}
	for _, t := range tools {
		if !m.opts.Direct {
			if t, err = t.With(&host.ToolOptions{FoundBy: m.opts.Name}); err != nil {
				return nil, err
			}
		}
		list = append(list, t)
	}
	return list, nil
}

// parameters is the schema of the tool's arguments.
const parameters = `{"type":"object","properties":{"code":{"type":"string","description":"The body of an async function in JavaScript."}},"required":["code"],"additionalProperties":false}`

func (m *Mode) tool(specs []llm.ToolSpec) (*host.Tool, error) {
	declared, err := m.declare(specs)
	if err != nil {
		return nil, err
	}
	spec := llm.ToolSpec{Name: m.opts.Name, Description: m.describe(declared), Parameters: json.RawMessage(parameters)}
	return host.NewRawTool(spec, func(ctx context.Context, call *host.Call) (*host.ToolOutput, error) {
		return m.run(ctx, call, declared)
	}, &host.ToolOptions{Calls: []string{"*"}, OnlyCalls: true})
}
