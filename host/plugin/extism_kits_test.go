package plugin_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	extism "github.com/extism/go-sdk"
	"github.com/tetratelabs/wazero"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/plugin/extismsdk"
	"github.com/agenthost/agenthost/host/runevent"
	"github.com/agenthost/agenthost/internal/longtest"
)

// Plugins that Extism's own kits make give the same output here and on
// extism/go-sdk.

// kit builds a plugin of one of Extism's kits; it skips the test where its
// toolchain is not there.
type kit struct {
	name  string
	build func(t testing.TB) []byte
	calls []extismCase
}

// extismCase are the inputs of one function, called one after the other in one
// instance.
type extismCase struct {
	function string
	inputs   []string
}

var texts = []string{"", "x", "hello", "12345678", "123456789", "grüße, 世界 😀", strings.Repeat("0123456789abcdef", 1000), "a\x00b\xff"}

var kits = []kit{
	{"Go", func(t testing.TB) []byte { return buildGuest(t, "host/plugin/testdata/guests/extism") }, []extismCase{
		{"agenthost_tool", texts}, {"count_vowels", texts}, {"refuse", []string{"now", ""}},
	}},
	{"C", func(t testing.TB) []byte { return buildC(t, "testdata/guests/extism_c/guest.c") }, []extismCase{
		{"echo", texts}, {"same", texts}, {"upper", texts}, {"greet", texts}, {"swap", append([]string{"one", "two", "", "three"}, texts...)},
		{"churn", []string{"x", "a\x00b\xff"}}, // seconds in the SDK
	}},
	{"AssemblyScript", func(t testing.TB) []byte { return buildAS(t, "testdata/guests/extism_as/guest.ts") }, []extismCase{
		{"echo", texts}, {"count_vowels", texts[:6]}, {"shout", texts[:6]},
	}},
	{"the C example", func(t testing.TB) []byte { return buildC(t, "../../examples/extism/c/iban.c") }, []extismCase{
		{"iban", []string{"DE89370400440532013000", "de89 3704 0044 0532 0130 01", "GB82 WEST 1234 5698 7654 32", "", "nonsense!", strings.Repeat("A", 100)}},
	}},
	{"the AssemblyScript example", func(t testing.TB) []byte { return buildAS(t, "../../examples/extism/assemblyscript/stats.ts") }, []extismCase{
		{"text_stats", texts[:7]}, {"agenthost_describe", []string{""}},
	}},
	{"the Go example", func(t testing.TB) []byte { return buildGuest(t, "examples/extism/go") }, []extismCase{
		{"agenthost_tool", []string{`{"tool":"add_workdays","arguments":{"date":"2026-12-18","days":10}}`, `{"tool":"x"}`, `{`, "",
			`{"tool":"add_workdays","arguments":{"date":"soon","days":1}}`}},
		{"agenthost_describe", []string{""}},
	}},
}

func TestExtismKitsAnswerTheSameOnBothEngines(t *testing.T) {
	for _, k := range kits {
		t.Run(k.name, func(t *testing.T) {
			wasm := k.build(t)
			onSDK, onOurs, onNamed := sdkEngine(t, wasm), ourEngine(t, wasm), namedEngine(t, wasm)
			for _, c := range k.calls {
				sdk, ours, named := onSDK(), onOurs(), onNamed()
				for _, input := range c.inputs {
					wantOut, wantErr := sdk(c.function, input)
					gotOut, gotErr := ours(c.function, input)
					if gotOut != wantOut || gotErr != wantErr {
						t.Errorf("%s(%.40q): %.80q, error %q;\nwant %.80q, error %q, as on extism/go-sdk", c.function, input, gotOut, gotErr, wantOut, wantErr)
					}
					if gotOut, gotErr := named(c.function, input); gotOut != wantOut || gotErr != wantErr {
						t.Errorf("%s(%.40q) on the engine %s: %.80q, error %q;\nwant %.80q, error %q", c.function, input, extismsdk.Name, gotOut, gotErr, wantOut, wantErr)
					}
				}
			}
		})
	}
}

var kitConfig = map[string]string{"greeting": "good morning, "}

type caller func(function, input string) (output, failure string)

// sdkEngine compiles a plugin and returns what makes instances of it.
func sdkEngine(t testing.TB, wasm []byte) func() caller {
	ctx := context.Background()
	compiled, err := extism.NewCompiledPlugin(ctx, extism.Manifest{Wasm: []extism.Wasm{extism.WasmData{Data: wasm}}, Config: kitConfig},
		extism.PluginConfig{EnableWasi: true, RuntimeConfig: wazero.NewRuntimeConfigInterpreter()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = compiled.Close(ctx) })
	return func() caller {
		p, err := compiled.Instance(ctx, extism.PluginInstanceConfig{})
		if err != nil {
			t.Fatal(err)
		}
		return func(function, input string) (string, string) {
			_, out, err := p.CallWithContext(ctx, function, []byte(input))
			if err != nil {
				return "", err.Error()
			}
			return string(out), ""
		}
	}
}

func ourEngine(t testing.TB, wasm []byte) func() caller {
	rt := newRuntime(t, nil)
	return func() caller { return callerOf(t, loadKit(t, rt, wasm, ""), "acme") }
}

// namedEngine is the SDK as the engine of that name. It compiles a module at
// every load, which takes seconds, so each instance is another tenant's.
func namedEngine(t testing.TB, wasm []byte) func() caller {
	if !longtest.Enabled() {
		return sdkEngine(t, wasm) // which is the same but for what is ours
	}
	rt := newRuntime(t, &plugin.Options{Engines: map[string]plugin.NewEngine{extismsdk.Name: extismsdk.New(nil)}})
	p, n := loadKit(t, rt, wasm, extismsdk.Name), 0
	return func() caller {
		n++
		return callerOf(t, p, fmt.Sprint("tenant", n))
	}
}

func loadKit(t testing.TB, rt *plugin.Runtime, wasm []byte, engine string) *plugin.Plugin {
	t.Helper()
	return load(t, rt, "kit", wasm, &plugin.LoadOptions{Engine: engine, Extism: plugin.ExtismOptions{Config: kitConfig},
		Limits: plugin.Limits{Timeout: 5 * time.Minute}}) // the SDK is slow, and so may the machine be
}

func callerOf(t testing.TB, p *plugin.Plugin, tenant string) caller {
	return func(function, input string) (string, string) {
		r, err := p.Call(t.Context(), tenant, strings.TrimPrefix(function, "agenthost_"), []byte(input), nil)
		switch {
		case err != nil:
			return "", err.Error()
		case r.GuestError:
			return "", extismText(r.Output)
		}
		return string(r.Output), ""
	}
}

// extismText is the text of an error object that was made of one.
func extismText(raw []byte) string {
	text := string(raw)
	if inner, ok := strings.CutPrefix(text, `{"code":"internal","message":"`); ok {
		text = strings.TrimSuffix(inner, `"}`)
	}
	return text
}

// What a kit's plugin runs into is an error with its own last words.
func TestExtismKitsFailInWords(t *testing.T) {
	p := load(t, newRuntime(t, nil), "kit", buildGuest(t, "host/plugin/testdata/guests/extism"), nil)
	_, err := p.Call(t.Context(), "acme", "break_down", []byte("out of umbrellas"), nil)
	if host.CodeOf(err) != host.Internal || !strings.Contains(err.Error(), "out of umbrellas") {
		t.Errorf("a panic: %v", err)
	}
	r, err := p.Call(t.Context(), "acme", "refuse", []byte("now"), nil)
	if err != nil || !r.GuestError || string(r.Output) != `{"code":"internal","message":"not now"}` {
		t.Errorf("an error: %s, %v", r.Output, err)
	}
}

// The functions of a plugin that knows nothing of this host are tools.
func TestExtismFunctionsAreTools(t *testing.T) {
	p := load(t, newRuntime(t, nil), "kit", buildC(t, "testdata/guests/extism_c/guest.c"),
		&plugin.LoadOptions{Extism: plugin.ExtismOptions{Config: kitConfig}})
	tools := must[[]*host.Tool](t)(p.Tools(nil))
	if len(tools) != len(p.ExtismFunctions()) || tools[0].Name != "echo" {
		t.Errorf("%d tools, the first %q; want one for each of %q", len(tools), tools[0].Name, p.ExtismFunctions())
	}
	for _, c := range []struct{ tool, arguments, want string }{
		{"greet", `{"input":"Ada"}`, `"good morning, Ada"`},
		{"echo", `{"input":"{\"a\":[1]}"}`, `{"a":[1]}`},
		{"echo", `{"input":""}`, `""`},
	} {
		done := event[*runevent.ToolFinished](t, runTool(t, p, c.tool, c.arguments))
		if string(done.Content) != c.want || done.IsError || done.Cost.Instructions == 0 {
			t.Errorf("%s of %s: %s, want %s", c.tool, c.arguments, done.Content, c.want)
		}
	}
	done := event[*runevent.ToolFinished](t, runTool(t, p, "crash", `{"input":""}`))
	if !done.IsError || !strings.Contains(string(done.Content), "unreachable") {
		t.Errorf("crash: %s", done.Content)
	}
	one, err := p.ExtismTool("echo", llm.ToolSpec{Name: "repeat", Description: "Says it again.", Parameters: []byte(`{"type":"object","properties":{"n":{"type":"integer"}}}`)})
	if err != nil {
		t.Fatal(err)
	}
	if one.Name != "repeat" {
		t.Errorf("the tool is called %q", one.Name)
	}
	if _, err := p.ExtismTool("missing", llm.ToolSpec{}); host.CodeOf(err) != host.NotFound || !strings.Contains(err.Error()+fault.AsError(err).Hint, "greet") {
		t.Errorf("a function that is not there: %v", err)
	}
}

// The committed modules do what their sources, built anew, do.
func TestExtismExamplesAreWhatTheirSourcesSay(t *testing.T) {
	for _, c := range []struct {
		file, function string
		build          func(testing.TB) []byte
	}{
		{"c/iban.wasm", "iban", kits[3].build},
		{"assemblyscript/stats.wasm", "text_stats", kits[4].build},
	} {
		t.Run(c.file, func(t *testing.T) {
			committed, err := os.ReadFile(filepath.Join("../../examples/extism", c.file))
			if err != nil {
				t.Fatal(err)
			}
			built := c.build(t)
			was, is := ourEngine(t, committed)(), ourEngine(t, built)()
			for _, input := range append([]string{"DE89370400440532013000", "DE00370400440532013000"}, texts[:7]...) {
				wantOut, wantErr := is(c.function, input)
				if gotOut, gotErr := was(c.function, input); gotOut != wantOut || gotErr != wantErr {
					t.Errorf("%.40q: %q %q, its source %q %q", input, gotOut, gotErr, wantOut, wantErr)
				}
			}
		})
	}
}

var clang = sync.OnceValue(func() string {
	for _, name := range []string{"clang-19", "clang", "clang-20", "clang-18", "clang-17", "clang-16"} {
		if out, err := exec.Command(name, "--print-targets").Output(); err == nil && bytes.Contains(out, []byte("wasm32")) {
			return name
		}
	}
	return ""
})

// buildC builds a C guest with the flags that the C example names.
func buildC(t testing.TB, source string) []byte {
	t.Helper()
	if clang() == "" {
		t.Skip("needs clang and lld for wasm32: run .ci/toolchains.sh, or apt-get install clang lld")
	}
	out := filepath.Join(t.TempDir(), "guest.wasm")
	command := exec.Command(clang(), "--target=wasm32", "-O2", "-mbulk-memory", "-nostdlib", "-fuse-ld=lld", "-Wl,--no-entry", "-Wl,--strip-debug", "-o", out, source)
	return compile(t, command, out)
}

var asBuilt sync.Map // of source to []byte

// buildAS builds an AssemblyScript guest with the tools of the example's
// package.json.
func buildAS(t testing.TB, source string) []byte {
	t.Helper()
	example := filepath.Join("..", "..", "examples", "extism", "assemblyscript")
	asc, err := filepath.Abs(filepath.Join(example, "node_modules", ".bin", "asc"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(asc); err != nil {
		t.Skip("needs AssemblyScript: run .ci/toolchains.sh, or npm ci in examples/extism/assemblyscript")
	}
	longtest.Need(t, "building AssemblyScript takes seconds")
	if wasm, ok := asBuilt.Load(source); ok {
		return wasm.([]byte)
	}
	// asc looks for packages beside the source.
	dir := t.TempDir()
	raw, err := os.ReadFile(source)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "guest.ts"), raw, 0o600)
	}
	if err == nil {
		err = os.Symlink(filepath.Dir(filepath.Dir(asc)), filepath.Join(dir, "node_modules"))
	}
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(asc, "guest.ts", "--outFile", "guest.wasm", "-O3", "--noAssert", "--use", "abort=guest/myAbort")
	command.Dir = dir
	wasm := compile(t, command, filepath.Join(dir, "guest.wasm"))
	asBuilt.Store(source, wasm)
	return wasm
}

// compile runs a compiler and returns what it has made.
func compile(t testing.TB, command *exec.Cmd, out string) []byte {
	t.Helper()
	if said, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", command.Args, err, said)
	}
	wasm, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}
