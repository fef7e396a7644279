package host_test

// Scenario: the page of package host stays short enough to be read.

import (
	"go/ast"
	"slices"
	"testing"
)

// maxExported is how many exported names, methods of exported types included, the page of
// package host may have. It never rises without a line in RATIONALE.
const maxExported = 300

func TestThePageOfHostStaysShort(t *testing.T) {
	var names []string
	for _, file := range parsePackages(t)["host"].files {
		names = append(names, exportedIn(file)...)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) < 100 {
		t.Fatalf("found %d exported names in package host", len(names))
	}
	if len(names) > maxExported {
		t.Errorf("package host exports %d names, more than %d: unexport one, move it to the package that uses it, or say in RATIONALE why the page grows", len(names), maxExported)
	}
}

// exportedIn returns the exported names that a file declares: "Name", or "Type.Method".
func exportedIn(file *ast.File) []string {
	var names []string
	add := func(name string) {
		if ast.IsExported(name) {
			names = append(names, name)
		}
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				add(d.Name.Name)
			} else if on := receiverName(d); ast.IsExported(on) && d.Name.IsExported() {
				names = append(names, on+"."+d.Name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					add(spec.Name.Name)
				case *ast.ValueSpec:
					for _, n := range spec.Names {
						add(n.Name)
					}
				}
			}
		}
	}
	return names
}

// receiverName returns the name of the type that a method belongs to.
func receiverName(d *ast.FuncDecl) string {
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}
