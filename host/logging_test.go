package host_test

// Scenario: lines of a log belong to a trace and a tenant, so code that has a context logs
// with it.

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// alwaysWithContext are the packages whose work is somebody's: they log with a context only.
var alwaysWithContext = []string{"host", "host/httpapi", "host/runs"}

func TestLinesOfLogsHaveTheirContext(t *testing.T) {
	root := moduleRoot(t)
	for dir := range parsePackages(t) {
		files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(dir, "examples") {
				continue
			}
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, at := range linesWithoutContext(file, slices.Contains(alwaysWithContext, dir)) {
				t.Errorf("%s: a line of the log is without the context that is at hand; use the method with Context", fset.Position(at))
			}
		}
	}
}

// linesWithoutContext returns the calls of a logger that take no context: all of them, or
// those in functions that have one.
func linesWithoutContext(file *ast.File, all bool) (found []token.Pos) {
	var walk func(n ast.Node, has bool)
	walk = func(n ast.Node, has bool) {
		ast.Inspect(n, func(inner ast.Node) bool {
			switch f := inner.(type) {
			case *ast.FuncDecl:
				if f != n && f.Body != nil {
					walk(f.Body, has || takesContext(f.Type))
				}
				return f == n
			case *ast.FuncLit:
				walk(f.Body, has || takesContext(f.Type))
				return false
			case *ast.CallExpr:
				if has && logsWithoutContext(f) {
					found = append(found, f.Pos())
				}
			}
			return true
		})
	}
	walk(file, all)
	return found
}

// takesContext reports whether a function has a context with a name.
func takesContext(f *ast.FuncType) bool {
	return slices.ContainsFunc(f.Params.List, func(p *ast.Field) bool {
		s, ok := p.Type.(*ast.SelectorExpr)
		return ok && s.Sel.Name == "Context" && len(p.Names) > 0 && p.Names[0].Name != "_"
	})
}

func logsWithoutContext(call *ast.CallExpr) bool {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !slices.Contains([]string{"Debug", "Info", "Warn", "Error"}, method.Sel.Name) || len(call.Args) == 0 {
		return false
	}
	name := ""
	switch x := method.X.(type) {
	case *ast.Ident:
		name = x.Name
	case *ast.SelectorExpr:
		name = x.Sel.Name
	}
	return name == "slog" || strings.HasSuffix(strings.ToLower(name), "logger")
}
