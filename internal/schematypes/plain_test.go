package schematypes_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/internal/longtest"
	"github.com/agenthost/agenthost/internal/schematypes"
)

// TestDeclarationsOfAnOrder compares the declarations of each language with the file that a
// reader of the code looks at.
func TestDeclarationsOfAnOrder(t *testing.T) {
	for lang, file := range map[schematypes.Language]string{
		schematypes.Go: "order.go.txt", schematypes.Rust: "order.rs", schematypes.C: "order.h",
		schematypes.AssemblyScript: "order.as.ts", schematypes.Zig: "order.zig",
	} {
		want, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		if got := declare(t, lang, "order", order); got != string(want) {
			t.Errorf("%s: got\n%s\nwant testdata/%s:\n%s", lang, got, file, want)
		}
	}
}

func TestGoCompilesDeclarations(t *testing.T) {
	for _, schema := range compiled(300) {
		text := declare(t, schematypes.Go, "root", schema)
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, "types.go", text, 0)
		if err == nil {
			_, err = (&types.Config{}).Check("main", fset, []*ast.File{file}, nil)
		}
		if err != nil {
			t.Errorf("of %s: %v:\n%s", schema, err, text)
		}
	}
}

// compiled returns schemas whose declarations are compiled.
func compiled(count int) []string {
	return append([]string{order, `{"type":["string","null"]}`, `{"items":{"items":{"type":"string"}}}`, `{"enum":["a","b"]}`, `{"additionalProperties":{"type":"integer"}}`, bomb(4)},
		schemas(rand.New(rand.NewPCG(5, 6)), count)...)
}

// The parts of declarations in Rust that need serde.
var (
	serdeRule    = regexp.MustCompile(`(?m)^ *#\[serde\(.*\n`)
	withoutSerde = strings.NewReplacer("use serde::{Deserialize, Serialize};", "", ", Serialize, Deserialize", "", "serde_json::Value", "()")
)

var exportedClass = regexp.MustCompile(`(?m)^export class (\w+)`)

func TestCompilersAcceptDeclarations(t *testing.T) {
	longtest.Need(t, "compilers of other languages take seconds")
	kits, err := filepath.Abs("../../pdk")
	if err != nil {
		t.Fatal(err)
	}
	zig, err := filepath.Abs("../../pdk/zig/toolchain/node_modules/.bin/zig")
	if err != nil {
		t.Fatal(err)
	}
	asc, err := filepath.Abs("../../examples/extism/assemblyscript/node_modules/.bin/asc")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		lang    schematypes.Language
		file    string // of a schema, by its number
		program string
		command string
	}{
		{schematypes.C, "s%d.h", "clang-19", "for f in s*.h; do clang-19 --target=wasm32 -std=c11 -Wall -Werror -Wno-unused-function -fsyntax-only -nostdlib -I" + kits + "/c -x c $f || exit 1; done"},
		{schematypes.Rust, "s%d.rs", "/usr/bin/rustc", "for f in s*.rs; do echo \"mod ${f%.rs};\"; done > lib.rs; /usr/bin/rustc --edition 2021 --crate-type lib --emit metadata -A warnings lib.rs"},
		{schematypes.AssemblyScript, "s%d.ts", asc, "ln -s " + kits + "/assemblyscript/agenthost agenthost; " + asc + " s*.ts --noEmit --use abort=agenthost/host/abort"},
		{schematypes.Zig, "s%d.zig", zig, "for f in s*.zig; do sed -n \"s/^pub const \\([A-Za-z0-9_]*\\) = .*/comptime { _ = @sizeOf(@import(\\\"$f\\\").\\1); }/p\" $f; done > all.zig; " + zig + " build-obj -fno-emit-bin --dep agenthost -Mroot=all.zig -Magenthost=" + kits + "/zig/agenthost/agenthost.zig"},
	} {
		t.Run(string(tt.lang), func(t *testing.T) {
			if _, err := exec.LookPath(tt.program); err != nil {
				t.Skipf("needs %s: run .ci/toolchains.sh", tt.program)
			}
			dir := t.TempDir()
			for i, schema := range compiled(60) {
				text := declare(t, tt.lang, "root", schema)
				switch tt.lang {
				case schematypes.AssemblyScript: // which compiles classes that are used
					for _, class := range exportedClass.FindAllStringSubmatch(text, -1) {
						text += fmt.Sprintf("export function use%d_%s(v: Json): void { new %[2]s(v); }\n", i, class[1])
					}
				case schematypes.Rust:
					text = withoutSerde.Replace(serdeRule.ReplaceAllString(text, ""))
				}
				if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf(tt.file, i)), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			compile := exec.CommandContext(t.Context(), "sh", "-c", tt.command)
			compile.Dir = dir
			if out, err := compile.CombinedOutput(); err != nil {
				t.Errorf("%s refuses generated types: %v\n%.3000s", tt.program, err, out)
			}
		})
	}
}
