// Package plugintest holds a plugin to the contract that its author may forget:
// what it does with bad input, with fields it does not know, with the same
// input again, and with memory. It is for authors in any language; a test in Go
// reads the .wasm file and calls [TestGuest].
package plugintest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin"
)

// Options are the optional parts of a test.
type Options struct {
	Limits  plugin.Limits
	Granted plugin.Permissions

	// Calls are what the plugin is called with. By default each thing that its
	// manifest lists is called once, a tool without arguments and the others with
	// a short conversation. A call may be answered with an error object.
	Calls []Call
}

// Call is one call of an export.
type Call struct {
	Export string // tool, process, route, provide or observe
	Input  string // JSON, as pdk/ABI.md describes it
}

// TestGuest loads a plugin and holds it to the rules, each as a subtest whose
// name is the rule. opts may be nil.
func TestGuest(t *testing.T, wasm []byte, opts *Options) {
	t.Helper()
	g, err := newGuest(t.Context(), wasm, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer g.close()
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			for _, err := range r.check(g) {
				t.Error(err)
			}
		})
	}
}

// rule is something that a plugin must hold to. check returns how it does not.
type rule struct {
	name  string
	check func(g *guest) []error
}

var rules = []rule{
	{"bad input is answered with an error", badInput},
	{"unknown fields are passed over", unknownFields},
	{"answers are JSON", answersAreJSON},
	{"a kept instance answers like a fresh one", keptInstances},
	{"memory does not grow with calls", memory},
}

// guest is a plugin under test.
type guest struct {
	ctx     context.Context
	runtime *plugin.Runtime
	wasm    []byte
	load    plugin.LoadOptions
	plugin  *plugin.Plugin
	calls   []Call
}

func newGuest(ctx context.Context, wasm []byte, opts *Options) (*guest, error) {
	if opts == nil {
		opts = &Options{}
	}
	rt, err := plugin.NewRuntime(ctx, nil)
	if err != nil {
		return nil, err
	}
	g := &guest{ctx: ctx, runtime: rt, wasm: wasm, calls: opts.Calls,
		load: plugin.LoadOptions{Limits: opts.Limits, Granted: opts.Granted}}
	if g.plugin, err = rt.Load(ctx, "guest", wasm, &g.load); err != nil {
		g.close()
		return nil, err
	}
	if len(g.calls) == 0 {
		g.calls = ordinaryCalls(g.plugin.Manifest())
	}
	return g, nil
}

func (g *guest) close() { _ = g.runtime.Close(context.WithoutCancel(g.ctx)) }

// The conversation of ordinary calls.
const (
	scope    = `"scope":{"tenant":"acme","run":"r1"}`
	messages = `"messages":[{"id":"m1","role":"user","parts":[{"type":"text","text":"hello"}],"created_at":"2026-01-02T03:04:05Z"}]`
	outline  = `"outline":{"count":1,"roles":"u","bytes":[5],"chars":[5],"parts":[1],"tools":[]}`
)

func ordinaryCalls(m *plugin.Manifest) (calls []Call) {
	add := func(export, format string, args ...any) {
		calls = append(calls, Call{export, fmt.Sprintf(format, args...)})
	}
	for _, t := range m.Tools {
		add("tool", `{"tool":%q,"call_id":"c1","attempt":1,"arguments":{},%s}`, t.Name, scope)
	}
	for _, p := range m.Processors {
		history := messages
		if p.Input == "outline" {
			history = outline
		}
		add("process", `{"processor":%q,%s,"model":"m",%s}`, p.Name, scope, history)
	}
	for _, r := range m.Routers {
		add("route", `{"router":%q,%s,"call_count":0,"stack":[],"agents":[{"name":"clerk","description":""}]}`, r.Name, scope)
	}
	for _, p := range m.Providers {
		add("provide", `{"provider":%q,%s,%s}`, p.Name, scope, messages)
	}
	return calls
}

// exports returns the exports that are called, each once.
func (g *guest) exports() (list []string) {
	for _, c := range g.calls {
		if !slices.Contains(list, c.Export) {
			list = append(list, c.Export)
		}
	}
	return list
}

func (g *guest) call(p *plugin.Plugin, c Call) (*plugin.CallResult, error) {
	return p.Call(g.ctx, "acme", c.Export, []byte(c.Input), nil)
}

// maxDepth is how deep a plugin's reader must be able to look, and to give up.
const maxDepth = 20_000

var badInputs = map[string]string{
	"nothing":                "",
	"half an object":         `{"scope":{`,
	"text":                   "hello",
	"null":                   "null",
	"an array":               "[]",
	"an object of nothing":   "{}",
	"names that are no text": `{"tool":1,"processor":1,"router":1,"provider":1}`,
	"bytes that are no text": "{\"tool\":\"\xff\",\"processor\":\"\xff\",\"router\":\"\xff\",\"provider\":\"\xff\"}",
	"deep nesting":           strings.Repeat("[", maxDepth),
}

func badInput(g *guest) (broken []error) {
	for _, export := range g.exports() {
		for name, input := range badInputs {
			r, err := g.call(g.plugin, Call{export, input})
			switch {
			case err != nil:
				if code := host.CodeOf(err); code != host.Internal && code != host.ResourceExhausted {
					broken = append(broken, fmt.Errorf("%s of %s ends with %w", export, name, err))
				}
			case !r.GuestError:
				broken = append(broken, fmt.Errorf("%s of %s is answered as if it were right: %.200s", export, name, r.Output))
			default:
				if err := errorObject(r.Output); err != nil {
					broken = append(broken, fmt.Errorf("%s of %s: %w", export, name, err))
				}
			}
		}
	}
	return broken
}

// errorObject says why raw is not an error object.
func errorObject(raw []byte) error {
	var e struct {
		Code    host.Code `json:"code"`
		Message string    `json:"message"`
	}
	if err := json.Unmarshal(raw, &e); err != nil || !e.Code.Valid() || e.Message == "" {
		return fmt.Errorf("the error object is %.200s; it needs a known code and a message", raw)
	}
	return nil
}

func unknownFields(g *guest) []error {
	return g.compare(func(c Call) (*plugin.CallResult, error) {
		c.Input = strings.TrimSuffix(strings.TrimSpace(c.Input), "}") + `,"x-later":{"a":[1,null]}}`
		return g.callFresh(c)
	}, "with an unknown field it answers")
}

func keptInstances(g *guest) []error {
	return g.compare(func(c Call) (*plugin.CallResult, error) {
		for range 3 {
			if r, err := g.call(g.plugin, c); err != nil {
				return r, err
			}
		}
		return g.call(g.plugin, c)
	}, "after calls like it it answers")
}

// compare compares another way of making each call with a fresh instance's.
func (g *guest) compare(other func(Call) (*plugin.CallResult, error), says string) (broken []error) {
	for _, c := range g.calls {
		want, err := g.callFresh(c)
		if err != nil {
			broken = append(broken, fmt.Errorf("%s with %s: %w", c.Export, c.Input, err))
			continue
		}
		got, err := other(c)
		if err != nil || string(got.Output) != string(want.Output) {
			broken = append(broken, fmt.Errorf("%s with %s: %s %.200s (error: %v), and otherwise %.200s",
				c.Export, c.Input, says, got.Output, err, want.Output))
		}
	}
	return broken
}

// callFresh makes a call of an instance that has had none.
func (g *guest) callFresh(c Call) (*plugin.CallResult, error) {
	p, err := g.runtime.Load(g.ctx, "fresh", g.wasm, &g.load)
	if err != nil {
		return &plugin.CallResult{}, err
	}
	defer p.Close()
	return g.call(p, c)
}

func answersAreJSON(g *guest) (broken []error) {
	for _, c := range g.calls {
		r, err := g.call(g.plugin, c)
		if err == nil && r.GuestError {
			err = errorObject(r.Output)
		} else if err == nil {
			err = json.Unmarshal(r.Output, &map[string]json.RawMessage{})
		}
		if err != nil {
			broken = append(broken, fmt.Errorf("%s with %s: %w", c.Export, c.Input, err))
		}
	}
	return broken
}

const (
	// memoryCalls is in how many calls memory must not grow. As many are made
	// before: a Go guest collects its first garbage at 4 MiB.
	memoryCalls = 10_000
	// memorySlack is what it may grow by all the same.
	memorySlack = 1 << 20
)

func memory(g *guest) (broken []error) {
	for _, c := range g.calls {
		before, err := g.memoryAfter(c)
		var after int64
		if err == nil {
			after, err = g.memoryAfter(c)
		}
		switch {
		case err != nil:
			broken = append(broken, fmt.Errorf("%s with %s, again and again: %w", c.Export, c.Input, err))
		case after > before+memorySlack:
			broken = append(broken, fmt.Errorf("%s with %s: memory grows from %d to %d bytes in %d calls, after as many before",
				c.Export, c.Input, before, after, memoryCalls))
		}
	}
	return broken
}

func (g *guest) memoryAfter(c Call) (bytes int64, err error) {
	for range memoryCalls {
		r, err := g.call(g.plugin, c)
		if err != nil {
			return 0, err
		}
		bytes = r.Cost.PeakMemory
	}
	return bytes, nil
}
