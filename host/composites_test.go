package host_test

// Scenario: literals of the module's own structs have keys where positions say little.

import (
	"go/ast"
	"go/types"
	"testing"
)

// maxPositional is how many values a literal of a struct may have without keys: a point
// and a pair are read by position, a record is not.
const maxPositional = 3

// TestLiteralsOfStructsHaveKeys reads the literals of struct types of the same package.
// For those of imported packages go vet asks for keys.
func TestLiteralsOfStructsHaveKeys(t *testing.T) {
	seen := 0
	for dir, p := range parsePackages(t) {
		for _, file := range p.files {
			ast.Inspect(file, func(n ast.Node) bool {
				lit, ok := n.(*ast.CompositeLit)
				if !ok || !p.isStruct(lit.Type) || len(lit.Elts) == 0 {
					return true
				}
				seen++
				if _, keyed := lit.Elts[0].(*ast.KeyValueExpr); !keyed && len(lit.Elts) > maxPositional {
					t.Errorf("%s: a literal of %s has %d values without keys; at most %d", dir, types.ExprString(lit.Type), len(lit.Elts), maxPositional)
				}
				return true
			})
		}
	}
	if seen == 0 {
		t.Error("found no literal of a struct")
	}
}

// isStruct reports whether e names a struct type of the package.
func (p *parsedPackage) isStruct(e ast.Expr) bool {
	if generic, ok := e.(*ast.IndexExpr); ok {
		e = generic.X
	}
	name, ok := e.(*ast.Ident)
	if !ok || p.types[name.Name] == nil {
		return false
	}
	_, ok = p.types[name.Name].Type.(*ast.StructType)
	return ok
}
