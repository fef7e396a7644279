package js_test

// Scenario: scripts pass bytes to the host and get them, on hosts of this version and on older ones.

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/plugin/pluginkv"
	"github.com/agenthost/agenthost/pdk/js"
)

// imported returns the functions of the contract that a packed plugin imports.
func imported(t *testing.T, wasm []byte) (names []string) {
	t.Helper()
	in, err := plugin.Inspect(wasm)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range in.Imports {
		if i.Module == "agenthost_v1" {
			names = append(names, i.Name)
		}
	}
	return names
}

func TestAStandalonePluginImportsNothingThatOlderHostsLack(t *testing.T) {
	if names := imported(t, js.Engine()); !slices.Contains(names, "host_call_bytes") {
		t.Errorf("the engine imports %q", names)
	}
	got := imported(t, packed(t, js.PackStandalone, greet))
	slices.Sort(got)
	if want := []string{"host_call", "host_read", "input_read", "log", "output_write"}; !slices.Equal(got, want) {
		t.Errorf("a standalone plugin imports %q, want %q", got, want)
	}
}

const bytesOfAllKinds = `
import { plugin, tool, kv, call, callBytes } from "agenthost";
plugin({ name: "p", permissions: { kv: "write" } });
const all = Uint8Array.from({ length: 256 }, (_, i) => i);
const refused = (f) => { try { f(); } catch (error) { return error.message; } return "taken"; };
const t = (name, f) => tool({ name }, f);
t("view", () => { kv.put("k", all.subarray(250, 253)); return Array.from(kv.getItem("k").bytes); });
t("all", () => { kv.put("k", all); return Array.from(kv.getItem("k").bytes).every((b, i) => b === i) && kv.getItem("k").bytes.length; });
t("none", () => { kv.put("k", new Uint8Array(0)); kv.put("l", ""); return [kv.getItem("k").bytes.length, kv.get("l")]; });
t("list", () => { kv.put("/a", all.subarray(0, 1)); kv.put("/b", ""); kv.put("/c", all.subarray(254)); return kv.list({ prefix: "/", bytes: true }).entries.map((e) => Array.from(e.bytes)); });
t("mixed", () => { kv.put("k", all); return call("kv.get", { key: "k" }).value === callBytes("kv.get", { key: "k" }).value.toBase64(); });
t("base64", () => { callBytes("kv.put", { key: "k", value: "AAEC" }); return Array.from(kv.getItem("k").bytes); });
t("own", () => { kv.put("k", all); const a = kv.getItem("k").bytes; kv.put("k", "other"); return [a.length, a[255]]; });
t("growing", () => { const b = new ArrayBuffer(2, { maxByteLength: 8 }), v = new Uint8Array(b); b.resize(4); v[3] = 9; kv.put("k", v); return Array.from(kv.getItem("k").bytes); });
t("detached", () => { const v = new Uint8Array(8); v.buffer.transfer(); return refused(() => kv.put("k", v)); });
t("words", () => refused(() => kv.put("k", new Uint16Array(2))));
t("number", () => refused(() => kv.put("k", 7)));
t("liar", () => { const v = new Uint8Array(4); Object.defineProperty(v, "byteLength", { value: 1 << 30 }); return refused(() => kv.put("k", v)); });
t("negative", () => { const v = new Uint8Array(4); Object.defineProperty(v, "byteOffset", { value: -8 }); return refused(() => kv.put("k", v)); });
t("other_buffer", () => { const v = new Uint8Array(4); Object.defineProperty(v, "buffer", { value: { byteLength: 4 } }); return refused(() => kv.put("k", v)); });
t("surrogate", () => { kv.put("k", "a\ud800"); return kv.get("k") === "a\ufffd"; });
t("coder", () => new TextDecoder().decode(new Uint8Array([97, ...new TextEncoder().encode("é\0")]).subarray(1)) === "é\0" && new TextDecoder().decode(new Uint8Array([98]).buffer));
t("no_text", () => { kv.put("k", all); return refused(() => kv.get("k")); });
t("absent", () => [kv.getItem("none") === undefined, refused(() => callBytes("kv.get", { key: "none" })).length > 0, refused(() => callBytes("kv.get", null)) !== "taken"]);
`

func TestBytesReachTheHostAndComeBackWhateverTheyAre(t *testing.T) {
	for form, pack := range map[string]func([]byte) ([]byte, error){"script": js.Pack, "standalone": js.PackStandalone} {
		store := kv.NewMemory()
		defer func() { _ = store.Close() }()
		rt := runtime(t, &plugin.Options{Interpreters: js.Engines(), Store: pluginkv.New(store, nil)})
		p, err := rt.Load(t.Context(), "p", packed(t, pack, bytesOfAllKinds), &plugin.LoadOptions{Granted: plugin.Permissions{KV: plugin.Write}})
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]string{
			"view": `[250,251,252]`, "all": `256`, "none": `[0,""]`, "list": `[[0],[],[254,255]]`, "mixed": `true`, "base64": `[0,1,2]`,
			"own": `[256,255]`, "growing": `[0,0,0,9]`,
			"words": `"{\"0\":0,\"1\":0} is neither text nor a Uint8Array"`, "number": `"7 is neither text nor a Uint8Array"`,
			"surrogate": `true`, "coder": `"b"`, "no_text": `"the bytes are not UTF-8"`, "absent": `[true,true,true]`,
		} {
			if got := call(t, p, `{"tool":"`+name+`"}`); got != `{"content":`+want+`}` {
				t.Errorf("%s, %s: %s, want %s", form, name, got, want)
			}
		}
		for _, name := range []string{"detached", "liar", "negative", "other_buffer"} {
			if got := call(t, p, `{"tool":"`+name+`"}`); !strings.Contains(got, "not those of an ArrayBuffer") {
				t.Errorf("%s, %s: %s", form, name, got)
			}
		}
	}
}

func TestALogTakesEveryAttribute(t *testing.T) {
	var mu sync.Mutex
	var lines []string
	rt := runtime(t, &plugin.Options{Interpreters: js.Engines(), Log: func(l plugin.LogLine) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, l.Text)
	}})
	p, err := rt.Load(t.Context(), "p", packed(t, js.Pack, `
		import { tool, log } from "agenthost";
		tool({ name: "log" }, () => {
			const cycle = {}; cycle.self = cycle;
			for (const attributes of [undefined, null, {}, { a: undefined, b: null, c: () => 1, d: Symbol("s"), e: 7n }, { cycle }]) log.info("x", attributes);
		});`), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := call(t, p, `{"tool":"log"}`); got != `{"content":null}` {
		t.Errorf("the tool answers %s", got)
	}
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"x", "x", "x", "x a=null b=null c=null d=null e=7", `x cycle="[object Object]"`}; !slices.Equal(lines, want) {
		t.Errorf("the log has %q, want %q", lines, want)
	}
}

// A script that an earlier version has packed names an engine of that version.
func TestScriptsOfEarlierEnginesRun(t *testing.T) {
	engines := js.Engines()
	if len(engines) < 2 {
		t.Fatal("no engine of an earlier version is kept")
	}
	rt := runtime(t, &plugin.Options{Interpreters: engines})
	for i, engine := range engines {
		wasm := strings.Replace(string(packed(t, js.Pack, greet)), digest(engines[0]), digest(engine), 1)
		p, err := rt.Load(t.Context(), "greet", []byte(wasm), nil)
		if err != nil {
			t.Fatalf("engine %d: %v", i, err)
		}
		if got := call(t, p, `{"tool":"greet","arguments":{"name":"Ada"}}`); got != `{"content":"Hello, Ada!"}` {
			t.Errorf("engine %d answers %s", i, got)
		}
	}
}

func digest(engine []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(engine)) }
