package plugintest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/plugin/pluginkv"
	"github.com/agenthost/agenthost/host/queue"
)

// Options are the optional parts of a test.
type Options struct {
	Limits  plugin.Limits        // zero fields are the host's defaults
	Granted plugin.Permissions   // of the permissions that the plugin asks for; default: nothing
	Extism  plugin.ExtismOptions // of an Extism plugin, such as its configuration
	Runtime *plugin.Options      // of the runtime that it is loaded into, such as its CacheDir; may be nil. Default of Store and Queue: in memory

	// Calls are the calls of the plugin. By default each part in its manifest is called
	// once (of more than 100, the first), a tool with arguments that fit its schema and
	// the others with a short conversation and a configuration that fits (but not an
	// Extism function that is a tool: it does not follow the contract); the inputs of
	// Cases without recorded operations are called, too. A call may be answered with an
	// error object, but not every call of an export.
	Calls []Call

	// Repeats is the number of calls in which memory must not grow. As many calls are
	// made before, and again while memory grows: a garbage collector takes memory before
	// it collects. Default 10,000.
	Repeats int

	// Cases is a directory of golden cases, each of which is a rule of its own; [Check]
	// describes their form. "" for no cases.
	Cases string

	// Update writes the results of the cases into their files instead of comparing them;
	// the host answers and records host operations. A test passes its own flag:
	// flag.Bool("update", false, ...).
	Update bool
}

// Call is one call of an export.
type Call struct {
	Export string // tool, process, route, provide or observe
	Input  string // JSON, as pdk/ABI.md describes it
}

// DefaultRepeats is the default of Options.Repeats. It is large because a Go
// guest collects its first garbage at 4 MiB.
const DefaultRepeats = 10_000

// Result is a plugin's result for one rule.
type Result struct {
	Rule     string        `json:"rule"`               // the rule, as a claim
	Problems []string      `json:"problems,omitempty"` // each violation of the rule; empty if there is no violation
	Skipped  string        `json:"skipped,omitempty"`  // why the rule does not apply to this plugin
	Took     time.Duration `json:"took_ns"`
}

// OK reports whether the plugin has no problems with the rule. A skipped rule is OK.
func (r *Result) OK() bool { return len(r.Problems) == 0 }

// TestGuest checks a plugin against the rules, each as a subtest named after it. opts may
// be nil.
func TestGuest(t *testing.T, wasm []byte, opts *Options) {
	t.Helper()
	for r := range Check(t.Context(), wasm, opts) {
		t.Run(r.Rule, func(t *testing.T) {
			for _, p := range r.Problems {
				t.Error(p)
			}
			if r.Skipped != "" {
				t.Log("does not apply: " + r.Skipped)
			}
		})
	}
}

// Check checks a plugin against the rules, one after the other, and yields each result
// when it is known. A whole check takes seconds, most of them for the calls that measure
// memory. A module that cannot be loaded breaks the first rule, and no other rule is
// checked. opts may be nil; a canceled context becomes a problem of the rule that it
// interrupts, and ends the check.
//
// A check ends, whatever the plugin does. Each call has the limits of the options. A rule
// ends after two minutes, or when a limit of time or instructions has ended three of its
// calls; the check ends when such limits have ended twelve calls, which is a problem of
// the last rule that it yields.
//
// A golden case in Options.Cases is a file NAME.txtar (sections that begin with
// "-- name --", as golang.org/x/tools/txtar has them) or a directory NAME. Its
// sections, or files, are
//
//	EXPORT.json      the input: tool.json, process.json, route.json, provide.json or observe.json
//	output.json      the wanted output; or
//	error.json       the wanted error: its code, and its other members if given
//	operations.json  the host operations that the plugin calls, with their answers
//	tools.json       what the tools answer that the plugin's tool calls; [ReadTools] describes its form
//
// JSON is compared as values, numbers as their text; a compared answer must also fit the
// contract. operations.json is an array of objects {"op", "request", "response" or
// "error"} in the order of the calls. A plugin that calls any other operation, or not all
// of them, breaks the case. Permissions are not checked for recorded operations. With
// tools.json, calls of tools (tool.call) are no part of operations.json: in any order they get
// the answers of the tools, and a call that none fits breaks the case, as does an answer that
// no call gets.
func Check(ctx context.Context, wasm []byte, opts *Options) iter.Seq[*Result] {
	return check(ctx, wasm, opts, rules())
}

// check is Check with some of the rules.
func check(ctx context.Context, wasm []byte, opts *Options, rules []*rule) iter.Seq[*Result] {
	return func(yield func(*Result) bool) {
		g, first := load(ctx, wasm, opts)
		if g == nil {
			yield(first)
			return
		}
		defer g.sandbox.close()
		if !yield(first) {
			return
		}
		for _, r := range append(rules, g.caseRules()...) {
			if !yield(r.result(g)) || ctx.Err() != nil || g.sandbox.stops.ended() {
				return
			}
		}
	}
}

// Rules returns the rules of [Check], in their order.
func Rules() []string {
	names := []string{loads}
	for _, r := range rules() {
		names = append(names, r.name)
	}
	return names
}

// loads is the first rule: a plugin that breaks it cannot be tested further.
const loads = "it loads, and its manifest and exports fit"

// rule is a rule that a plugin must follow.
type rule struct {
	name string
	// check returns the plugin's violations of the rule.
	check func(g *guest) []error
	// skip returns why the rule does not apply to a plugin; "" if it does. May be nil.
	skip func(g *guest) string
}

func rules() []*rule {
	return []*rule{
		{"calls are answered with results", results, nothingOffered},
		{"bad input is answered with an error", badInput, nothingCalled},
		{"after an error it answers as before", afterErrors, nothingCalled},
		{"unknown fields are passed over", unknownFields, nothingCalled},
		{"unknown fields and parts of messages are carried", unknownParts, noHistories},
		{"the same JSON, written otherwise, gives the same answer", writtenOtherwise, nothingCalled},
		{"deep and large input is read", largeInputs, nothingCalled},
		{"the golden vectors are read as they are meant", vectors, nothingCalled},
		{"answers are what the contract says", answers, nothingCalled},
		{"the same input gives the same answer", sameAnswer, nothingReproducible},
		{"a kept instance answers like a fresh one", keptInstances, nothingCalled},
		{"with too little of anything it answers the same or fails", tightLimits, nothingCalled},
		{"memory does not grow with calls", memory, nothingCalled},
	}
}

func nothingCalled(g *guest) string {
	if reason := nothingOffered(g); reason != "" || len(g.calls) > 0 {
		return reason
	}
	return "nothing that the plugin offers could be called"
}

func nothingOffered(g *guest) string {
	if len(g.calls)+len(g.uncalled) == 0 {
		return "the plugin offers nothing of the contract to call"
	}
	return ""
}

// caseRules returns the golden cases as rules.
func (g *guest) caseRules() (list []*rule) {
	for _, c := range g.cases {
		list = append(list, &rule{"case " + c.name, func(g *guest) (broken []error) {
			for _, p := range c.check(g, g.update) {
				broken = append(broken, errors.New(p))
			}
			return broken
		}, nil})
	}
	return list
}

func (r *rule) result(g *guest) *Result {
	out := &Result{Rule: r.name}
	began := time.Now()
	if r.skip != nil {
		out.Skipped = r.skip(g)
	}
	if out.Skipped == "" {
		for _, err := range g.bounded(r.check) {
			out.Problems = append(out.Problems, err.Error())
		}
	}
	out.Took = time.Since(began)
	return out
}

// load loads the plugin under test. If guest is nil, the result has the reason.
func load(ctx context.Context, wasm []byte, opts *Options) (*guest, *Result) {
	if opts == nil {
		opts = &Options{}
	}
	out := &Result{Rule: loads}
	began := time.Now()
	defer func() { out.Took = time.Since(began) }()
	rt, jobs, err := newRuntime(ctx, opts.Runtime)
	if err != nil {
		out.Problems = []string{err.Error()}
		return nil, out
	}
	g := &guest{calls: opts.Calls, repeats: opts.Repeats}
	g.sandbox = sandbox{ctx: ctx, runtime: rt, jobs: jobs, wasm: wasm,
		// A host may reuse an instance, so the test does, whatever the default.
		options: plugin.LoadOptions{Limits: opts.Limits, Granted: opts.Granted, Extism: opts.Extism, Isolation: plugin.IsolationReuse}}
	for _, err := range rt.Check(ctx, loadedAs, wasm, &g.sandbox.options) {
		out.Problems = append(out.Problems, err.Error())
	}
	if out.OK() {
		if g.sandbox.plugin, err = rt.Load(ctx, loadedAs, wasm, &g.sandbox.options); err != nil {
			out.Problems = append(out.Problems, err.Error())
		} else if err := g.sandbox.serves(); err != nil {
			out.Problems = append(out.Problems, err.Error())
		}
	}
	if !out.OK() {
		g.sandbox.close()
		return nil, out
	}
	if opts.Cases != "" {
		g.update = opts.Update
		if g.cases, err = readCases(opts.Cases); err != nil {
			out.Problems = append(out.Problems, err.Error())
		}
	}
	g.complete()
	for _, c := range g.calls {
		if err := checkCall(c); err != nil {
			out.Problems = append(out.Problems, err.Error())
		}
	}
	if !out.OK() {
		g.sandbox.close()
		return nil, out
	}
	return g, out
}

// newRuntime returns a runtime with a store, and a queue of its own unless opts have one:
// close the queue before the runtime.
func newRuntime(ctx context.Context, opts *plugin.Options) (*plugin.Runtime, *queue.Queue, error) {
	complete := plugin.Options{}
	if opts != nil {
		complete = *opts
	}
	memory := kv.NewMemory()
	if complete.Store == nil {
		complete.Store = pluginkv.New(memory, nil)
	}
	if complete.Queue != nil {
		rt, err := plugin.NewRuntime(ctx, &complete)
		return rt, nil, err
	}
	jobs := queue.New(memory, nil)
	complete.Queue = jobs
	rt, err := plugin.NewRuntime(ctx, &complete)
	if err != nil {
		return nil, nil, err
	}
	jobs.Handle(plugin.JobName, rt.HandleJob)
	if err := jobs.Start(ctx); err != nil {
		return nil, nil, errors.Join(err, jobs.Close(), rt.Close(ctx))
	}
	return rt, jobs, nil
}

// checkCall refuses a call of the options that no rule could use.
func checkCall(c Call) error {
	if _, ok := callable[c.Export]; !ok {
		return host.Errorf(host.InvalidArgument, "a call of the test names the export %q", c.Export).
			WithHint("use tool, process, route, provide or observe")
	}
	if _, err := members(c.Input); err != nil {
		return fmt.Errorf("a call of the test, %s with %.200s: %w", c.Export, c.Input, err)
	}
	return nil
}
