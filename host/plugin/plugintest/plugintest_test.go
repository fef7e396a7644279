package plugintest

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/internal/longtest"
	"github.com/agenthost/agenthost/internal/testcode"
	"github.com/agenthost/agenthost/plugins/tokenlimiter"
	"github.com/agenthost/agenthost/plugins/toolcallfilter"
)

// repeats is how often a call is repeated in a test of what memory does.
func repeats() int {
	if !longtest.Enabled() {
		return longtest.Alone(100, 500)
	}
	return DefaultRepeats
}

func TestShippedPlugins(t *testing.T) {
	t.Parallel()
	t.Run("toolcallfilter", func(t *testing.T) {
		TestGuest(t, toolcallfilter.Wasm, &Options{Runtime: cached(), Repeats: repeats()})
	})
	t.Run("tokenlimiter", func(t *testing.T) {
		longtest.Need(t, "otherwise one of the shipped plugins is checked")
		TestGuest(t, tokenlimiter.Wasm, &Options{Runtime: cached(), Calls: []Call{
			{"process", `{"processor":"tokenlimiter","config":100,` + scope + `,"model":"m",` + outline + `}`},
			{"process", `{"processor":"tokenlimiter","config":0,` + scope + `,"model":"m",` + outline + `}`},
		}})
	})
}

// cached is a runtime whose compiled code other tests have, too, and whose calls have time: a
// machine may have much else to do.
func cached() *plugin.Options {
	return &plugin.Options{CacheDir: testcode.Dir(), Limits: plugin.Limits{Timeout: time.Minute}}
}

// brokenRules returns the rules that a guest breaks, of all or of some.
func brokenRules(t *testing.T, wasm []byte, opts *Options, some ...*rule) (broken []string) {
	t.Helper()
	if some == nil {
		some = rules()
	}
	if opts.Limits.Timeout == 0 {
		opts.Limits.Timeout = time.Minute // a machine may have much else to do
	}
	for r := range check(t.Context(), wasm, opts, some) {
		if !r.OK() {
			broken = append(broken, r.Rule)
			t.Logf("%s: %s", r.Rule, r.Problems[0])
		}
	}
	return broken
}

// The kit finds what is wrong with a guest that is wrong on purpose, and
// nothing else.
func TestBrokenGuest(t *testing.T) {
	t.Parallel()
	wasm := testcode.Build(t, "../testdata/guests/broken")
	tool := func(name string) Call { return Call{"tool", `{"tool":"` + name + `","arguments":{},` + scope + `}`} }
	process := func(name string) Call {
		return Call{"process", `{"processor":"` + name + `","model":"m",` + scope + `,` + messages + `}`}
	}
	const (
		memoryRule  = "memory does not grow with calls"
		answersRule = "answers are what the contract says"
		carriedRule = "unknown fields and parts of messages are carried"
		keptRule    = "a kept instance answers like a fresh one"
		vectorsRule = "the golden vectors are read as they are meant" // which takes a reader of every message
	)
	for i, c := range []struct {
		call  Call
		wants []string
	}{
		{tool("good"), nil},
		{process("carries"), []string{vectorsRule}},
		{Call{"route", `{"router":"swallows"}`}, []string{"bad input is answered with an error", vectorsRule}},
		{tool("sulks"), []string{"after an error it answers as before", keptRule}},
		{tool("strict"), []string{"unknown fields are passed over"}},
		{process("forgets"), []string{carriedRule, vectorsRule, answersRule}},
		{tool("mumbles"), []string{answersRule}},
		{Call{"provide", `{"provider":"invents"}`}, []string{answersRule}},
		{Call{"provide", `{"provider":"repeats"}`}, []string{answersRule}},
		{process("wavers"), []string{vectorsRule, "the same input gives the same answer", keptRule}},
		{tool("counts"), []string{keptRule}},
		{tool("keeps"), []string{memoryRule}},
		{tool("bends"), []string{answersRule}},
		{tool("garbles"), []string{answersRule}},
		{tool("shouts"), []string{"calls are answered with results", answersRule}},
		{process("trims"), []string{carriedRule, vectorsRule}},
		{process("rounds"), []string{carriedRule, vectorsRule}},
		{tool("tires"), []string{keptRule}},
		{tool("gorges"), []string{memoryRule}},
		{tool("tells"), nil},
		{Call{"observe", `{"provider":"invents"}`}, []string{"bad input is answered with an error", answersRule}},
	} {
		t.Run(c.call.Export+" "+c.call.Input, func(t *testing.T) {
			if i%8 != 0 {
				longtest.Need(t, "otherwise only every eighth guest is checked")
			}
			opts := &Options{Runtime: cached(), Calls: []Call{c.call}, Repeats: 1, Limits: plugin.Limits{Instructions: 1_000_000_000}}
			opts.Granted.Clock = c.call == tool("tells")
			switch {
			case c.call == tool("gorges"): // whose instance is replaced before a round of calls has ended, and the next as well
				opts.Repeats = 100
			case c.wants == nil || slices.Contains(c.wants, memoryRule):
				opts.Repeats = repeats()
			}
			got := brokenRules(t, wasm, opts)
			if !slices.Equal(got, c.wants) {
				t.Errorf("the guest breaks the rules %q, want %q", got, c.wants)
			}
		})
	}
}

// Each rule about reading fails a guest that reads otherwise, and no sound one.
func TestGuestsThatMisread(t *testing.T) {
	t.Parallel()
	wasm := testcode.Build(t, "../testdata/guests/misreads")
	const (
		resultsRule = "calls are answered with results"
		writtenRule = "the same JSON, written otherwise, gives the same answer"
		sizesRule   = "deep and large input is read"
		vectorsRule = "the golden vectors are read as they are meant"
	)
	tool := func(name string) Call { return Call{"tool", `{"tool":"` + name + `","arguments":{},` + scope + `}`} }
	process := func(name string) Call {
		return Call{"process", `{"processor":"` + name + `","model":"m",` + scope + `,` + outline + `}`}
	}
	reading := slices.DeleteFunc(rules(), func(r *rule) bool { // the others take longer, and look at other things
		return !slices.Contains([]string{"bad input is answered with an error", "unknown fields are passed over",
			resultsRule, writtenRule, sizesRule, vectorsRule}, r.name)
	})
	for i, c := range []struct {
		call  Call
		wants []string
	}{
		{Call{"tool", `{"tool":"sound","arguments":{"city":"Malm\u00f6 \"😀\"","days":3,"unit":"c"},` + scope + `}`}, nil},
		{process("checks"), nil},
		{tool("refuses"), []string{resultsRule}},
		{tool("plain"), []string{writtenRule}},
		{tool("dense"), []string{writtenRule}},
		{tool("ordered"), []string{"unknown fields are passed over", writtenRule, vectorsRule}},
		{tool("single"), []string{writtenRule}},
		{tool("first"), []string{writtenRule}},
		{tool("paired"), []string{writtenRule}},
		{tool("decimal"), []string{writtenRule}},
		{tool("digits"), []string{writtenRule}},
		{tool("shallow"), []string{sizesRule}},
		{tool("dies"), []string{sizesRule}},
		{tool("small"), []string{sizesRule}},
		{tool("few"), []string{sizesRule}},
		{process("trusts"), []string{vectorsRule}},
		{process("either"), []string{vectorsRule}},
	} {
		t.Run(c.call.Export+" "+c.call.Input[:25], func(t *testing.T) {
			if i%6 != 0 {
				longtest.Need(t, "otherwise only every sixth guest is checked")
			}
			got := brokenRules(t, wasm, &Options{Runtime: cached(), Calls: []Call{c.call}, Repeats: 1}, reading...)
			if !slices.Equal(got, c.wants) {
				t.Errorf("the guest breaks the rules %q, want %q", got, c.wants)
			}
		})
	}

	t.Run("a call is made up that fits the parameters", func(t *testing.T) {
		for name, want := range map[string]string{
			`{"type":"object","required":["a"],"properties":{"a":{"type":"array","minItems":1,"items":{"type":["number","null"]}}}}`: `{"a":[1]}`,
			`{"type":"string","minLength":3}`: `"xxx"`, `{"anyOf":[{"type":"boolean"}]}`: `true`, ``: `{}`, `true`: `{}`,
			`{"type":"object","required":["a"],"properties":{"a":{"$ref":"#"}}}`: ``, `{"type":"string","pattern":"^[0-9]$"}`: ``,
			`{"type":"string","pattern":"^[0-9]$","examples":["7"]}`: `"7"`,
		} {
			if got := string(sample(json.RawMessage(name))); got != want {
				t.Errorf("the sample of %s is %s, want %s", name, got, want)
			}
		}
	})
}

// A plugin that does not come back, or dies, at every call ends the check by
// itself, and the result says so.
func TestACheckOfAHostileGuestEnds(t *testing.T) {
	t.Parallel()
	wasm := testcode.Build(t, "../testdata/guests/misreads")
	tool := func(name string) []Call {
		return []Call{{"tool", `{"tool":"` + name + `","arguments":{},` + scope + `}`}}
	}
	limits := plugin.Limits{Instructions: longCall} // of a loop; nothing else here takes as many
	var last *Result
	n := 0
	for r := range Check(t.Context(), wasm, &Options{Runtime: cached(), Calls: tool("loops"), Repeats: 1, Limits: limits}) {
		last = r
		n++
	}
	if n == len(Rules()) || len(last.Problems) == 0 || !strings.Contains(last.Problems[len(last.Problems)-1], "calls were ended by a limit, so the check ends here") {
		t.Errorf("%d rules, the last result %+v; want that the check ends before the last rule, and says so", n, last)
	}
	for r := range check(t.Context(), wasm, &Options{Runtime: cached(), Calls: tool("floods"), Repeats: 10}, rules()[:5]) {
		for _, p := range r.Problems {
			if len(p) > 4<<10 {
				t.Errorf("%s: a problem of %d bytes: %.100s", r.Rule, len(p), p)
			}
		}
	}
	traps := 0
	for r := range Check(t.Context(), wasm, &Options{Runtime: cached(), Calls: tool("traps"), Repeats: 1}) {
		for _, p := range r.Problems {
			if strings.Contains(p, "it is over") {
				traps++
				break
			}
		}
	}
	if traps < 8 {
		t.Errorf("a guest that traps at every call breaks %d rules in the words of its trap, want 8 or more", traps)
	}
}

// A tool for which no call can be made up is no reason to be content.
func TestAPartThatIsNotCalledIsAProblem(t *testing.T) {
	wasm := testcode.Build(t, "../testdata/guests/misreads")
	for r := range Check(t.Context(), wasm, &Options{Runtime: cached(), Repeats: 1}) {
		if r.Rule != "calls are answered with results" {
			continue
		}
		if !slices.ContainsFunc(r.Problems, func(p string) bool { return strings.HasPrefix(p, "tool odd: no value was found") }) {
			t.Errorf("problems %q, want that the tool odd is not called", r.Problems)
		}
		break
	}
}

func TestWhatCannotBeLoadedIsHeldToOneRule(t *testing.T) {
	var results []*Result
	for r := range Check(t.Context(), []byte("no module"), nil) {
		results = append(results, r)
	}
	if len(results) != 1 || results[0].Rule != loads || results[0].OK() {
		t.Errorf("results %+v, want that it cannot be loaded", results)
	}
	ok := 0
	for r := range Check(t.Context(), tokenlimiter.Wasm, &Options{Runtime: cached(), Calls: []Call{{"describe", "{}"}, {"tool", "null"}}}) {
		results = append(results[:0], r)
		ok++
	}
	if ok != 1 || len(results[0].Problems) != 2 || !strings.Contains(results[0].Problems[0], `"describe"`) {
		t.Errorf("%d results, the last %+v; want that the calls cannot be made", ok, results[0])
	}
}

func TestRulesAreWhatIsChecked(t *testing.T) {
	var rules []string
	for r := range Check(t.Context(), toolcallfilter.Wasm, &Options{Runtime: cached(), Repeats: 1}) {
		rules = append(rules, r.Rule)
	}
	if !slices.Equal(rules, Rules()) {
		t.Errorf("the rules checked are %q, and listed %q", rules, Rules())
	}
	rules = nil
	for r := range Check(t.Context(), toolcallfilter.Wasm, &Options{Runtime: cached()}) {
		rules = append(rules, r.Rule)
		break
	}
	if !slices.Equal(rules, Rules()[:1]) {
		t.Errorf("after the reader has left the rules checked are %q", rules)
	}
}

// A function of an Extism plugin knows nothing of the contract, and breaks none of
// its rules.
func TestPlainFunctionsAreNotHeldToTheContract(t *testing.T) {
	wasm, err := plugin.ReadModule("../../../examples/extism/c/iban.wasm", plugin.DefaultModuleBytes)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for r := range Check(t.Context(), wasm, &Options{Runtime: cached(), Repeats: 1}) {
		if n++; !r.OK() || (r.Skipped == "") != (r.Rule == loads) {
			t.Errorf("%+v, want that only the first rule applies", r)
		}
	}
	if n != len(Rules()) {
		t.Errorf("%d rules, want %d", n, len(Rules()))
	}
}

func TestDiffJSON(t *testing.T) {
	for _, c := range []struct {
		want, got string
		diff      []string
	}{
		{`{"a":1,"b":[1,2]}`, `{ "b" : [1, 2], "a" : 1 }`, nil},
		{`1.0`, `1`, []string{"/: 1, want 1.0"}},
		{`9007199254740993`, `9007199254740992`, []string{"/: 9007199254740992, want 9007199254740993"}},
		{`{"a":1}`, `{"b":1}`, []string{"/a: is missing, want 1", "/b: 1, want nothing"}},
		{`[1,{"a":null}]`, `[1,{"a":false},3]`, []string{"/: 3 elements, want 2", "/1/a: false, want null"}},
		{`"x"`, `{"x":1}`, []string{`/: {"x":1}, want "x"`}},
		{`{}`, `{} {}`, []string{"it is not JSON: there is more after the value: {} {}"}},
		{`{`, `{}`, []string{"wanted is not JSON: unexpected EOF"}},
	} {
		if got := diffJSON([]byte(c.want), []byte(c.got)); !slices.Equal(got, c.diff) {
			t.Errorf("diff of %s and %s: %q, want %q", c.want, c.got, got, c.diff)
		}
	}
}

func TestACancelledCheckEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var results []*Result
	for r := range Check(ctx, toolcallfilter.Wasm, &Options{Runtime: cached()}) {
		results = append(results, r)
		cancel()
	}
	if n := len(results); n != 2 || results[1].OK() {
		t.Errorf("%d results after the first was answered by a cancellation, the last %+v", n, results[n-1])
	}
}
