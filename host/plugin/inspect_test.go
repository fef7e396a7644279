package plugin

// These tests are inside the package for its assembler.

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
	"github.com/agenthost/agenthost/host/plugin/internal/wasmtest"
)

func TestInspectReadsStructure(t *testing.T) {
	wasm := wasmtest.Assemble(t, `
		import agenthost_v1 output_write i32 i32 as $output_write
		memory 1 4
		global i32 mut 7
		data 16 "text"
		export memory memory 0
		custom agenthost.manifest "{\"abi\":1,\"name\":\"n\",\"x\":1}"
		func $start - : 
			unreachable
		func $tool agenthost_tool i32 -> i32
			i32.const 0`)
	in, err := Inspect(wasm)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(in.Digest, "sha256:") || len(in.Digest) != len("sha256:")+64 {
		t.Errorf("digest is %q", in.Digest)
	}
	if got := string(in.Manifest.JSON()); got != `{"abi":1,"name":"n","x":1}` || in.ManifestError != nil {
		t.Errorf("manifest is %s, %v", got, in.ManifestError)
	}
	in.Digest, in.Manifest = "", nil
	want := &Inspection{
		Size: len(wasm), ABI: ABINative, Functions: 2, Globals: 1, DataBytes: 4,
		Imports: []Extern{{"agenthost_v1", "output_write", "func", "(i32, i32) -> ()"}},
		Exports: []Extern{{"", "memory", "memory", "1..4 pages"}, {"", "agenthost_tool", "func", "(i32) -> (i32)"}},
	}
	if diff := cmp.Diff(want, in); diff != "" {
		t.Errorf("Inspect (-want +got):\n%s", diff)
	}
	if !in.HasExport("agenthost_tool") || in.HasExport("agenthost_route") || in.HasExport("memory") {
		t.Errorf("HasExport knows other functions than the module exports")
	}
}

func TestInspectNamesTheABI(t *testing.T) {
	for want, text := range map[string]string{
		ABINative:      "import agenthost_v1 log i32 i32 i32",
		"agenthost_v9": "import agenthost_v9 log i32 i32 i32",
		ABIExtism:      "import extism:host/env input_length -> i64",
		ABINone:        "import wasi_snapshot_preview1 proc_exit i32",
	} {
		in, err := Inspect(wasmtest.Assemble(t, text))
		if err != nil {
			t.Fatal(err)
		}
		if in.ABI != want {
			t.Errorf("ABI of %q is %s, want %s", text, in.ABI, want)
		}
	}
	// A linker drops imports that are not used; a manifest is enough.
	in, err := Inspect(wasmtest.Assemble(t, `custom agenthost.manifest "{\"abi\":2}"`))
	if err != nil || in.ABI != ABINative || in.Manifest != nil || in.ManifestError == nil {
		t.Errorf("a module with nothing but a manifest: %+v, %v", in, err)
	}
}

func TestInspectRefusesWhatIsNoModule(t *testing.T) {
	for name, row := range map[string]struct {
		wasm string
		code host.Code
	}{
		"nothing":     {"", host.InvalidArgument},
		"text":        {"(module)", host.InvalidArgument},
		"half":        {"\x00asm\x01\x00\x00\x00\x01\x7f", host.InvalidArgument},
		"a component": {"\x00asm\x0d\x00\x01\x00", host.FailedPrecondition},
	} {
		if in, err := Inspect([]byte(row.wasm)); in != nil || host.CodeOf(err) != row.code {
			t.Errorf("Inspect of %s = %v, %v, want code %s", name, in, err, row.code)
		}
	}
}

func TestCheckListsEveryReason(t *testing.T) {
	rt := startRuntime(t, nil)
	wasm := wasmtest.Assemble(t, `
		import env print i32
		import agenthost_v2 log i32 i32 i32
		memory 1
		custom agenthost.manifest "{\"abi\":1,\"tools\":[{\"name\":\"t\",\"parameters\":{\"type\":7}}],\"routers\":[{\"name\":\"r\"}],\"requires\":[\"fly\"]}"
		func $tool agenthost_tool -> i32
			i32.const 0`)
	want := []string{
		`imports from env: 1 function: which no plugin host provides (print)`,
		`imports "agenthost_v2" "log", a later version of the ABI`,
		"it exports no memory",
		"manifest has no name",
		`the operation "fly"`,
		"called through agenthost_route, which it does not export",
		"agenthost_tool is of type () -> (i32), not (i32) -> (i32)",
		`parameters of tool "t"`,
	}
	problems := rt.Check(context.Background(), "p", wasm, nil)
	for _, w := range want {
		found := false
		for _, p := range problems {
			found = found || strings.Contains(p.Error(), w)
		}
		if !found {
			t.Errorf("no problem says %q", w)
		}
	}
	if len(problems) != len(want) {
		t.Errorf("there are %d problems, want %d:\n%v", len(problems), len(want), problems)
	}
}

// TestCheckAgreesWithLoad holds the two ways of judging a module to each other.
func TestCheckAgreesWithLoad(t *testing.T) {
	ctx := context.Background()
	rt := startRuntime(t, nil)
	const manifest = `{"abi":1,"name":"n","tools":[{"name":"t","description":""}]}`
	tool := map[abi.Export]answer{abi.Tool: {`{}`, 0}}
	for name, row := range map[string]struct {
		wasm []byte
		ok   bool
	}{
		"a plugin":               {constantGuest(t, manifest, tool), true},
		"one of every kind":      {constantGuest(t, everyKind, nil), true},
		"one that describes":     {constantGuest(t, "", map[abi.Export]answer{abi.Describe: {manifest, 0}}), true},
		"an error as manifest":   {constantGuest(t, "", map[abi.Export]answer{abi.Describe: {`{"code":"internal","message":"no"}`, 1}}), false},
		"a trap as manifest":     {constantGuest(t, "", nil), false},
		"text as manifest":       {constantGuest(t, "", map[abi.Export]answer{abi.Describe: {`hello`, 0}}), false},
		"a name given twice":     {constantGuest(t, `{"abi":1,"name":"n","routers":[{"name":"r"},{"name":"r"}]}`, nil), false},
		"another version":        {constantGuest(t, `{"abi":3,"name":"n"}`, nil), false},
		"no code":                {wasmtest.Assemble(t, "memory 1\nexport memory memory 0\ncustom agenthost.manifest \"{\\\"abi\\\":1,\\\"name\\\":\\\"n\\\"}\""), true},
		"an export that is not":  {wasmtest.Assemble(t, "memory 1\nexport memory memory 0\ncustom agenthost.manifest "+quote(manifest)), false},
		"too much memory":        {wasmtest.Assemble(t, "memory 9999\nexport memory memory 0\ncustom agenthost.manifest "+quote(manifest)), false},
		"half a plugin":          {constantGuest(t, manifest, tool)[:60], false},
		"a module of no use":     {wasmtest.Assemble(t, "memory 1\nexport memory memory 0"), false},
		"code that does not fit": {wasmtest.Assemble(t, "memory 1\nexport memory memory 0\ncustom agenthost.manifest "+quote(manifest)+"\nfunc $t agenthost_tool i32 -> i32\n  i64.const 0"), false},
	} {
		problems := rt.Check(ctx, "p", row.wasm, nil)
		p, err := rt.Load(ctx, "p", row.wasm, nil)
		if err == nil {
			p.Close()
		}
		if (err == nil) != row.ok || (len(problems) == 0) != row.ok {
			t.Errorf("%s: Check = %v and Load = %v, want accepted: %v", name, problems, err, row.ok)
		}
	}
}

func quote(s string) string { return `"` + strings.ReplaceAll(s, `"`, `\"`) + `"` }

func FuzzInspect(f *testing.F) {
	f.Add(constantGuest(f, everyKind, nil))
	f.Add(wasmtest.Assemble(f, "import extism:host/env input_length -> i64\nmemory 1"))
	f.Fuzz(func(t *testing.T, wasm []byte) {
		in, err := Inspect(wasm)
		if (in == nil) == (err == nil) {
			t.Errorf("Inspect = %v, %v", in, err)
		}
		if in != nil && (in.Manifest != nil && in.ManifestError != nil || in.Size != len(wasm)) {
			t.Errorf("Inspect = %+v", in)
		}
	})
}
