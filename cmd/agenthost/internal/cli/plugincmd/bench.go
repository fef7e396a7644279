package plugincmd

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/plugincmd/bench"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/internal/termtext"
)

// The bounds and defaults of a bench.
const (
	defaultBenchTime = 2 * time.Second
	benchWarmCalls   = 100
	maxBenchCalls    = 100_000_000
	maxBenchTime     = time.Hour
)

type benchFlags struct {
	call  callFlags
	calls int
	time  time.Duration
	flame string // where a profile goes; "" makes none
	json  bool
}

// benchExports are the exports that can be benched: not describe, which is called once
// in a plugin's life.
func benchExports() []string {
	return slices.DeleteFunc(exports(), func(name string) bool { return name == "describe" })
}

func pluginBench(l *local) *cobra.Command {
	f := benchFlags{}
	c := &cobra.Command{
		Use:   "bench FILE " + strings.Join(benchExports(), "|"),
		Short: "Time a plugin's export beside the empty call",
		Long: `Time a plugin's export with an input of yours: calls a second, how long calls
take, what they use. Beside it, in turns with it and in the same process, runs
the empty call: a module whose export returns at once, with nothing to read and
nothing to say, under the same limits. What it takes is the host's.

Each call follows the one before: what is shown is one caller's. Host operations
are answered as by plugin call: keys, jobs and artifacts in memory, requests go out;
with --case they are answered at once, from a case of plugin test, which shows what
the guest itself takes. The operations count in instructions, by their prices.

--flame FILE also makes some calls that say where their instructions go, by
function of the guest: a picture (out.svg), or what "go tool pprof" opens
(out.pb.gz). The functions together have what the calls cost. Names are those of
the module's name section; a script shows the functions of its interpreter.`,
		Example: `  agenthost plugin bench hello.wasm tool --input '{"tool":"hello","arguments":{"name":"Ada"}}'
  agenthost plugin bench builtin:tokenlimiter process --input '{"config":4000}' --messages @thread.json --for 10s
  agenthost plugin bench hello.wasm tool --input @call.json --flame hello.svg
  agenthost plugin bench translate.wasm tool --case cases/tea.txtar --flame translate.svg`,
		Args: cli.Args(cobra.ExactArgs(2)),
		RunE: func(c *cobra.Command, list []string) error {
			b := &benchRun{call: rawCall{local: l, flags: f.call, file: list[0], export: list[1], command: c.CommandPath()}, flags: f}
			if err := b.read(c); err != nil {
				return err
			}
			return l.plugins.WithRuntime(c.Context(), func(rt *plugin.Runtime) error { return b.run(c.Context(), rt) })
		},
		ValidArgsFunction: completeCall(benchExports()),
	}
	f.call.add(c)
	flags := c.Flags()
	flags.IntVar(&f.calls, "calls", 0, "how many calls")
	flags.DurationVar(&f.time, "for", defaultBenchTime, "for how long")
	flags.StringVar(&f.flame, "flame", "", "write a profile of the instructions by function to this file: a flame graph (.svg), or a profile for pprof (.pb.gz)")
	_ = c.MarkFlagFilename("flame", "svg", "pb.gz") // the flag is there
	flags.BoolVar(&f.json, "json", false, cli.JSONUsage)
	c.MarkFlagsMutuallyExclusive("calls", "for")
	return c
}

// benchRun is one bench, from its flags to its output.
type benchRun struct {
	call  rawCall
	flags benchFlags
}

func (b *benchRun) read(c *cobra.Command) error {
	hasFor := c.Flags().Changed("for")
	switch {
	case b.call.export == "describe":
		return b.call.usage("describe is called once in a plugin's life; bench one of: %s", strings.Join(benchExports(), ", "))
	case b.flags.calls < 0 || b.flags.calls > maxBenchCalls:
		return b.call.usage("--calls is %d; it must be from 1 to %s", b.flags.calls, termtext.Thousands(maxBenchCalls))
	case hasFor && (b.flags.time <= 0 || b.flags.time > maxBenchTime):
		return b.call.usage("--for is %s; it must be more than 0 and at most %s", b.flags.time, maxBenchTime)
	case b.flags.flame != "" && profileWriter(b.flags.flame) == nil:
		return b.call.usage("--flame is %s; name a file that ends in .svg or in .pb.gz", b.flags.flame)
	}
	return b.call.read(c)
}

// benchResult is the output of bench --json.
type benchResult struct {
	File       string      `json:"file"`
	Export     string      `json:"export"`
	InputBytes int         `json:"input_bytes"`
	Call       bench.Stats `json:"call"`
	Empty      bench.Stats `json:"empty"` // the empty call

	StartUp *plugin.StartUp `json:"start_up,omitempty"`
	Profile *benchProfile   `json:"profile,omitempty"`
}

func (b *benchRun) run(ctx context.Context, rt *plugin.Runtime) error {
	p, err := b.call.load(ctx, rt)
	if err != nil {
		return err
	}
	empty, err := rt.Load(ctx, "empty", emptyModule(), &plugin.LoadOptions{Limits: b.flags.call.limits()})
	if err != nil {
		return err
	}
	opts, err := b.call.options()
	if err != nil {
		return err
	}
	opts.Emit = nil
	if err := b.callOnce(ctx, p, opts); err != nil {
		return err
	}
	if !b.flags.json {
		fmt.Fprintf(b.call.local.term.Err, "timing %s ...\n", b.durationText())
	}
	until := bench.Until{Calls: b.flags.calls, For: b.flags.time}
	stats, err := bench.Compare(ctx, benchWarmCalls, until, b.caller(p, opts), b.emptyCaller(empty))
	if err != nil {
		return err
	}
	result := benchResult{File: b.call.file, Export: b.call.export, InputBytes: len(b.call.input), Call: stats[0], Empty: stats[1]}
	if did, err := p.StartUp(ctx); err == nil {
		result.StartUp = &did
	}
	var unprofiled error // the times that were measured are shown all the same
	if b.flags.flame != "" {
		result.Profile, unprofiled = b.profile(ctx)
	}
	if b.flags.json {
		err = ui.PrintTimed(b.call.local.term.Out, result)
	} else {
		err = result.print(b.call.local.term.Out)
	}
	return cmp.Or(unprofiled, err)
}

// emptyExport is the export of the empty module that stands beside one: a function
// of an Extism plugin is a tool.
func emptyExport(export string) string {
	if slices.Contains(benchExports(), export) {
		return export
	}
	return "tool"
}

func (b *benchRun) durationText() string {
	if b.flags.calls > 0 {
		return termtext.Thousands(int64(b.flags.calls)) + " calls"
	}
	return b.flags.time.String()
}

// callOnce makes one call before the measurement: an input that the plugin refuses is
// reported, not timed.
func (b *benchRun) callOnce(ctx context.Context, p *plugin.Plugin, opts *plugin.CallOptions) error {
	result, err := b.call.call(ctx, p, opts)
	if err != nil {
		return err
	}
	if result.GuestError {
		return b.call.print(result)
	}
	return nil
}

func (b *benchRun) caller(p *plugin.Plugin, opts *plugin.CallOptions) bench.Call {
	return func(ctx context.Context) (*host.Cost, bool, error) {
		result, err := b.call.call(ctx, p, opts)
		return result.Cost, result.GuestError, err
	}
}

// emptyCaller calls the empty module for the same tenant.
func (b *benchRun) emptyCaller(empty *plugin.Plugin) bench.Call {
	export := emptyExport(b.call.export)
	return func(ctx context.Context) (*host.Cost, bool, error) {
		result, err := empty.Call(ctx, b.call.standIn.tenant, export, nil, nil)
		return result.Cost, result.GuestError, err
	}
}

// print shows a bench to a person.
func (r *benchResult) print(w io.Writer) error {
	fmt.Fprintf(w, "%s  %s, %s bytes in, %s out, %s calls\n", r.File, r.Export,
		termtext.Thousands(int64(r.InputBytes)), termtext.Thousands(int64(r.Call.OutputBytes)), termtext.Thousands(int64(r.Call.Calls)))
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', tabwriter.AlignRight)
	row := func(name string, show func(bench.Stats) string) {
		fmt.Fprintf(tw, "  %s\t%s\t%s\t\n", name, show(r.Call), show(r.Empty))
	}
	fmt.Fprintln(tw, "  \tthis call\tempty call\t")
	row("calls/s", func(s bench.Stats) string { return termtext.Thousands(int64(s.PerSecond)) })
	for _, p := range []struct {
		name string
		of   func(bench.Latency) int64
	}{
		{"mean", func(l bench.Latency) int64 { return l.Mean }},
		{"p50", func(l bench.Latency) int64 { return l.P50 }},
		{"p90", func(l bench.Latency) int64 { return l.P90 }},
		{"p99", func(l bench.Latency) int64 { return l.P99 }},
		{"p99.9", func(l bench.Latency) int64 { return l.P999 }},
		{"longest", func(l bench.Latency) int64 { return l.Max }},
	} {
		row(p.name, func(s bench.Stats) string { return ui.ShortTime(p.of(s.Latency)) })
	}
	row("instructions", func(s bench.Stats) string { return rangeOf(s.Instructions) })
	row("memory", func(s bench.Stats) string { return ui.ShortBytes(s.PeakMemory) })
	row("host calls", func(s bench.Stats) string { return termtext.Thousands(int64(s.HostCalls)) })
	if r.Call.Failed > 0 {
		row("errors", func(s bench.Stats) string { return termtext.Thousands(int64(s.Failed)) })
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	if r.StartUp != nil {
		if _, err := fmt.Fprintf(w, "  start-up: %s\n", startUpWords(*r.StartUp)); err != nil {
			return err
		}
	}
	if r.Profile == nil {
		return nil
	}
	_, err := fmt.Fprintf(w, "  profile of %s instructions, by function (calls: %s): %s\n",
		termtext.Thousands(r.Profile.Instructions), termtext.Thousands(r.Profile.Calls), r.Profile.File)
	return err
}

func rangeOf(r bench.Range) string {
	if r.Min == r.Max {
		return termtext.Thousands(r.Min)
	}
	return fmt.Sprintf("%s (%s to %s)", termtext.Thousands(r.Mean), termtext.Thousands(r.Min), termtext.Thousands(r.Max))
}

// emptyModule is a plugin whose exports return at once: a page of memory, and
// one function (i32) -> i32 that is 0, under the name of every export.
func emptyModule() []byte {
	name := func(s string) []byte { return append([]byte{byte(len(s))}, s...) }
	part := func(id byte, contents ...byte) []byte { return append([]byte{id, byte(len(contents))}, contents...) }
	exported := []byte{byte(1 + len(benchExports()))}
	exported = append(append(exported, name("memory")...), 2, 0)
	for _, e := range benchExports() {
		exported = append(append(exported, name("agenthost_"+e)...), 0, 0)
	}
	return slices.Concat(
		[]byte("\x00asm\x01\x00\x00\x00"),
		part(1, 1, 0x60, 1, 0x7f, 1, 0x7f),
		part(3, 1, 0),
		part(5, 1, 0, 1),
		part(7, exported...),
		part(10, 1, 4, 0, 0x41, 0, 0x0b),
		part(0, append(name("agenthost.manifest"), `{"abi":1,"name":"empty"}`...)...),
	)
}
