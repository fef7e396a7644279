package host_test

// Scenario: a struct of the module holds a context only for its own lifetime.

import (
	"go/ast"
	"strings"
	"testing"
)

// A context is a parameter of what it ends. A struct holds one only if the struct lives
// as long as the context does, and the field's comment says so.
func TestContextsInStructsAreLifetimes(t *testing.T) {
	held := 0
	for dir, p := range parsePackages(t) {
		for _, file := range p.files {
			ast.Inspect(file, func(n ast.Node) bool {
				s, ok := n.(*ast.StructType)
				if !ok {
					return true
				}
				for _, f := range s.Fields.List {
					if !isContext(f.Type) {
						continue
					}
					held++
					if !strings.Contains(f.Doc.Text()+f.Comment.Text(), "lifetime") {
						t.Errorf("%s: the field %s holds a context; pass it to the functions that need it, or say in its comment whose lifetime it is",
							dir, fieldNames(f))
					}
				}
				return true
			})
		}
	}
	if held == 0 {
		t.Error("found no context in a struct, though some types have a lifetime")
	}
}

func isContext(e ast.Expr) bool {
	sel, ok := e.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != "Context" {
		return false
	}
	pkg, ok := sel.X.(*ast.Ident)
	return ok && pkg.Name == "context"
}

// fieldNames returns the names of a field, "context.Context" for an embedded one.
func fieldNames(f *ast.Field) string {
	names := make([]string, len(f.Names))
	for i, n := range f.Names {
		names[i] = n.Name
	}
	if len(names) == 0 {
		return "context.Context"
	}
	return strings.Join(names, ", ")
}
