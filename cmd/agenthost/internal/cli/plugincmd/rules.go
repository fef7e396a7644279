package plugincmd

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/plugin/plugintest"
	"github.com/agenthost/agenthost/host/project"
	"github.com/agenthost/agenthost/internal/grantwords"
	"github.com/agenthost/agenthost/internal/termtext"
)

// casesName is the directory beside a plugin that holds its golden cases.
const casesName = "cases"

type testFlags struct {
	call         callFlags
	cases        string
	repeats      int
	update, json bool
}

func pluginTest(l *local) *cobra.Command {
	var f testFlags
	c := &cobra.Command{
		Use:   "test FILE",
		Short: "Hold a plugin to the rules of the contract, and to cases of yours",
		Long: `Hold a plugin, in whatever language it is written, to the rules that its author
may forget: some call has a result, bad input is answered, unknown fields are
passed over, the same JSON written otherwise gives the same answer, deep and large
input and the golden vectors of the contract are read, limits hurt nobody, memory
does not grow with calls. Calls are made up from the manifest; a tool whose
parameters none can be made up for needs a case. Rules that do not apply to the
plugin are shown with the reason, and not counted.

Then to the golden cases of a directory (by default "` + casesName + `" beside FILE, or in it if
it is a directory). A case is a file NAME.txtar or a directory NAME, with

  EXPORT.json      the input: tool.json, process.json, route.json, provide.json or observe.json
  output.json      the output that is wanted; or
  error.json       the error that is wanted: its code, and the other members that count
  operations.json  what the plugin asks of its host, and what it is answered
  tools.json       what tools answer that the plugin calls: {"NAME": {"content": ...}},
                   or {"error": {"code", "message"}}, or a list, each with "arguments"

With --update the cases are written as they end now: the host answers, with the
grants of --grant, and what was asked and answered is recorded. Read the diff.

The exit code is 0 if everything holds, 1 if not, 3 if the plugin does not load.`,
		Example: `  agenthost plugin test plugins/hello
  agenthost plugin test orders.wasm --cases testdata/orders --update --grant state=read`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			t := &guestTest{local: l, flags: f, file: list[0], command: c.CommandPath()}
			return t.run(c.Context())
		},
		ValidArgsFunction: func(_ *cobra.Command, list []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(list) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return project.Builtins(), cobra.ShellCompDirectiveDefault
		},
	}
	f.call.addLimits(c)
	flags := c.Flags()
	flags.StringVar(&f.cases, "cases", "", "the directory of golden cases (default: "+casesName+" beside FILE, if it is there)")
	flags.IntVar(&f.repeats, "repeats", plugintest.DefaultRepeats, "in how many calls memory must not grow, after as many before")
	flags.BoolVar(&f.update, "update", false, "write how the cases end into their files")
	flags.BoolVar(&f.json, "json", false, "print JSON, one result a line")
	return c
}

// guestTest is one test, from its flags to its output.
type guestTest struct {
	local   *local
	flags   testFlags
	file    string
	command string
}

func (t *guestTest) run(ctx context.Context) error {
	if err := t.flags.call.checkLimits(t.command); err != nil {
		return err
	}
	if t.flags.repeats < 1 {
		return cli.UsageError(fmt.Errorf("--repeats is %d; it must be 1 or more", t.flags.repeats), t.command)
	}
	granted, err := grantwords.Parse(t.flags.call.grants)
	if err != nil {
		return cli.UsageError(err, t.command)
	}
	cases, err := t.cases()
	if err != nil {
		return err
	}
	from, err := t.source(ctx)
	if err != nil {
		return err
	}
	options, err := t.local.plugins.Modules().RuntimeOptions(t.local.term.QuietLogger())
	if err != nil {
		return err
	}
	options.Log = nil // a guest's log of ten thousand calls is not readable
	load := plugin.LoadOptions{Limits: t.flags.call.limits(), Granted: granted}
	from.AddTo(&load)
	return t.check(ctx, from.Wasm, &plugintest.Options{
		Limits: load.Limits, Granted: load.Granted, Extism: load.Extism, Runtime: options, Cases: cases, Update: t.flags.update, Repeats: t.flags.repeats})
}

// cases returns the directory of the golden cases; "" if the plugin has none.
func (t *guestTest) cases() (string, error) {
	if t.flags.cases != "" {
		if info, err := os.Stat(t.flags.cases); err != nil || !info.IsDir() {
			return "", host.Errorf(host.NotFound, "--cases: there is no directory %s", t.flags.cases).WithHint("check the path")
		}
		return t.flags.cases, nil
	}
	dir := t.file
	if info, err := os.Stat(t.file); err != nil || !info.IsDir() {
		dir = filepath.Dir(t.file)
	}
	dir = filepath.Join(dir, casesName)
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return dir, nil
	}
	if t.flags.update {
		return "", cli.UsageError(fmt.Errorf("there are no cases to update: name their directory with --cases"), t.command)
	}
	return "", nil
}

func (t *guestTest) source(ctx context.Context) (from *project.Module, err error) {
	err = t.local.plugins.WithReader(ctx, func(rt *plugin.Runtime) error {
		from, err = t.local.plugins.Modules().Read(ctx, rt, t.file, t.local.term.Announce)
		return err
	})
	return from, err
}

// check shows the result of each rule as soon as the rule is checked.
func (t *guestTest) check(ctx context.Context, wasm []byte, opts *plugintest.Options) error {
	show := ui.NewPrinter(t.local.term)
	var count ruleCount
	for r := range plugintest.Check(ctx, wasm, opts) {
		if ctx.Err() != nil {
			return host.Errorf(host.Canceled, "interrupted: %w", context.Cause(ctx))
		}
		count.add(r)
		if t.flags.json {
			if err := ui.PrintTimed(t.local.term.Out, r); err != nil {
				return err
			}
			continue
		}
		printRule(show, r)
	}
	if !t.flags.json {
		show.Line("%s", count)
	}
	switch {
	case count.broken == 1 && count.applied == 1 && count.skipped == 0: // it does not load, so no other rule was checked
		return cli.QuietExit(host.InvalidArgument.ExitCode())
	case count.broken > 0:
		return cli.QuietExit(host.Internal.ExitCode())
	}
	return nil
}

// ruleCount counts rules by a plugin's result.
type ruleCount struct{ applied, broken, skipped int }

func (n *ruleCount) add(r *plugintest.Result) {
	switch {
	case r.Skipped != "":
		n.skipped++
		return
	case !r.OK():
		n.broken++
	}
	n.applied++
}

// String counts the rules that apply, and says how many do not.
func (n ruleCount) String() string {
	text := fmt.Sprintf("All %d that apply hold.", n.applied)
	if n.applied == 1 {
		text = "The one that applies holds."
	}
	if n.broken > 0 {
		text = fmt.Sprintf("%d of the %d that apply are broken.", n.broken, n.applied)
	}
	switch n.skipped {
	case 0:
		return text
	case 1:
		return text + " One does not apply."
	}
	return fmt.Sprintf("%s %d do not apply.", text, n.skipped)
}

// maxProblems is how many ways of breaking one rule are shown.
const maxProblems = 5

// printRule shows a plugin's result for one rule.
func printRule(p *ui.Printer, r *plugintest.Result) {
	took := p.Paint(ui.Dim, "  "+r.Took.Round(time.Millisecond).String())
	switch {
	case !r.OK():
		p.Line("%s  %s%s", p.Paint(ui.Red, "broken"), termtext.Printable(r.Rule), took)
		for _, problem := range r.Problems[:min(len(r.Problems), maxProblems)] {
			p.Line("        %s", ui.Clip(problem))
		}
		if more := len(r.Problems) - maxProblems; more > 0 {
			p.Line("        and %d more: see them with --json", more)
		}
	case r.Skipped != "":
		p.Line("%s  %s: %s", p.Paint(ui.Yellow, "-     "), termtext.Printable(r.Rule), termtext.Printable(r.Skipped))
	default:
		p.Line("%s  %s%s", p.Paint(ui.Cyan, "ok    "), termtext.Printable(r.Rule), took)
	}
}
