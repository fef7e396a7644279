package js_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/plugin"
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
	plugintest.TestGuest(t, wasm, &plugintest.Options{Repeats: longtest.Alone(20, 500), Runtime: &plugin.Options{CacheDir: testcode.Dir(), Interpreters: [][]byte{js.Engine()}}})
}

const greet = `
import { tool } from "agenthost";
tool({ name: "greet", description: "Greets.", parameters: { type: "object" } }, ({ name }) => ` + "`Hello, ${name}!`" + `);
`

func runtime(t *testing.T, opts *plugin.Options) *plugin.Runtime {
	t.Helper()
	opts.CacheDir = testcode.Dir()
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
