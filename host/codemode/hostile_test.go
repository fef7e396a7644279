package codemode_test

// Scenario: a model writes code that wants to stay, to grow, to lie or to get out. Each ends in
// an answer or an error with a code, in time, and the next code runs.

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/codemode"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/nested"
	"github.com/agenthost/agenthost/internal/longtest"
	"github.com/agenthost/agenthost/internal/testhost"
)

// hostile are codes by what they try.
var hostile = []struct {
	name, code string
	codes      string // of the error; with ? in front also an answer, empty: an answer, with =: this one
}{
	{"an endless loop", `for (;;);`, "deadline_exceeded resource_exhausted"},
	{"an endless loop in a function", `const f = () => { while (true) {} }; f()`, "deadline_exceeded resource_exhausted"},
	{"a loop that catches everything", `for (;;) { try { for (;;); } catch {} }`, "deadline_exceeded resource_exhausted"},
	{"a loop in finally", `try { return 1 } finally { for (;;); }`, "deadline_exceeded resource_exhausted"},
	{"an endless loop of jobs", `for (;;) await null`, "deadline_exceeded resource_exhausted"},
	{"jobs that make jobs", `const f = () => { Promise.resolve().then(f) }; f(); await new Promise(() => {})`, "deadline_exceeded resource_exhausted"},
	{"a thenable that never settles", `await { then() {} }`, "failed_precondition"},
	{"a thenable that thenables", `const t = { then(f) { f(t) } }; await t`, "deadline_exceeded resource_exhausted"},
	{"a promise that never settles", `await new Promise(() => {})`, "failed_precondition"},
	{"many promises that never settle", `await Promise.all(Array.from({length: 10000}, () => new Promise(() => {})))`, "failed_precondition resource_exhausted"},
	{"a flood of promises", `const l = []; for (;;) l.push(Promise.resolve().then(() => l.length))`, "deadline_exceeded resource_exhausted invalid_argument"},
	{"memory of strings", `let s = "x"; for (;;) s += s`, "deadline_exceeded resource_exhausted invalid_argument"},
	{"memory of arrays", `const l = []; for (;;) l.push(new Array(1000).fill(7))`, "deadline_exceeded resource_exhausted invalid_argument"},
	{"memory of buffers", `const l = []; for (;;) l.push(new Uint8Array(1 << 20))`, "deadline_exceeded resource_exhausted invalid_argument"},
	{"one huge buffer", `return new ArrayBuffer(2 ** 40).byteLength`, "invalid_argument"},
	{"one huge array", `return new Array(2 ** 32 - 1).fill(0).length`, "deadline_exceeded resource_exhausted invalid_argument"},
	{"one huge string", `return "x".repeat(2 ** 30 - 2).length`, "resource_exhausted invalid_argument"},
	{"a huge sparse array as JSON", `const a = []; a[2 ** 31] = 1; return a`, "deadline_exceeded resource_exhausted invalid_argument"},
	{"memory that catches its end", `const l = []; for (;;) { try { l.push(new Uint8Array(1 << 22)) } catch { l.push(0) } }`, "deadline_exceeded resource_exhausted invalid_argument"},
	{"a large BigInt", `let n = 2n; for (;;) n **= 2n`, "deadline_exceeded resource_exhausted invalid_argument"},
	{"digits of a large BigInt", `return String(2n ** 4000000n).length`, "deadline_exceeded resource_exhausted invalid_argument"},
	{"deep recursion", `const f = () => f() + 1; return f()`, "resource_exhausted invalid_argument"},
	{"deep recursion that catches", `const f = () => { try { return f() } catch { return f() } }; return f()`, "deadline_exceeded resource_exhausted invalid_argument"},
	{"deep recursion of JSON", `let o = {}; for (let i = 0; i < 1e5; i++) o = {o}; return o`, "resource_exhausted invalid_argument"},
	{"deep recursion of toString", `const a = []; a[0] = a; let o = {toString() { return "" + o }}; return "" + o`, "resource_exhausted invalid_argument"},
	{"deep recursion of a sort", `[1, 2, 3].sort(function f() { return [1, 2].sort(f) })`, "deadline_exceeded resource_exhausted invalid_argument"},
	{"deep recursion of a proxy", `const p = new Proxy({}, {get: (t, k, r) => r[k]}); return p.x`, "resource_exhausted invalid_argument"},
	{"deep nesting in the source", `return ` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000), "resource_exhausted invalid_argument"},
	{"a long chain in the source", `return 1` + strings.Repeat("+1", 100000), "? resource_exhausted"},
	{"a regular expression that backtracks", `return /^(a+)+$/.test("a".repeat(40) + "b")`, "deadline_exceeded resource_exhausted invalid_argument"},
	{"a regular expression that looks ahead", `return /^(?=(a+))*\1*$/.test("a".repeat(1e5) + "b")`, "? deadline_exceeded resource_exhausted invalid_argument"},
	{"a regular expression of a huge count", `return new RegExp("(a{1000}){1000}{1000}").test("a")`, "? deadline_exceeded resource_exhausted invalid_argument"},
	{"a replacement that grows", `let s = "a"; for (;;) s = s.replace(/a/g, "aaaaaaaa")`, "deadline_exceeded resource_exhausted invalid_argument"},
	{"a flood of console lines", `for (let i = 0; i < 1e5; i++) console.log("line", i); return 1`, "? resource_exhausted"},
	{"an endless flood of console lines", `for (;;) console.log("x".repeat(100))`, "deadline_exceeded resource_exhausted"},
	{"one huge console line", `console.log("x".repeat(1e7)); return 1`, "? resource_exhausted"},
	{"a result that is too large", `return "x".repeat(1e6)`, "resource_exhausted"},
	{"a result of many items", `return Array.from({length: 1e5}, (_, i) => i)`, "resource_exhausted"},
	{"a cycle as a result", `const a = {}; a.a = a; return a`, "invalid_argument"},
	{"a function as a result", `return () => 1`, ""},
	{"a symbol as a result", `return Symbol("x")`, ""},
	{"a number that is none as a result", `return [NaN, Infinity, -0]`, ""},
	{"a BigInt as a result", `return 2n ** 70n`, ""},
	{"a toJSON that loops", `return {toJSON() { for (;;); }}`, "deadline_exceeded resource_exhausted"},
	{"a toJSON that throws", `return {toJSON() { throw 7 }}`, "invalid_argument"},
	{"a toJSON that gives another", `const f = () => ({toJSON: f}); return {toJSON: f}`, ""},
	{"a getter that lies", `let n = 0; return {get a() { return n++ ? "x".repeat(1e6) : 1 }}`, ""},
	{"a getter that throws", `return {get a() { throw {} }}`, "invalid_argument"},
	{"a proxy as a result", `return new Proxy({}, {ownKeys() { return ["a", "a"] }})`, "? invalid_argument"},
	{"a proxy with endless keys", `let i = 0; return new Proxy([], {get: (t, k) => k === "length" ? 2 ** 53 - 1 : 0})`, "deadline_exceeded resource_exhausted invalid_argument"},
	{"a revoked proxy", `const r = Proxy.revocable({}, {}); r.revoke(); return r.proxy`, "invalid_argument"},
	{"a throw of nothing", `throw undefined`, "invalid_argument"},
	{"a throw of a string", `throw "no"`, "invalid_argument"},
	{"a throw of a proxy", `throw new Proxy({}, {get() { throw 1 }, getPrototypeOf() { throw 2 }})`, "invalid_argument"},
	{"a throw of an error that lies", `const e = new Error("x"); Object.defineProperty(e, "message", {get() { for (;;); }}); throw e`, "deadline_exceeded resource_exhausted"},
	{"a throw of a huge message", `throw new Error("x".repeat(1e7))`, "invalid_argument resource_exhausted"},
	{"a throw of an error with an odd stack", `const e = new Error("x"); e.stack = 7; e.name = {}; throw e`, "invalid_argument"},
	{"a prototype that pollutes objects", `Object.prototype.kind = "error"; Object.prototype.toJSON = () => "x"; return await tools.add({a: 1, b: 2})`, "? invalid_argument failed_precondition"},
	{"a prototype of arrays without methods", `for (const k of Object.getOwnPropertyNames(Array.prototype)) delete Array.prototype[k]; return tools.add({a: 1, b: 2})`, "? invalid_argument resource_exhausted"},
	{"promises that do not settle", `Promise.prototype.then = () => {}; return 1`, "? failed_precondition resource_exhausted invalid_argument"},
	{"a JSON that lies", `JSON.stringify = () => "{}"; JSON.parse = () => 7; return await tools.add({a: 1, b: 2})`, ""},
	{"a Map, a Reflect and an Object that throw", `Reflect.apply = Object.keys = Object.defineProperty = () => { throw 1 }; return 1`, "? invalid_argument"},
	{"a String whose methods loop", `String.prototype.replaceAll = String.prototype.slice = () => { for (;;); }; throw new Error("x")`, "deadline_exceeded resource_exhausted"},
	{"a RegExp whose exec lies", `RegExp.prototype.exec = () => ({1: 1e9, 2: {}}); throw new Error("x")`, "invalid_argument"},
	{"an eval that loops", `eval("for (;;);")`, "deadline_exceeded resource_exhausted"},
	{"a Function that loops", `new Function("for (;;);")()`, "deadline_exceeded resource_exhausted"},
	{"an end of the function that it is in", `}); for (;;); (async function () {`, "invalid_argument deadline_exceeded resource_exhausted"},
	{"an async generator that never ends", `async function* g() { for (;;) yield 1 } for await (const x of g());`, "deadline_exceeded resource_exhausted"},
	{"a generator that never ends", `function* g() { for (;;) yield 1 } return [...g()]`, "deadline_exceeded resource_exhausted invalid_argument"},
	{"an iterator that never ends", `return Array.from({[Symbol.iterator]: () => ({next: () => ({})})})`, "deadline_exceeded resource_exhausted invalid_argument"},
	{"the kit's way to the host", `const kit = globalThis[Symbol.for("agenthost")]; return kit.call("kv.get", {key: "a"})`, "invalid_argument permission_denied"},
	{"every other operation", `const {call} = globalThis[Symbol.for("agenthost")]; for (const op of ["emit", "artifact.write", "artifact.read", "step.begin", "state.get", "state.patch", "http.fetch", "queue.send", "model.generate", "nothing"]) { try { call(op, {kind: "x", path: ""}); return op } catch {} } return "none"`, `={"result":"none"}`},
	{"itself through the kit", `const {call} = globalThis[Symbol.for("agenthost")]; return call("tool.call", {calls: [{name: "run_code", arguments: {code: "return 1"}}]})`, "invalid_argument failed_precondition permission_denied"},
	{"a tool that the agent has not", `const {call} = globalThis[Symbol.for("agenthost")]; return call("tool.call", {calls: [{name: "steal", arguments: {}}]}).results[0].code`, ""},
	{"the kit's registration", `const kit = globalThis[Symbol.for("agenthost")]; kit.tool({name: "x"}, () => 1)`, "invalid_argument"},
	{"the kit's idle hook", `globalThis[Symbol.for("agenthost")].idle(() => true); await new Promise(() => {})`, "deadline_exceeded resource_exhausted"},
	{"a hook that throws", `globalThis[Symbol.for("agenthost")].idle(() => { throw 1 }); await 1`, "resource_exhausted"},
	{"an import of a module", `return Object.keys(await import("fs"))`, "invalid_argument failed_precondition"},
	{"globals of other hosts", `return [typeof process, typeof require, typeof fetch, typeof std, typeof os, typeof WebAssembly, typeof setTimeout]`, ""},
	{"a flood of calls of tools", `for (;;) await tools.add({a: 1, b: 1})`, "resource_exhausted deadline_exceeded invalid_argument"},
	{"a flood of calls in one list", `await Promise.all(Array.from({length: 5000}, () => tools.add({a: 1, b: 1})))`, "? deadline_exceeded resource_exhausted invalid_argument"},
	{"huge arguments", `await tools.add({a: 1, b: 1, c: "x".repeat(5e6)})`, "invalid_argument resource_exhausted"},
	{"arguments that are a cycle", `const a = {}; a.a = a; await tools.add(a)`, "invalid_argument"},
	{"arguments that are a function", `await tools.add(() => 1)`, "invalid_argument"},
	{"arguments with a toJSON", `await tools.add({toJSON: () => undefined})`, "invalid_argument"},
	{"a change of the tools", `tools.add = () => 7; return await tools.add({a: 1, b: 1})`, ""},
	{"a lock of all that there is", `for (const k of Reflect.ownKeys(globalThis)) { try { Object.freeze(globalThis[k]); delete globalThis[k] } catch {} } return 1`, ""},
	{"an atomic wait", `Atomics.wait(new Int32Array(new SharedArrayBuffer(8)), 0, 0)`, "invalid_argument deadline_exceeded resource_exhausted"},
	{"a date that never ends", `const end = Date.now() + 1e9; while (Date.now() < end);`, "deadline_exceeded resource_exhausted"},
	{"sorts of a large array", `const a = Array.from({length: 3e5}, (_, i) => (i * 7919) % 300007); for (;;) { a.sort(); a.sort((x, y) => y - x) }`, "deadline_exceeded resource_exhausted invalid_argument"},
	{"sorts of a typed array", `const a = new Float64Array(2e6); for (;;) { a.fill(1); a[0] = 2; a.sort() }`, "deadline_exceeded resource_exhausted"},
	{"copies within a buffer", `const a = new Uint8Array(3e7); for (;;) a.copyWithin(1, 0)`, "deadline_exceeded resource_exhausted"},
	{"a quadratic search in a text", `const s = "a".repeat(4e6), t = "a".repeat(2e6) + "b"; for (;;) s.indexOf(t)`, "deadline_exceeded resource_exhausted"},
	{"texts that are repeated", `for (;;) "abc".repeat(5e6).length`, "deadline_exceeded resource_exhausted"},
	{"a text that is normalized", `const s = "e\u0301\u0323".repeat(1e6); for (;;) s.normalize("NFC")`, "deadline_exceeded resource_exhausted invalid_argument"},
	{"a text in other cases", `const s = "ß".repeat(3e6); for (;;) s.toUpperCase()`, "deadline_exceeded resource_exhausted invalid_argument"},
	{"JSON of a large value", `const a = Array.from({length: 2e5}, (_, i) => ({i})); for (;;) JSON.parse(JSON.stringify(a))`, "deadline_exceeded resource_exhausted invalid_argument"},
	{"a text that is split and joined", `const s = "a,".repeat(1e6); for (;;) s.split(",").join(";")`, "deadline_exceeded resource_exhausted invalid_argument"},
	{"a sparse array that is reversed", `const a = []; a[2 ** 32 - 2] = 1; return a.reverse().length`, "? deadline_exceeded resource_exhausted invalid_argument"},
	{"quotients of large BigInts", `const a = 3n ** 2000000n, b = 7n ** 500000n; for (;;) a / b`, "deadline_exceeded resource_exhausted invalid_argument"},
	{"a text to a BigInt", `const s = "9".repeat(2e6); for (;;) BigInt(s)`, "deadline_exceeded resource_exhausted invalid_argument"},
	{"an eval of a large source", `const s = "[" + "1,".repeat(1e6) + "]"; for (;;) eval(s)`, "deadline_exceeded resource_exhausted invalid_argument"},
	{"a collection of much garbage", `let l; for (;;) { l = null; l = Array.from({length: 1e5}, () => { const o = {}; o.o = o; return o }) }`, "deadline_exceeded resource_exhausted invalid_argument"},
	{"a finalizer", `const r = new FinalizationRegistry(() => { for (;;); }); r.register({}, 1); for (let i = 0; i < 1e5; i++) ({}); return 1`, "? deadline_exceeded resource_exhausted"},
}

// runAside has a tool call run_code with each code, and tells how each ended and what it took.
func runAside(t testing.TB, m *codemode.Mode, opts host.Limits, list []string, ended func(i int, a nested.Answer, took time.Duration)) {
	t.Helper()
	all, err := m.Tools(add())
	if err != nil {
		t.Fatal(err)
	}
	aside := host.NewTool("aside", "", func(ctx context.Context, call *host.Call, _ struct{}) (string, error) {
		for i, code := range list {
			arguments, err := json.Marshal(map[string]string{"code": code})
			if err != nil {
				return "", err
			}
			began := time.Now()
			answers, err := call.CallTools(ctx, []nested.Call{{Name: codemode.ToolName, Arguments: arguments}})
			if err != nil {
				return "", err
			}
			ended(i, answers[0], time.Since(began))
		}
		return "done", nil
	}, &host.ToolOptions{Calls: []string{nested.EveryTool}})
	agent := testhost.NewAgent(t, "clerk", &host.AgentOptions{Tools: append(all, aside), Model: hosttest.NewModel(hosttest.Call("aside", "{}"), hosttest.Say("done"))})
	h := testhost.New(t, &host.Options{Limits: opts})
	r, err := h.Run(t.Context(), agent, &host.Request{Tenant: "acme", Text: "go"})
	if err != nil || r.Results[0].ToolResults()[0].ContentText() != "done" {
		t.Fatalf("Run = %+v, %v", r, err)
	}
}

func TestHostileCodeEndsInTimeAndTheHostServes(t *testing.T) {
	const timeout = time.Second
	const tries = 5 // of the next code, which a busy machine may not end in time
	const next = `return await tools.add({a: 1, b: 2})`
	m := newMode(t, &codemode.Options{Timeout: timeout, Instructions: int64(longtest.Rounds(80_000_000, 200_000_000))})
	for _, c := range hostile {
		t.Run(c.name, func(t *testing.T) {
			served := false
			codes := append([]string{c.code}, slices.Repeat([]string{next}, tries)...)
			runAside(t, m, host.Limits{MaxToolCalls: 20_000, RunInstructions: 1 << 50}, codes, func(i int, a nested.Answer, took time.Duration) {
				switch {
				case i > 0 && a.Kind == nested.Result && string(a.Content) == `{"result":3}`:
					served = true
					return
				case i > 0 && a.Code == host.DeadlineExceeded && took >= timeout:
					return
				case i > 0:
					t.Errorf("the next code ends in %s %s %s", a.Kind, a.Code, a.Content)
					return
				}
				if want, exact := strings.CutPrefix(c.codes, "="); exact && string(a.Content) == want {
					return
				}
				harmless := c.codes == "" || strings.HasPrefix(c.codes, "?")
				switch {
				case a.Kind == nested.Result && !harmless:
					t.Errorf("it answers %.200s, want an error of %s", a.Content, c.codes)
				case a.Code == host.DeadlineExceeded && took >= timeout: // a busy machine
				case a.Kind == nested.Error && !slices.Contains(strings.Fields(c.codes), string(a.Code)):
					t.Errorf("it ends in %s: %.200s, want %q", a.Code, a.Content, c.codes)
				}
				if len(a.Content) > 100<<10 {
					t.Errorf("it answers %d bytes", len(a.Content))
				}
				if took > time.Minute { // the benchmark measures how soon after its deadline it ends
					t.Errorf("it took %s, more than its deadline of %s", took, timeout)
				}
			})
			if !served {
				t.Errorf("none of %d next codes has an answer", tries)
			}
		})
	}
	if n := len(hostile); n < 60 {
		t.Errorf("the corpus has %d codes, want 60", n)
	}
}

// BenchmarkHostileCode runs the corpus with a deadline, and instructions without end, and reports by
// how much the last code passes it: late. Beside each code stands a timer of the same deadline in
// the same process, whose lateness is that of the machine: timer. A code that ends before its
// deadline is not late, and the time of the tools that it calls does not count. The log names the
// codes that are latest.
func BenchmarkHostileCode(b *testing.B) {
	const timeout = 250 * time.Millisecond
	m := newMode(b, &codemode.Options{Timeout: timeout, Instructions: 1 << 50})
	var inTools time.Duration
	m.TimeOperations(func(took time.Duration) { inTools += took })
	round := func() (ends []lateness) {
		for _, c := range hostile {
			inTools = 0
			end := lateOf(b, m, c.name, c.code, timeout)
			end.code = max(0, end.code-inTools)
			ends = append(ends, end)
		}
		return ends
	}
	round() // compiles, and makes instances
	var ends []lateness
	for b.Loop() {
		ends = append(ends, round()...)
	}
	slices.SortFunc(ends, func(x, y lateness) int { return cmp.Compare(y.timer, x.timer) })
	b.ReportMetric(float64(ends[0].timer.Microseconds())/1000, "timer-ms-max")
	b.ReportMetric(float64(ends[len(ends)/10].timer.Microseconds())/1000, "timer-ms-p90")
	slices.SortFunc(ends, func(x, y lateness) int { return cmp.Compare(y.code, x.code) })
	b.ReportMetric(float64(ends[0].code.Microseconds())/1000, "late-ms-max")
	b.ReportMetric(float64(ends[len(ends)/10].code.Microseconds())/1000, "late-ms-p90")
	for _, e := range ends[:5] {
		b.Logf("%v late, its timer %v: %s", e.code, e.timer, e.name)
	}
}

// lateness is by how much a code, and the timer beside it, passed a deadline.
type lateness struct {
	name        string
	code, timer time.Duration
}

func lateOf(b *testing.B, m *codemode.Mode, name, code string, timeout time.Duration) lateness {
	late := lateness{name: name}
	rang := make(chan time.Duration, 1)
	began := time.Now()
	timer := time.AfterFunc(timeout, func() { rang <- time.Since(began) - timeout })
	runAside(b, m, host.Limits{MaxToolCalls: 20_000, RunInstructions: 1 << 60}, []string{code}, func(_ int, _ nested.Answer, took time.Duration) {
		late.code = took - timeout
	})
	if !timer.Stop() {
		late.timer = <-rang
	}
	return late
}
