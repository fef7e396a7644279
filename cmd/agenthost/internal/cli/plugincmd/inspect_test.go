package plugincmd

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/internal/testguest"
)

// crowdedModule returns a module with one function of params parameters under
// exports names of nameBytes each, imports of that function's type, custom sections
// and a manifest.
func crowdedModule(params, exports, imports, nameBytes, custom int, manifest []byte) []byte {
	name := func(kind string, i int) []byte {
		n := fmt.Sprintf("%s%d", kind, i)
		return testguest.String(n + strings.Repeat("x", max(0, nameBytes-len(n))))
	}
	many := binary.AppendUvarint(nil, 1)
	many = append(append(many, 0x60), append(testguest.String(strings.Repeat("\x7f", params)), 0)...)
	im := binary.AppendUvarint(nil, uint64(imports))
	for i := range imports {
		im = append(append(append(im, testguest.String("env")...), name("i", i)...), 0, 0)
	}
	ex := binary.AppendUvarint(nil, uint64(exports))
	for i := range exports {
		ex = binary.AppendUvarint(append(append(ex, name("e", i)...), 0), uint64(imports))
	}
	mod := []byte("\x00asm\x01\x00\x00\x00")
	mod = testguest.Section(mod, 1, many)
	mod = testguest.Section(mod, 2, im)
	mod = testguest.Section(mod, 3, []byte{1, 0})
	mod = testguest.Section(mod, 7, ex)
	mod = testguest.Section(mod, 10, []byte{1, 2, 0, 0x0b})
	for i := range custom {
		mod = testguest.Section(mod, 0, append(name("c", i), "content"...))
	}
	if manifest != nil {
		mod = testguest.Section(mod, 0, append(testguest.String("agenthost.manifest"), manifest...))
	}
	return mod
}

// manyTools returns a manifest of n tools, each with a schema of many members.
func manyTools(n, members int) []byte {
	m := map[string]any{"abi": 1, "name": "many", "version": "1.0.0"}
	var tools []any
	for i := range n {
		properties := map[string]any{}
		for j := range members {
			properties[fmt.Sprintf("member_%d", j)] = map[string]any{"type": "string", "description": strings.Repeat("long ", 20)}
		}
		tools = append(tools, map[string]any{"name": fmt.Sprintf("tool_%d", i), "description": strings.Repeat("word ", 50),
			"parameters": map[string]any{"type": "object", "properties": properties}})
	}
	m["tools"] = tools
	raw, err := json.Marshal(m)
	if err != nil {
		panic(err) // maps and strings have JSON
	}
	return raw
}

func TestInspectPrintsAtMost64kB(t *testing.T) {
	for name, wasm := range map[string][]byte{
		"exports of a type of 1,000 parameters": crowdedModule(1000, 8000, 0, 0, 0, nil),
		"imports of a type of 1,000 parameters": crowdedModule(1000, 0, 5000, 0, 0, nil),
		"names of 10 kB":                        crowdedModule(1, 100, 100, 10_000, 20, nil),
		"custom sections":                       crowdedModule(1, 1, 1, 0, 1000, nil),
		"a manifest of many tools":              crowdedModule(1, 3000, 3000, 0, 0, manyTools(60, 4)),
		"a manifest of long schemas":            crowdedModule(1, 1, 1, 0, 0, manyTools(3, 300)),
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "m.wasm")
			if err := os.WriteFile(file, wasm, 0o600); err != nil {
				t.Fatal(err)
			}
			in := &inspection{File: file}
			var err error
			if in.Inspection, err = plugin.Inspect(wasm); err != nil {
				t.Fatal(err)
			}
			in.findManifest(t.Context(), nil, wasm)
			if bytes.Contains(wasm, []byte("agenthost.manifest")) && in.manifest == nil {
				t.Fatalf("the manifest is not read: %v", in.ManifestError)
			}
			var text, js, whole bytes.Buffer
			if err := in.print(&ui.Terminal{Out: &text}); err != nil {
				t.Fatal(err)
			}
			if err := printCutJSON(&js, in); err != nil {
				t.Fatal(err)
			}
			if err := ui.PrintJSON(&whole, in); err != nil {
				t.Fatal(err)
			}
			if text.Len() > maxInspectBytes || js.Len() > maxInspectBytes || whole.Len() > 8<<20 {
				t.Errorf("%d bytes of text, %d of JSON, %d before it is cut", text.Len(), js.Len(), whole.Len())
			}
			var read struct {
				Digest    string
				Exports   []json.RawMessage
				Functions int
			}
			if err := json.Unmarshal(js.Bytes(), &read); err != nil || read.Digest != in.Digest || read.Functions != 1 {
				t.Errorf("JSON: %v, %+v", err, read)
			}
			if cut := whole.Len() > maxInspectBytes; cut != strings.Contains(js.String(), "left out") && cut != strings.Contains(js.String(), ui.CutMember) {
				t.Errorf("%d bytes are cut: %v, and it says %.200s", whole.Len(), cut, js.String())
			}
			if !strings.Contains(text.String(), "functions") || whole.Len() > 1<<20 && !strings.Contains(text.String(), "left out") {
				t.Errorf("text: %.500s", text.String())
			}
		})
	}
}

func TestInspectShowsResourcesAndPrompts(t *testing.T) {
	wasm := crowdedModule(1, 1, 1, 0, 0, []byte(`{"abi":1,"name":"shop","tools":[{"name":"order","description":""}],
		"resources":[{"uri":"shop://terms","name":"terms","text":"x"},{"uri":"shop://orders/{id}","name":"order","tool":"order"}],"prompts":[{"name":"letter","text":"y"}]}`))
	in := &inspection{File: "shop.wasm"}
	var err error
	if in.Inspection, err = plugin.Inspect(wasm); err != nil {
		t.Fatal(err)
	}
	in.findManifest(t.Context(), nil, wasm)
	var text bytes.Buffer
	if err := in.print(&ui.Terminal{Out: &text}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"shop://terms\n", "shop://orders/{id}, by the tool order\n", "prompt", "letter\n"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("inspect does not show %q:\n%s", want, &text)
		}
	}
}
