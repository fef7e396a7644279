package plugincmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/files"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/open"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/project"
	"github.com/agenthost/agenthost/host/tokens"
	"github.com/agenthost/agenthost/internal/grantwords"
)

// exports are the exports that plugin call can call.
func exports() []string {
	return []string{"describe", "tool", "process", "route", "provide", "observe"}
}

type callFlags struct {
	input, messages string
	timeout         time.Duration
	memory          sizeFlag
	instructions    uint64
	others          limitFlag
	grants          []string
	config          map[string]string // of an Extism plugin
	standIn         standInFlags
	report, raw     bool
	json            bool
}

func pluginCall(l *local) *cobra.Command {
	var f callFlags
	c := &cobra.Command{
		Use:   "call FILE " + strings.Join(exports(), "|"),
		Short: "Call a plugin's export with an input of yours",
		Long: `Call a plugin's export with an input of yours, in the form that pdk/ABI.md gives
it. The output goes to stdout, what the plugin logs to stderr.

The arguments of a tool are validated against its "parameters", as in a run: a plugin may
rely on it. --raw passes the bytes of the input unchanged, JSON or not, to see
what the plugin makes of them.

The exit code is 0 for a result, 1 for an error that the plugin returns (its
error object goes to stdout) and for one that it runs into, 3 for a plugin or
arguments that the host refuses, 6 for a broken limit.

What a host operation works on comes from the input: its "state", and its
"messages" or those of --messages. With --messages, an input without messages
and outline gets what the plugin's manifest asks for. Keys, jobs and artifacts
are those of --tenant, in memory until the command ends; requests go out, where
--grant lets them. Tools that the plugin calls answer what --tools says, and with
--case the input and all that the host answers are those of a case of plugin test.`,
		Example: `  agenthost plugin call scores.wasm tool --input '{"tool":"scores"}' --grant kv=write
  agenthost plugin call advice.wasm tool --case cases/rain.txtar
  agenthost plugin call hello.wasm tool --input '{"tool":"hello","arguments":{"name":"Ada"}}' --report
  agenthost plugin call builtin:tokenlimiter process --input '{"config":100}' --messages @thread.json`,
		Args: cli.Args(cobra.ExactArgs(2)),
		RunE: func(c *cobra.Command, list []string) error {
			call := &rawCall{local: l, flags: f, file: list[0], export: list[1], command: c.CommandPath()}
			if err := call.read(c); err != nil {
				return err
			}
			return l.plugins.WithRuntime(c.Context(), func(rt *plugin.Runtime) error { return call.run(c.Context(), rt) })
		},
		ValidArgsFunction: completeCall(exports()),
	}
	f.add(c)
	c.Flags().BoolVar(&f.raw, "raw", false, "pass the input unchanged, as bytes, without validating arguments against the tool's parameters")
	c.Flags().BoolVar(&f.json, "json", false, "print one JSON object: the output, whether it is an error, and what the call cost")
	c.Flags().BoolVar(&f.report, "report", false, "print what the call cost to stderr, as one JSON object")
	return c
}

// add adds the flags that every command with a call has.
func (f *callFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.input, "input", "", "the input: JSON, @FILE or - for stdin (describe has none)")
	flags.StringVar(&f.messages, "messages", "", "the conversation: JSON, @FILE or -")
	flags.StringToStringVar(&f.config, "config", nil, "what an Extism plugin reads as its configuration: NAME=VALUE; may be given more than once")
	f.standIn.add(c)
	f.addLimits(c)
}

// completeCall completes FILE EXPORT.
func completeCall(exports []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, list []string, _ string) ([]string, cobra.ShellCompDirective) {
		switch len(list) {
		case 0:
			return project.Builtins(), cobra.ShellCompDirectiveDefault
		case 1:
			return exports, cobra.ShellCompDirectiveNoFileComp
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// rawCall is one plugin call, from its flags to its output.
type rawCall struct {
	local   *local
	flags   callFlags
	file    string
	export  string
	command string

	input    []byte
	messages []*host.Message // nil unless given
	standIn  standIn
	granted  plugin.Permissions
}

func (r *rawCall) usage(format string, args ...any) error {
	return cli.UsageError(fmt.Errorf(format, args...), r.command)
}

// read reads the inputs that the command line names, before any plugin is loaded.
func (r *rawCall) read(c *cobra.Command) (err error) {
	if err := r.flags.checkLimits(r.command); err != nil {
		return err
	}
	if r.standIn, err = r.flags.standIn.read(r.local.term.In, r.command, r.export); err != nil {
		return err
	}
	hasInput := c.Flags().Changed("input")
	if r.standIn.golden != nil {
		r.flags.input, hasInput = r.standIn.golden.Input, true
	}
	switch {
	case !hasInput && r.export != "describe":
		return r.usage("--input is required: JSON, @FILE or - for stdin")
	case r.flags.input == "-" && r.flags.messages == "-":
		return r.usage("--input and --messages cannot both be stdin")
	}
	if r.granted, err = grantwords.Parse(r.flags.grants); err != nil {
		return r.usage("%w", err)
	}
	switch {
	case r.flags.raw && r.flags.messages != "":
		return r.usage("--raw passes --input alone, so --messages does not go with it: put the messages into the input")
	case r.flags.raw, !slices.Contains(exports(), r.export): // a function of an Extism plugin takes any bytes
		r.input, err = files.Value(r.local.term.In, "--input", r.flags.input)
		return err
	}
	if r.export != "describe" {
		if r.input, err = files.JSONValue(r.local.term.In, r.command, "--input", r.flags.input); err != nil {
			return err
		}
	}
	return r.readMessages()
}

// readMessages finds the conversation: in --messages, or in the input.
func (r *rawCall) readMessages() (err error) {
	raw := json.RawMessage(nil)
	if r.flags.messages != "" {
		if raw, err = files.JSONValue(r.local.term.In, r.command, "--messages", r.flags.messages); err != nil {
			return err
		}
		if m := files.Member(raw, "messages"); m != nil { // the form of thread export and thread show
			raw = m
		}
	} else if r.export == "process" || r.export == "route" {
		raw = files.Member(r.input, "messages")
	}
	if raw == nil {
		return nil
	}
	if r.messages, err = chat.DecodeMessages(raw); err != nil && r.flags.messages != "" {
		return r.usage("--messages: %w", err)
	}
	if err == nil && r.messages == nil {
		r.messages = []*host.Message{} // an empty conversation is one
	}
	return nil // a raw input need not be valid
}

func (r *rawCall) run(ctx context.Context, rt *plugin.Runtime) error {
	p, err := r.load(ctx, rt)
	if err != nil {
		return r.refused(err)
	}
	if known := slices.Concat(exports(), p.ExtismFunctions()); !slices.Contains(known, r.export) {
		return r.usage("there is no export %q; call one of: %s", r.export, strings.Join(known, ", "))
	}
	if err := r.checkArguments(p); err != nil {
		return err
	}
	opts, err := r.options()
	if err != nil {
		return err
	}
	result, err := r.call(ctx, p, opts)
	if r.flags.report {
		if err := ui.PrintTimed(r.local.term.Err, reportOf(result.Cost)); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	return r.print(result)
}

// call makes one call. Each has what the host answers from its beginning.
func (r *rawCall) call(ctx context.Context, p *plugin.Plugin, opts *plugin.CallOptions) (*plugin.CallResult, error) {
	if r.standIn.golden != nil {
		opts.Operate = r.standIn.golden.Operate()
	}
	return p.Call(ctx, r.standIn.tenant, r.export, r.input, opts)
}

// checkArguments validates the arguments of a tool against its parameters, as a run
// does before the plugin gets them.
func (r *rawCall) checkArguments(p *plugin.Plugin) error {
	if r.export != "tool" || r.flags.raw {
		return nil
	}
	var name string
	_ = json.Unmarshal(files.Member(r.input, "tool"), &name) // the plugin reports a wrong name
	i := slices.IndexFunc(p.Manifest().Tools, func(t plugin.ToolInfo) bool { return t.Name == name })
	if i < 0 {
		return nil // the plugin answers for an unknown tool
	}
	parameters, arguments := p.Manifest().Tools[i].Parameters, files.Member(r.input, "arguments")
	if len(parameters) == 0 {
		parameters = json.RawMessage(`{"type":"object","additionalProperties":false}`)
	}
	if arguments == nil {
		arguments = json.RawMessage("{}")
	}
	schema, err := host.CompileSchema(parameters)
	if err == nil {
		err = schema.Validate(arguments)
	}
	if err != nil {
		return host.Errorf(host.InvalidArgument, "the arguments do not fit the parameters of the tool %q, so no run would call it: %w", name, err).
			WithHint("give arguments that fit, or pass these with --raw")
	}
	return nil
}

// load loads the plugin with the limits and grants of the flags, and says which grants have
// no effect.
func (r *rawCall) load(ctx context.Context, rt *plugin.Runtime) (*plugin.Plugin, error) {
	p, err := r.loadQuietly(ctx, rt)
	if err != nil {
		return nil, err
	}
	r.noteGrants(p.Manifest())
	return p, nil
}

func (r *rawCall) loadQuietly(ctx context.Context, rt *plugin.Runtime) (*plugin.Plugin, error) {
	from, err := r.local.plugins.Modules().Read(ctx, rt, r.file, r.local.term.Announce)
	if err != nil {
		return nil, err
	}
	opts := plugin.LoadOptions{Limits: r.flags.limits(), Granted: r.granted, Extism: plugin.ExtismOptions{Config: r.flags.config}}
	from.AddTo(&opts)
	p, err := rt.Load(ctx, open.PluginID(r.file), from.Wasm, &opts)
	if err != nil {
		return nil, r.limitError(err)
	}
	return p, nil
}

// refused distinguishes a plugin that answers describe with an error from one that the
// host refuses.
func (r *rawCall) refused(err error) error {
	var guest *plugin.GuestError
	if r.export != "describe" || !errors.As(err, &guest) {
		return err
	}
	if err := ui.PrintJSON(r.local.term.Out, fault.AsError(guest)); err != nil {
		return err
	}
	return cli.QuietExit(host.Internal.ExitCode())
}

// options return the state and the view that host operations work on.
func (r *rawCall) options() (*plugin.CallOptions, error) {
	opts := &plugin.CallOptions{Emit: r.showEvent, Operate: r.standIn.operate()}
	var err error
	if opts.State, err = host.NewState(files.Member(r.input, "state"), 0); err != nil {
		return nil, r.usage("the state of the input: %w", err)
	}
	if r.messages == nil {
		return opts, nil
	}
	counter, err := tokens.New(nil)
	if err != nil {
		return nil, err
	}
	var model string
	_ = json.Unmarshal(files.Member(r.input, "model"), &model) // a model that is not a string is ignored
	opts.View = llm.NewView(r.messages, model, counter)
	return opts, nil
}

func (r *rawCall) showEvent(kind string, data json.RawMessage) {
	fmt.Fprintf(r.local.term.Err, "[%s] emits %s %s\n", open.PluginID(r.file), ui.OneLine(kind), ui.OneLine(string(data)))
}
