package plugintest

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin"
)

// maxDepth is the nesting of a bad input: deeper than pdk/ABI.md allows.
const maxDepth = 20_000

const deepNesting = "deep nesting"

var badInputs = []struct{ name, input string }{
	{"nothing", ""},
	{"half an object", `{"scope":{`},
	{"text", "hello"},
	{"null", "null"},
	{"an array", "[]"},
	{"an object of nothing", "{}"},
	{"names that are no text", `{"tool":1,"processor":1,"router":1,"provider":1}`},
	{"bytes that are no text", "{\"tool\":\"\xff\",\"processor\":\"\xff\",\"router\":\"\xff\",\"provider\":\"\xff\"}"},
	{deepNesting, strings.Repeat("[", maxDepth)},
	{"two values", `{} {}`},
	{"a byte order mark", "\ufeff{}"},
}

func badInput(g *guest) (broken []error) {
	for _, export := range g.exports() {
		for _, bad := range badInputs {
			r, err := g.sandbox.call(g.sandbox.plugin, Call{export, bad.input})
			switch {
			case err != nil:
				if !trapped(bad.name, err) {
					broken = append(broken, fmt.Errorf("%s of %s ends with %w", export, bad.name, err))
				}
			case !r.GuestError:
				broken = append(broken, fmt.Errorf("%s of %s is answered as if it were right: %.200s", export, bad.name, r.Output))
			default:
				if err := errorObject(r.Output); err != nil {
					broken = append(broken, fmt.Errorf("%s of %s: %w", export, bad.name, err))
				}
			}
		}
	}
	return broken
}

// trapped reports whether a guest trapped on bad input, which counts as an error, too. A
// call that runs until a limit ends it does not count, except on deepNesting.
func trapped(bad string, err error) bool {
	code := host.CodeOf(err)
	return code == host.Internal || code == host.ResourceExhausted && bad == deepNesting
}

// errorObject returns why raw is not an error object. Names are case-sensitive.
func errorObject(raw []byte) error {
	var code host.Code
	var message string
	m, err := members(string(raw))
	if err != nil || json.Unmarshal(m["code"], &code) != nil || json.Unmarshal(m["message"], &message) != nil || !code.Valid() || message == "" {
		return fmt.Errorf("the error object is %.200s; it needs a known code and a message", raw)
	}
	return nil
}

// afterErrors makes each call of an instance that has answered bad input.
func afterErrors(g *guest) []error {
	return g.compare(func(c Call, _ *plugin.CallResult) (*plugin.CallResult, error) {
		p, err := g.sandbox.runtime.Load(g.sandbox.ctx, loadedAs, g.sandbox.wasm, &g.sandbox.options)
		if err != nil {
			return &plugin.CallResult{}, err
		}
		defer p.Close()
		for _, bad := range badInputs {
			if g.sandbox.stops.rule < maxRuleStops-1 { // leave room for the call itself
				_, _ = g.sandbox.call(p, Call{c.Export, bad.input}) // another rule checks the answer
			}
		}
		return g.sandbox.call(p, c)
	}, "after bad input it answers")
}

// later is a value without a meaning in any version of the contract.
const later = `{"a":[1,null,9007199254740993]}`

func unknownFields(g *guest) []error {
	return g.compare(func(c Call, _ *plugin.CallResult) (*plugin.CallResult, error) {
		return g.sandbox.callFresh(c.with("x-later", json.RawMessage(later)))
	}, "with an unknown field it answers")
}

// keptCalls is the number of compared calls of one instance. It is larger than the number
// after which a guest may behave differently: the Go kit runs its garbage collector
// after 64 calls.
const keptCalls = 200

func keptInstances(g *guest) []error {
	return g.compare(func(c Call, want *plugin.CallResult) (r *plugin.CallResult, err error) {
		for range keptCalls {
			if r, err = g.sandbox.call(g.sandbox.plugin, c); err != nil || !sameResult(r, want) {
				break
			}
		}
		return r, err
	}, "after calls like it it answers")
}

// sameCalls is how often a call with a reproducible answer is repeated.
const sameCalls = 50

// reproducible returns the calls whose answers must be reproducible: those of routers and
// processors.
func (g *guest) reproducible() (list []Call) {
	for _, c := range g.calls {
		if c.Export == "process" || c.Export == "route" {
			list = append(list, c)
		}
	}
	return list
}

func nothingReproducible(g *guest) string {
	switch {
	case len(g.reproducible()) == 0:
		return "the plugin has no processor and no router"
	case g.sandbox.reachesOut():
		return "the plugin is granted what may change between two calls"
	}
	return ""
}

// sameAnswer checks that routers and processors give one answer, and that new instances
// use the same number of instructions for it.
func sameAnswer(g *guest) (broken []error) {
	for _, c := range g.reproducible() {
		var first *plugin.CallResult
		for i := range sameCalls {
			r, err := g.sandbox.call(g.sandbox.plugin, c)
			if i == 0 {
				first = r
			}
			if err != nil || !sameResult(r, first) {
				broken = append(broken, c.problem("call %d is answered %s, the first %s", i+1, shown(r, err), shown(first, nil)))
				break
			}
		}
		a, errA := g.sandbox.callFresh(c)
		b, errB := g.sandbox.callFresh(c)
		if errA == nil && errB == nil && a.Cost.Instructions != b.Cost.Instructions {
			broken = append(broken, c.problem("costs a fresh instance %d instructions, and another %d", a.Cost.Instructions, b.Cost.Instructions))
		}
	}
	return broken
}

// bulk is the number of bytes added to an input where memory is scarce.
const bulk = 4 << 20

// tightLimits makes the calls with too little memory, instructions or time. A plugin that
// does not check whether memory could grow would give another answer.
func tightLimits(g *guest) (broken []error) {
	for _, c := range g.calls {
		small, err := g.sandbox.callLoaded(c)
		if err != nil {
			broken = append(broken, c.problem("%w", err))
			continue
		}
		for _, l := range tighter(g.sandbox.options.Limits, small.Cost) {
			if err := g.squeeze(c, l.limits, l.bulky); err != nil {
				broken = append(broken, c.problem("with too little %s %w", l.what, err))
			}
		}
	}
	return broken
}

// tight are limits with too little of one resource for a call.
type tight struct {
	what   string
	limits plugin.Limits
	bulky  bool // the call is made with a long input
}

func tighter(l plugin.Limits, needed *host.Cost) []tight {
	memory, instructions, timeout := l, l, l
	memory.MemoryBytes = max(needed.PeakMemory, 1<<16)
	instructions.Instructions = max(needed.Instructions/2, 1)
	timeout.Timeout = time.Nanosecond
	return []tight{{"memory", memory, true}, {"instructions", instructions, false}, {"time", timeout, false}}
}

// squeeze returns how the answer under tight limits differs from that with room, unless
// it is an error.
func (g *guest) squeeze(c Call, l plugin.Limits, bulky bool) error {
	if bulky {
		c = c.withLast("x-later", `"`+strings.Repeat("x", bulk)+`"`)
	}
	got, err := g.sandbox.callUnder(c, l)
	switch {
	case host.CodeOf(err) == host.Canceled:
		return err
	case err != nil, got.GuestError:
		return nil
	}
	want, err := g.sandbox.callFresh(c)
	if err != nil || sameResult(got, want) || g.sandbox.varies(c, want) { // or the call fails even with room
		return nil
	}
	return fmt.Errorf("it answers %s, and otherwise %s", shown(got, nil), shown(want, nil))
}

const (
	// memorySlack is the growth of memory in a round that is tolerated.
	memorySlack = 1 << 20
	// memoryRounds is the number of rounds of calls, each of which must grow memory by
	// more than that, before growth is a problem. A guest with a garbage collector takes
	// a few megabytes before it collects for the first time: Go's takes four, and the
	// collected heap a little more.
	memoryRounds = 10
)

func memory(g *guest) (broken []error) {
	for _, c := range g.calls {
		if err := g.grows(c); err != nil {
			broken = append(broken, c.problem("%w", err))
		}
	}
	return broken
}

// grows returns an error if memory grows in every round of calls, if it shrinks, or if a
// call fails. A module cannot give memory back: if memory shrinks, it had grown until the
// instance was replaced.
func (g *guest) grows(c Call) error {
	p, err := g.sandbox.lasting()
	if err != nil {
		return err
	}
	defer p.Close()
	var first, before, now int64
	for round := range memoryRounds + 1 {
		for range g.repeats {
			r, err := g.sandbox.call(p, c)
			switch {
			case err != nil:
				return fmt.Errorf("again and again: %w", err)
			case r.Cost.PeakMemory < now:
				return fmt.Errorf("memory grows to %d bytes, until the instance is replaced", now)
			}
			now = r.Cost.PeakMemory
		}
		switch {
		case round == 0:
			first = now
		case now <= before+memorySlack:
			return nil
		}
		before = now
	}
	return fmt.Errorf("memory grows from %d to %d bytes in %d calls, after %d before", first, before, memoryRounds*g.repeats, g.repeats)
}

// histories returns the calls with messages that a plugin may include in its answer.
func (g *guest) histories() (list []Call) {
	for _, c := range g.calls {
		m, err := members(c.Input)
		if err == nil && c.Export == "process" && m["messages"] != nil {
			list = append(list, c)
		}
	}
	return list
}

func noHistories(g *guest) string {
	if len(g.histories()) == 0 {
		return "no processor of the plugin is handed messages"
	}
	return ""
}
