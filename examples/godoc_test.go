package examples_test

// Scenario: the Go code in the public packages' comments and on the first page compiles.

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/doc"
	"go/doc/comment"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestCodeOnGodocPagesCompiles: each piece of Go in the comments of the public
// packages, and on the first page, is what their present API takes.
func TestCodeOnGodocPagesCompiles(t *testing.T) {
	list := exported(t)
	pieces := goBlocks(t, "../README.md")
	for _, p := range list {
		if p.public() {
			pieces = append(pieces, p.code(t)...)
		}
	}
	const least = 25
	if len(pieces) < least {
		t.Errorf("there are %d pieces of code; are the pages read as they are written?", len(pieces))
	}
	check := newChecker(list)
	for _, piece := range pieces {
		for _, fault := range check.faults(piece.text) {
			t.Errorf("%s: %s\n%s", piece.where, fault, piece.text)
		}
	}
}

// godocPackage is a package as go list has it.
type godocPackage struct {
	ImportPath, Name, Dir, Export string
	GoFiles                       []string
	Standard                      bool
}

const module = "github.com/agenthost/agenthost/"

func (p *godocPackage) public() bool {
	rest, ours := strings.CutPrefix(p.ImportPath, module)
	return ours && (strings.HasPrefix(rest+"/", "host/") || strings.HasPrefix(rest, "pdk/go")) && !strings.Contains(rest, "internal")
}

// exported lists the packages of the library and all that they import, with where
// their compiled types are.
func exported(t *testing.T) (list []*godocPackage) {
	t.Helper()
	cmd := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Name,Dir,Export,GoFiles,Standard", "../host/...", "../pdk/go/...", "net/http")
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go list: %s", exit.Stderr)
		}
		t.Fatal(err)
	}
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		p := &godocPackage{}
		if err := d.Decode(p); err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
	return list
}

// codePiece is a piece of code on a page.
type codePiece struct{ where, text string }

// code returns the pieces of Go in a package's comments.
func (p *godocPackage) code(t *testing.T) (pieces []codePiece) {
	t.Helper()
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(fset, path.Join(p.Dir, name), nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	d, err := doc.NewFromFiles(fset, files, p.ImportPath)
	if err != nil {
		t.Fatal(err)
	}
	add := func(name, text string) {
		for _, block := range new(comment.Parser).Parse(text).Content {
			if c, ok := block.(*comment.Code); ok && isGo(c.Text) {
				pieces = append(pieces, codePiece{strings.TrimSpace(p.ImportPath + " " + name), c.Text})
			}
		}
	}
	values := func(list []*doc.Value) {
		for _, v := range list {
			add(strings.Join(v.Names, ","), v.Doc)
		}
	}
	funcs := func(list []*doc.Func) {
		for _, f := range list {
			add(f.Name, f.Doc)
		}
	}
	add("", d.Doc)
	values(d.Consts)
	values(d.Vars)
	funcs(d.Funcs)
	for _, typ := range d.Types {
		add(typ.Name, typ.Doc)
		values(typ.Consts)
		values(typ.Vars)
		funcs(typ.Funcs)
		funcs(typ.Methods)
	}
	return pieces
}

var goLike = regexp.MustCompile(`(?m):=|^\s*(func|defer|go|return|var|if err) |^\w+\.\w+\(.*\)$`)

// isGo tells Go from tables, commands, JSON and other languages.
func isGo(text string) bool { return goLike.MatchString(text) }

// goBlocks returns the pieces of Go of a page in Markdown that are no whole program.
func goBlocks(t *testing.T, file string) (pieces []codePiece) {
	t.Helper()
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		if !strings.HasPrefix(m[1], "package ") { // a test of its own builds that
			pieces = append(pieces, codePiece{file, m[1]})
		}
	}
	return pieces
}

// given are the names that pages take for granted, by what they are.
var given = map[string]string{
	"ctx": "context.Context", "driver": "kv.Driver", "model": "host.Model", "agent": "*host.Agent", "h": "*host.Host",
	"key": "string", "dsn": "string", "tenant": "string", "thread": "string", "history": "*host.History", "network": "*host.Network",
	"lookup": "*host.Tool", "listOrders": "*host.Tool", "getInvoice": "*host.Tool", "sendReminder": "*host.Tool", "tools": "[]*host.Tool", "tool": "*host.Tool", "call": "*host.Call", "q": "*queue.Queue",
	"rt": "*plugin.Runtime", "p": "*plugin.Plugin", "store": "*badgerkv.Store", "w": "http.ResponseWriter", "r": "*http.Request", "file": "io.Reader",
	"t": "*testing.T", "mux": "*http.ServeMux", "token": "string", "wasm": "[]byte", "c": "*pdk.Call", "req": "*host.Request",
	"id": "string", "headKey": "kv.Key", "log": "kv.Key", "next": "[]byte", "message": "[]byte", "d": "kv.Driver", "b": "*kv.PageBuilder", "entries": "[]kv.Entry",
	"traces": "*trace.Log", "jobs": "*queue.Queue", "listener": "net.Listener", "path": "string", "view": "*host.View", "text": "string",
	"newMyHistory": "func(*testing.T) any", "request": "func(*http.Request) *host.Request", "greet": "func(context.Context, []byte) error",
	"mydriver": "struct{ Open func(string) (kv.Driver, error) }",
	"err":      "error", "logger": "*slog.Logger", "backend": "memory.Backend", "service": "*sessions.Service",
	"holder": "string", "takeOver": "func(context.Context, string) error", "target": "host.Target", "prices": "*usage.PriceTable",
	"ledger": "*usage.Ledger", "registry": "*runs.Registry", "who": "*keys.Principal",
	"credentials": "func(context.Context) (bedrock.Credentials, error)", "answer": "json.RawMessage", "items": "json.RawMessage", "body": "[]byte",
	"catalog": "mcpserver.Catalog", "tenantOf": "func(*http.Request) string",
	"in": "instrument.Instrument", "authenticate": "httpapi.Authenticate", "spans": "oteltrace.TracerProvider", "measures": "otelmetric.MeterProvider",
}

// checker checks pieces of code against the compiled packages.
type checker struct {
	importer types.Importer
	fset     *token.FileSet
	paths    map[string]string // by name
}

func newChecker(list []*godocPackage) *checker {
	c := &checker{fset: token.NewFileSet(), paths: map[string]string{"pdk": module + "pdk/go/pdk", "testing": "testing",
		"oteltrace": "go.opentelemetry.io/otel/trace", "otelmetric": "go.opentelemetry.io/otel/metric"}}
	exports := map[string]string{}
	for _, p := range list {
		exports[p.ImportPath] = p.Export
		if strings.HasPrefix(p.ImportPath, module) && !p.public() || strings.Contains(p.ImportPath, "/internal/") {
			continue
		}
		if old, twice := c.paths[p.Name]; !twice || p.public() || p.Standard && len(p.ImportPath) < len(old) && !strings.HasPrefix(old, module) {
			c.paths[p.Name] = p.ImportPath
		}
	}
	c.importer = importer.ForCompiler(c.fset, "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("there is no package %s", path)
		}
		return os.Open(exports[path])
	})
	return c
}

// faults returns what the compiler would say of a piece, but for variables that it
// does not use or makes anew: pages show one step behind another.
func (c *checker) faults(text string) (faults []string) {
	var used, declared []string
	for try := 0; ; try++ {
		file, err := parser.ParseFile(c.fset, "page.go", c.program(text, used, declared), 0)
		if err != nil {
			return []string{err.Error()}
		}
		again := false
		faults = nil
		conf := types.Config{Importer: c.importer, Error: func(err error) {
			said := err.(types.Error).Msg
			name, undefined := strings.CutPrefix(said, "undefined: ")
			switch {
			case strings.HasPrefix(said, "declared and not used"), strings.HasPrefix(said, "no new variables"), strings.Contains(said, "imported and not used"):
			case undefined && given[name] != "":
				if !slices.Contains(declared, name) { // it may be missing in several places
					declared, again = append(declared, name), true
					used = addPackages(used, given[name])
				}
			case undefined && c.paths[name] != "" && !slices.Contains(used, name):
				used, again = append(used, name), true
			default:
				faults = append(faults, said)
			}
		}}
		_, _ = conf.Check("page", c.fset, []*ast.File{file}, nil) // Error is told
		if !again || try > len(given) {
			return faults
		}
	}
}

var packageName = regexp.MustCompile(`(\w+)\.`)

// addPackages adds the packages of a type to those that are imported.
func addPackages(used []string, typ string) []string {
	for _, m := range packageName.FindAllStringSubmatch(typ, -1) {
		if !slices.Contains(used, m[1]) {
			used = append(used, m[1])
		}
	}
	return used
}

// program is a file in which the piece is the body of a function, or what stands
// beside one.
func (c *checker) program(text string, used, declared []string) string {
	var b strings.Builder
	b.WriteString("package page\n")
	for _, name := range used {
		fmt.Fprintf(&b, "import %s %q\n", name, c.paths[name])
	}
	for _, name := range declared {
		fmt.Fprintf(&b, "var %s %s\n", name, given[name])
	}
	if strings.HasPrefix(text, "func ") || strings.HasPrefix(text, "type ") {
		return b.String() + text
	}
	result := "error"
	if !regexp.MustCompile(`(?m)^\s*return .`).MatchString(text) {
		result = ""
	}
	fmt.Fprintf(&b, "func _() %s {\n%s\n", result, text)
	if result != "" {
		b.WriteString("return nil\n")
	}
	return b.String() + "}\n"
}
