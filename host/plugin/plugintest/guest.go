package plugintest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/agenthost/agenthost/host/plugin"
)

// guest is a plugin under test, with the calls that the rules make of it.
type guest struct {
	sandbox sandbox
	calls   []Call
	repeats int
	// uncalled are the parts without a made-up call: "tool NAME".
	uncalled []string
	cases    []*goldenCase
	update   bool // rewrite the cases
}

// callable are the exports that calls name.
var callable = map[string]struct{}{"tool": {}, "process": {}, "route": {}, "provide": {}, "observe": {}}

// complete fills in the defaults of the options.
func (g *guest) complete() {
	if len(g.calls) == 0 {
		o := ordinary{observes: exportsObserve(g.sandbox.wasm)}
		o.addAll(g.sandbox.plugin.Manifest())
		g.calls = append(o.calls, g.caseCalls()...)
		for _, part := range o.uncalled {
			if !g.named(part) {
				g.uncalled = append(g.uncalled, part)
			}
		}
	}
	if g.repeats <= 0 {
		g.repeats = DefaultRepeats
	}
}

// The conversation of ordinary calls.
const (
	scope    = `"scope":{"tenant":"acme","run":"r1"}`
	messages = `"messages":[` +
		`{"id":"m1","role":"user","parts":[{"type":"text","text":"where is it?"}],"created_at":"2026-01-02T03:04:05Z"},` +
		`{"id":"m2","role":"assistant","parts":[{"type":"tool_call","id":"c1","name":"find","arguments":{"number":9007199254740993}}],"created_at":"2026-01-02T03:04:06Z"},` +
		`{"id":"m3","role":"tool","parts":[{"type":"tool_result","id":"c1","name":"find","content":{"weight":1.0}}],"created_at":"2026-01-02T03:04:07Z"},` +
		`{"id":"m4","role":"user","parts":[{"type":"text","text":"hello"},{"type":"data","value":[9007199254740993,1.0,1e2]}],"created_at":"2026-01-02T03:04:08Z"}]`
	responses = `"responses":[{"id":"m5","role":"assistant","parts":[{"type":"text","text":"hello"}],"created_at":"2026-01-02T03:04:09Z"}]`
	outline   = `"outline":{"count":1,"roles":"u","bytes":[5],"chars":[5],"parts":[1],"tools":[]}`
)

// maxOrdinaryCalls bounds the made-up calls for one plugin.
const maxOrdinaryCalls = 100

// ordinary makes up calls of the parts in a manifest.
type ordinary struct {
	calls    []Call
	uncalled []string
	observes bool
}

func (o *ordinary) addAll(m *plugin.Manifest) {
	for _, t := range m.Tools {
		if t.Export == "" { // otherwise it is an Extism function, which takes any bytes
			o.add("tool", "tool", t.Name, "arguments", sample(t.Parameters), `"call_id":"c1","attempt":1,`+scope)
		}
	}
	for _, p := range m.Processors {
		history := messages
		if p.Input == "outline" {
			history = outline
		}
		o.addConfigured("process", "processor", p.Name, p.Config, scope+`,"model":"m",`+history)
	}
	for _, r := range m.Routers {
		o.addConfigured("route", "router", r.Name, r.Config, scope+`,"call_count":0,"stack":[],"agents":[{"name":"clerk","description":""}]`)
	}
	for _, p := range m.Providers {
		o.addConfigured("provide", "provider", p.Name, p.Config, scope+","+messages)
		if o.observes && (p.Observe == nil || *p.Observe) {
			o.addConfigured("observe", "provider", p.Name, p.Config, scope+","+messages+","+responses)
		}
	}
}

// addConfigured adds a call of a part, with a configuration if it has a schema.
func (o *ordinary) addConfigured(export, kind, name string, schema json.RawMessage, rest string) {
	if len(schema) == 0 {
		o.add(export, kind, name, "", json.RawMessage{}, rest)
		return
	}
	o.add(export, kind, name, "config", sample(schema), rest)
}

// add adds a call with a value that fits the part's schema; with nil it adds no call.
func (o *ordinary) add(export, kind, name, member string, value json.RawMessage, rest string) {
	switch {
	case value == nil:
		o.uncalled = append(o.uncalled, kind+" "+name)
		return
	case len(o.calls) >= maxOrdinaryCalls:
		return
	}
	input := fmt.Sprintf(`{%q:%s,`, kind, mustJSON(name))
	if member != "" {
		input += fmt.Sprintf(`%q:%s,`, member, value)
	}
	o.calls = append(o.calls, Call{export, input + rest + "}"})
}

// exportsObserve reports whether a host would call a provider of the module after
// its agent has run.
func exportsObserve(wasm []byte) bool {
	in, err := plugin.Inspect(wasm)
	return err == nil && (in.Interpreter != "" || slices.ContainsFunc(in.Exports, func(e plugin.Extern) bool { return e.Name == "agenthost_observe" }))
}

// caseCalls returns the calls of the cases without host operations: the other cases get
// the answers of operations from the case alone.
func (g *guest) caseCalls() (calls []Call) {
	for _, c := range g.cases {
		if len(c.ops) == 0 && c.tools == nil && c.want.err == nil && checkCall(c.call) == nil {
			calls = append(calls, c.call)
		}
	}
	return calls
}

// exports returns the called exports, each once.
func (g *guest) exports() (list []string) {
	for _, c := range g.calls {
		if !slices.Contains(list, c.Export) {
			list = append(list, c.Export)
		}
	}
	return list
}

// compare compares the result of other for each call with that of a new instance, which
// other gets as its argument.
func (g *guest) compare(other func(Call, *plugin.CallResult) (*plugin.CallResult, error), says string) (broken []error) {
	for _, c := range g.calls {
		want, err := g.sandbox.callFresh(c)
		if err != nil {
			broken = append(broken, c.problem("%w", err))
			continue
		}
		if got, err := other(c, want); err != nil || !sameResult(got, want) && !g.sandbox.varies(c, want) {
			broken = append(broken, c.problem("%s %s, and otherwise %s", says, shown(got, err), shown(want, nil)))
		}
	}
	return broken
}

func sameResult(a, b *plugin.CallResult) bool {
	return a.GuestError == b.GuestError && string(a.Output) == string(b.Output)
}

// shown returns a result as text for a problem.
func shown(r *plugin.CallResult, err error) string {
	switch {
	case err != nil:
		return "nothing but the error: " + err.Error()
	case r.GuestError:
		return fmt.Sprintf("the error object %.200s", r.Output)
	}
	return fmt.Sprintf("%.200s", r.Output)
}

func (c Call) problem(format string, args ...any) error {
	return fmt.Errorf("%s with %.300s: %w", c.Export, c.Input, fmt.Errorf(format, args...))
}

// members decodes the members of an object.
func members(input string) (m map[string]json.RawMessage, err error) {
	err = json.Unmarshal([]byte(input), &m)
	if err == nil && m == nil {
		err = fmt.Errorf("null is not an object")
	}
	return m, err
}

// with returns the call with a member set.
func (c Call) with(name string, value json.RawMessage) Call {
	m, err := members(c.Input)
	if err != nil {
		return c // checkCall has refused this input
	}
	m[name] = value
	input, err := json.Marshal(m)
	if err != nil {
		return c
	}
	return Call{c.Export, string(input)}
}

// withLast returns the call with a member at the end of its input, which does not have it: a
// value of megabytes is neither read nor sorted.
func (c Call) withLast(name, value string) Call {
	const space = " \t\r\n"
	rest := strings.TrimRight(strings.TrimSuffix(strings.TrimRight(c.Input, space), "}"), space)
	if !strings.HasSuffix(rest, "{") {
		rest += ","
	}
	return Call{c.Export, rest + strconv.Quote(name) + ":" + value + "}"}
}
