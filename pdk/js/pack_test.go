package js_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/plugin/pluginkv"
	"github.com/agenthost/agenthost/host/plugin/plugintest"
	"github.com/agenthost/agenthost/internal/longtest"
	"github.com/agenthost/agenthost/internal/testcode"
	"github.com/agenthost/agenthost/pdk/js"
)

func script(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func packed(t *testing.T, pack func([]byte) ([]byte, error), text string) []byte {
	t.Helper()
	wasm, err := pack([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}

func TestGuestKeepsTheRulesOfTheContract(t *testing.T) {
	wasm := packed(t, js.Pack, string(script(t, "conformance.js")))
	plugintest.TestGuest(t, wasm, &plugintest.Options{Limits: plugin.Limits{Timeout: time.Minute}, Repeats: longtest.Alone(20, longtest.Rounds(25, 500)), Runtime: &plugin.Options{CacheDir: testcode.Dir(), Interpreters: [][]byte{js.Engine()}}})
}

const greet = `
import { tool } from "agenthost";
tool({ name: "greet", description: "Greets.", parameters: { type: "object" } }, ({ name }) => ` + "`Hello, ${name}!`" + `);
`

func runtime(t *testing.T, opts *plugin.Options) *plugin.Runtime {
	t.Helper()
	opts.CacheDir = testcode.Dir()
	opts.Limits = plugin.Limits{Timeout: time.Minute, StartTimeout: time.Minute} // a busy machine does not run a call for seconds
	rt, err := plugin.NewRuntime(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rt.Close(t.Context()) })
	return rt
}

func call(t *testing.T, p *plugin.Plugin, input string) string {
	t.Helper()
	result, err := p.Call(t.Context(), "acme", "tool", []byte(input), nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(result.Output)
}

func TestBothFormsOfAPluginAnswerAlike(t *testing.T) {
	rt := runtime(t, &plugin.Options{Interpreters: [][]byte{js.Engine()}})
	for name, pack := range map[string]func([]byte) ([]byte, error){"script": js.Pack, "standalone": js.PackStandalone} {
		wasm := packed(t, pack, greet)
		if again := packed(t, pack, greet); !bytes.Equal(wasm, again) {
			t.Errorf("%s: the same script gives other bytes", name)
		}
		p, err := rt.Load(t.Context(), name, wasm, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := call(t, p, `{"tool":"greet","arguments":{"name":"Ada"}}`); got != `{"content":"Hello, Ada!"}` {
			t.Errorf("%s answers %s", name, got)
		}
	}
}

func TestAStandalonePluginNeedsNoInterpreter(t *testing.T) {
	rt := runtime(t, &plugin.Options{})
	if _, err := rt.Load(t.Context(), "greet", packed(t, js.PackStandalone, greet), nil); err != nil {
		t.Error(err)
	}
	_, err := rt.Load(t.Context(), "greet", packed(t, js.Pack, greet), nil)
	if err == nil || !strings.Contains(err.Error(), "a script for the interpreter sha256:") || !strings.Contains(err.Error(), "--standalone") {
		t.Errorf("a script on a host without its interpreter: %v", err)
	}
}

func TestScriptsThatDoNotStartAreRefusedWithTheirError(t *testing.T) {
	rt := runtime(t, &plugin.Options{Interpreters: [][]byte{js.Engine()}})
	for name, c := range map[string]struct{ script, want string }{
		"throws":              {`throw new TypeError("no luck")`, "TypeError: no luck"},
		"syntax":              {"\nconst = 1", "plugin.js:2"},
		"waits for ever":      {`await new Promise(() => {})`, "what never comes"},
		"imports another":     {`import "lodash"`, `imports from "agenthost" only`},
		"registers twice":     {`import { tool } from "agenthost"; for (let i = 0; i < 2; i++) tool({ name: "t" }, () => 1)`, `two tools are named "t"`},
		"has no function":     {`import { tool } from "agenthost"; tool({ name: "t" })`, "needs a function"},
		"has an unknown name": {`import { tols } from "agenthost"`, "tols"},
		"loops":               {`for (;;);`, "StartInstructions"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := rt.Load(t.Context(), "p", packed(t, js.Pack, c.script), nil)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

func TestWhatIsNoScriptIsNotPacked(t *testing.T) {
	for name, text := range map[string]string{"empty": " \n", "not UTF-8": "\xff", "too large": strings.Repeat("x", js.MaxScript+1)} {
		for form, pack := range map[string]func([]byte) ([]byte, error){"script": js.Pack, "standalone": js.PackStandalone} {
			if _, err := pack([]byte(text)); err == nil {
				t.Errorf("%s, %s: it is packed", name, form)
			}
		}
	}
}

func TestScriptsOfOneEngineKeepApart(t *testing.T) {
	rt := runtime(t, &plugin.Options{Interpreters: [][]byte{js.Engine()}})
	var plugins []*plugin.Plugin
	for _, word := range []string{"one", "two"} {
		p, err := rt.Load(t.Context(), word, packed(t, js.Pack, `
			import { tool } from "agenthost";
			globalThis.word = (globalThis.word ?? "") + "`+word+`";
			tool({ name: "word" }, () => (globalThis.word += "!"));`), &plugin.LoadOptions{Isolation: plugin.IsolationFresh})
		if err != nil {
			t.Fatal(err)
		}
		plugins = append(plugins, p)
	}
	for range 3 {
		for i, want := range []string{`{"content":"one!"}`, `{"content":"two!"}`} {
			if got := call(t, plugins[i], `{"tool":"word"}`); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
	}
}

func TestDamagedScriptsAreRefused(t *testing.T) {
	rt := runtime(t, &plugin.Options{Interpreters: [][]byte{js.Engine()}})
	good := packed(t, js.Pack, greet)
	size, n := binary.Uvarint(good[9:])
	end := 9 + n + int(size)
	first, second := good[8:end], good[end:]
	for name, file := range map[string][]byte{
		"without a text":   good[:end],
		"cut":              good[:len(good)-1],
		"two interpreters": slices.Concat(good, first),
		"two texts":        slices.Concat(good, second),
		"another digest":   bytes.Replace(good, []byte("sha256:"), []byte("sha512:"), 1),
		"text first":       slices.Concat(good[:8], second, first),
	} {
		_, err := rt.Load(t.Context(), "p", file, nil)
		if err == nil {
			t.Errorf("%s: it is loaded", name)
		}
	}
}

func TestAScriptIsBoundedLikeAModule(t *testing.T) {
	rt := runtime(t, &plugin.Options{Interpreters: [][]byte{js.Engine()}})
	p, err := rt.Load(t.Context(), "p", packed(t, js.Pack, `
		import { tool } from "agenthost";
		const t = (name, f) => tool({ name }, f);
		t("loop", () => { for (;;); });
		t("recursion", () => { const f = () => f() + 1; return f(); });
		t("memory", () => { const a = []; for (;;) a.push(new Array(1000).fill(0)); });
		t("expression", () => /^(a+)+$/.test("a".repeat(40) + "b"));
		t("text", () => "x".repeat(1 << 28));
		t("never", () => new Promise(() => {}));
		t("async", async () => { await null; return "late"; });
		t("cycle", () => { const a = {}; a.a = a; return a; });
		t("number", ({ n }) => typeof n + " " + n);`), &plugin.LoadOptions{Limits: plugin.Limits{Instructions: 200_000_000}})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"loop": "Instructions", "recursion": "stack", "memory": "", "expression": "Instructions", "text": "",
		"never": "nothing fulfills", "cycle": "circular",
	} {
		result, err := p.Call(t.Context(), "acme", "tool", []byte(`{"tool":"`+name+`"}`), nil)
		got := string(result.Output)
		if err != nil {
			got = err.Error()
		} else if !result.GuestError {
			t.Errorf("%s answers %s", name, got)
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s ends with %s, want %q", name, got, want)
		}
	}
	if got := call(t, p, `{"tool":"async"}`); got != `{"content":"late"}` {
		t.Errorf("an async tool answers %s", got)
	}
	if got := call(t, p, `{"tool":"number","arguments":{"n":9007199254740993}}`); got != `{"content":"bigint 9007199254740993"}` {
		t.Errorf("a large integer is %s", got)
	}
}

func TestARedactionDoesNotFailOpen(t *testing.T) {
	rt := runtime(t, &plugin.Options{Interpreters: [][]byte{js.Engine()}})
	p, err := rt.Load(t.Context(), "p", packed(t, js.Pack, `
		import { processor } from "agenthost";
		processor({ name: "both" }, (view) => { view.drop(0); return { messages: [] }; });
		processor({ name: "same" }, () => {});`), nil)
	if err != nil {
		t.Fatal(err)
	}
	const message = `{"id":"m","role":"tool","parts":[{"type":"tool_result","id":"c","name":"f","content":1,%s}],"created_at":"2026-01-02T03:04:05Z"}`
	for name, c := range map[string]struct{ processor, messages, want string }{
		"messages and edits":          {"both", "[]", "do one of both"},
		"a doubled media":             {"same", "[" + fmt.Sprintf(message, `"media":[],"media":[]`) + "]", "twice"},
		"a doubled field in media":    {"same", "[" + fmt.Sprintf(message, `"media":[{"type":"media","media_type":"a","media_type":"b"}]`) + "]", "twice"},
		"media of another shape":      {"same", "[" + fmt.Sprintf(message, `"media":1`) + "]", "media is no array"},
		"no JSON, cut in a list":      {"same", "[}", "no JSON"},
		"no JSON, a colon in a list":  {"same", "[:", "no JSON"},
		"an unknown field with a NUL": {"same", "[" + fmt.Sprintf(message, "\"type\\u0000x\":1") + "]", ""},
	} {
		input := `{"processor":"` + c.processor + `","model":"m","messages":` + c.messages
		if !strings.HasPrefix(c.want, "no JSON") {
			input += "}"
		}
		result, err := p.Call(t.Context(), "acme", "process", []byte(input), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if result.GuestError != (c.want != "") || !strings.Contains(string(result.Output), c.want) {
			t.Errorf("%s is answered with %s, want %q", name, result.Output, c.want)
		}
	}
}

func TestBytesOfAKeyAreListed(t *testing.T) {
	store := kv.NewMemory()
	defer func() { _ = store.Close() }()
	rt := runtime(t, &plugin.Options{Interpreters: [][]byte{js.Engine()}, Store: pluginkv.New(store, nil)})
	p, err := rt.Load(t.Context(), "p", packed(t, js.Pack, `
		import { plugin, tool, kv } from "agenthost";
		plugin({ name: "p", permissions: { kv: "write" } });
		tool({ name: "bytes" }, () => {
			kv.put("a", new Uint8Array([255, 0, 254]));
			kv.put("b", "text");
			return [kv.list({ bytes: true }).entries.map((e) => [e.key, Array.from(e.bytes), e.value]), kv.list({ prefix: "b", values: true }).entries[0].value, Object.keys(kv.list().entries[0])];
		});
		tool({ name: "text" }, () => kv.list({ values: true }));`), &plugin.LoadOptions{Granted: plugin.Permissions{KV: plugin.Write}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := call(t, p, `{"tool":"bytes"}`), `{"content":[[["a",[255,0,254],null],["b",[116,101,120,116],null]],"text",["key","revision"]]}`; got != want {
		t.Errorf("the entries are %s, want %s", got, want)
	}
	if result, err := p.Call(t.Context(), "acme", "tool", []byte(`{"tool":"text"}`), nil); err != nil || !result.GuestError || !strings.Contains(string(result.Output), "not UTF-8") {
		t.Errorf("bytes as text: %s, %v", result.Output, err)
	}
}

func TestAPromiseThatNothingHandlesIsLogged(t *testing.T) {
	var mu sync.Mutex
	var lines []string
	rt := runtime(t, &plugin.Options{Interpreters: [][]byte{js.Engine()}, Log: func(l plugin.LogLine) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, l.Text)
	}})
	p, err := rt.Load(t.Context(), "p", packed(t, js.Pack, `
		import { tool, Failure } from "agenthost";
		const t = (name, f) => tool({ name }, f);
		const fail = async (what) => { throw new TypeError(what); };
		t("left", () => { fail("first"); fail("second"); return "done"; });
		t("later", async () => { const p = fail("late"); await null; await p.catch(() => {}); return "done"; });
		t("caught", async () => { try { await fail("mine"); } catch { return "done"; } });
		t("failed", async () => { throw new Failure("not_found", "the answer"); });
		t("many", () => { for (let i = 0; i < 100; i++) Promise.reject(i); return "done"; });
		t("odd", () => { Promise.reject({ toString() { throw 1; }, get x() { throw 2; } }); return "done"; });`), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{
		"left": {"TypeError: first", "TypeError: second"}, "later": nil, "caught": nil, "failed": nil, "odd": {"[object Object]"},
		"many": {": 0", ": 1", ": 2", ": 3", ": 4", ": 5", ": 6", ": 7"},
	} {
		for range 3 { // none is left for the next call
			mu.Lock()
			lines = nil
			mu.Unlock()
			result, err := p.Call(t.Context(), "acme", "tool", []byte(`{"tool":"`+name+`"}`), nil)
			if err != nil || result.GuestError != (name == "failed") {
				t.Errorf("%s: %s, %v", name, result.Output, err)
			}
			mu.Lock()
			got := slices.Clone(lines)
			mu.Unlock()
			if len(got) != len(want) {
				t.Fatalf("%s logs %q, want %q", name, got, want)
			}
			for i := range want {
				if !strings.Contains(got[i], "nothing handles it") || !strings.Contains(got[i], want[i]) {
					t.Errorf("%s logs %q, want %q", name, got[i], want[i])
				}
			}
		}
	}
}

func TestAPartThatIsMissingIsNotFoundWhateverElseARequestHolds(t *testing.T) {
	rt := runtime(t, &plugin.Options{Interpreters: [][]byte{js.Engine()}})
	p, err := rt.Load(t.Context(), "p", packed(t, js.Pack, `
		import { tool, processor, provider } from "agenthost";
		tool({ name: "there" }, () => 1);
		processor({ name: "there" }, () => {});
		provider({ name: "there" }, () => "");`), nil)
	if err != nil {
		t.Fatal(err)
	}
	const message = `{"id":"m","id":"m","role":"user","parts":[]}`
	deep := strings.Repeat("[", 400_000) + "1.0" + strings.Repeat("]", 400_000)
	for _, c := range []struct{ name, export, input, code string }{
		{"a missing tool", "tool", `{"tool":"gone","scope":7}`, "not_found"},
		{"a missing processor, a field twice", "process", `{"processor":"gone","messages":[` + message + `]}`, "not_found"},
		{"a missing provider, a field twice", "provide", `{"provider":"gone","messages":[` + message + `]}`, "not_found"},
		{"a processor, a field twice", "process", `{"processor":"there","model":"m","messages":[` + message + `]}`, "invalid_argument"},
		{"no name, a field twice", "process", `{"messages":[` + message + `]}`, "invalid_argument"},
		{"a missing tool, a large number", "tool", `{"tool":"gone","arguments":{"n":9007199254740993}}`, "not_found"},
		{"arguments that are too deep", "tool", `{"tool":"there","arguments":` + deep + `}`, "invalid_argument"},
		{"arguments too deep for the kit", "tool", `{"tool":"there","arguments":` + deep[400_000-4000:400_000+3+4000] + `}`, "invalid_argument"},
		{"arguments that are nearly too deep", "tool", `{"tool":"there","arguments":` + deep[400_000-900:400_000+3+900] + `}`, ""},
	} {
		result, err := p.Call(t.Context(), "acme", c.export, []byte(c.input), nil)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var answer struct{ Code string }
		if json.Unmarshal(result.Output, &answer) != nil || answer.Code != c.code {
			t.Errorf("%s: %.200s, want %s", c.name, result.Output, c.code)
		}
	}
}
