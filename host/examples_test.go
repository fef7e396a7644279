package host_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// compiledOnly are the packages whose examples cannot be run by themselves.
var compiledOnly = map[string]string{
	"host/kv/kvtest":     "a kit wants a test to report to",
	"host/kv/pgkv":       "it wants a server",
	"host/redismessages": "it wants a server",
}

// Each package that others may import shows how it is used, by an example that a
// test runs. Commands, what is internal, and the examples themselves are not
// imported by others.
func TestEveryPublicPackageHasAnExample(t *testing.T) {
	root := moduleRoot(t)
	checked := 0
	for dir := range packages(t) {
		if isCommand(t, filepath.Join(root, dir)) || strings.HasPrefix(dir, "cmd/") || strings.HasPrefix(dir+"/", "examples/") || strings.Contains(dir+"/", "internal/") {
			continue
		}
		checked++
		if !hasExample(t, filepath.Join(root, dir), compiledOnly[dir] == "") {
			t.Errorf("package %s has no Example with an Output", dir)
		}
	}
	if checked < 10 {
		t.Errorf("%d packages were looked at", checked)
	}
}

func isCommand(t *testing.T, dir string) bool {
	t.Helper()
	for name, f := range parseFiles(t, dir, parser.PackageClauseOnly) {
		if !strings.HasSuffix(name, "_test.go") {
			return f.Name.Name == "main"
		}
	}
	return false
}

func hasExample(t *testing.T, dir string, run bool) bool {
	t.Helper()
	for name, f := range parseFiles(t, dir, parser.ParseComments) {
		if !strings.HasSuffix(name, "_test.go") {
			continue
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if ok && strings.HasPrefix(fn.Name.Name, "Example") && (!run || hasOutput(f, fn)) {
				return true
			}
		}
	}
	return false
}

// hasOutput reports whether an example is run: one without an output is only
// compiled.
func hasOutput(f *ast.File, fn *ast.FuncDecl) bool {
	for _, group := range f.Comments {
		if group.Pos() > fn.Pos() && group.End() < fn.End() && strings.Contains(group.Text(), "utput:") {
			return true
		}
	}
	return false
}

func parseFiles(t *testing.T, dir string, mode parser.Mode) map[string]*ast.File {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]*ast.File{}
	for _, name := range names {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, mode)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = f
	}
	return files
}
