package host_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// The limits of size. A type or a package that passes one has more than one job: find
// which code owns which fields, and give each owner a type, a file and a constructor.
const (
	maxFields       = 25     // of a struct, with those that embedding promotes
	maxMethods      = 40     // of a type, with those that embedding promotes and functions over it
	maxPackageLines = 10_000 // of Go files without tests, blank lines and comments included
)

// oversized lists the types and packages that pass a limit, with their greatest
// permitted counts. A count here never rises, and an entry within its limit must go.
var oversized = map[string]int{
	"fields of host/plugin/internal/wasmmeter.codeScan":  39,
	"methods of host/plugin/internal/wasmmeter.codeScan": 56,
}

func TestTypesAndPackagesStaySmall(t *testing.T) {
	packages := parsePackages(t)
	found := map[string]int{}
	for dir, p := range packages {
		if p.lines > maxPackageLines {
			found["lines of "+dir] = p.lines
		}
		for name := range p.types {
			if n := len(fieldsOf(packages, dir, name, nil)); n > maxFields {
				found["fields of "+dir+"."+name] = n
			}
			if n := len(methodsOf(packages, dir, name, nil)); n > maxMethods {
				found["methods of "+dir+"."+name] = n
			}
		}
	}
	for _, what := range slices.Sorted(maps.Keys(found)) {
		if found[what] > oversized[what] {
			t.Errorf("%s: %d; at most %d allowed", what, found[what], max(oversized[what], limitFor(what)))
		}
	}
	for what := range oversized {
		if found[what] == 0 {
			t.Errorf("%s is within its limit: remove its entry", what)
		}
	}
}

func limitFor(what string) int {
	switch kind, _, _ := strings.Cut(what, " "); kind {
	case "fields":
		return maxFields
	case "methods":
		return maxMethods
	default:
		return maxPackageLines
	}
}

// parsedPackage is the declarations of one directory's Go files without tests.
type parsedPackage struct {
	lines     int
	types     map[string]*ast.TypeSpec
	imports   map[*ast.TypeSpec]map[string]string // package name to directory, of the type's file
	methods   map[string]map[string]bool          // by receiver type
	functions map[string]map[string]bool          // by type of the first parameter
	files     []*ast.File
}

// tree is the packages of the repository, parsed once for all tests.
var tree struct {
	once     sync.Once
	packages map[string]*parsedPackage
}

func parsePackages(t *testing.T) map[string]*parsedPackage {
	t.Helper()
	tree.once.Do(func() { tree.packages = parseTree(t) })
	if tree.packages == nil {
		t.Fatal("the tree was not read")
	}
	return tree.packages
}

func parseTree(t *testing.T) map[string]*parsedPackage {
	t.Helper()
	root := moduleRoot(t)
	packages := map[string]*parsedPackage{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return skipped(root, file, d.Name())
		}
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		rel, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		dir := filepath.ToSlash(rel)
		if packages[dir] == nil {
			packages[dir] = &parsedPackage{
				types: map[string]*ast.TypeSpec{}, imports: map[*ast.TypeSpec]map[string]string{},
				methods: map[string]map[string]bool{}, functions: map[string]map[string]bool{},
			}
		}
		return packages[dir].addFile(file)
	})
	if err != nil {
		t.Fatalf("read the tree: %v", err)
	}
	if packages["host"] == nil || packages["host"].types["Host"] == nil {
		t.Fatalf("found %d packages under %s and no host.Host among them", len(packages), root)
	}
	return packages
}

func (p *parsedPackage) addFile(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("parse %s: %w", file, err)
	}
	p.lines += bytes.Count(text, []byte("\n"))
	p.files = append(p.files, parsed)
	imports := map[string]string{}
	for _, spec := range parsed.Imports {
		target, _ := strconv.Unquote(spec.Path.Value)
		dir, ours := strings.CutPrefix(target, modulePath+"/")
		if !ours {
			continue
		}
		name := path.Base(dir)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		imports[name] = dir
	}
	for _, decl := range parsed.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			p.addFunction(decl)
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				if spec, ok := spec.(*ast.TypeSpec); ok {
					p.types[spec.Name.Name] = spec
					p.imports[spec] = imports
				}
			}
		}
	}
	return nil
}

// addFunction counts a method with its receiver's type, and a function with the type of
// its first parameter that is not a context.
func (p *parsedPackage) addFunction(f *ast.FuncDecl) {
	if f.Recv != nil {
		if name := localTypeName(f.Recv.List[0].Type); name != "" {
			addTo(p.methods, name, f.Name.Name)
		}
		return
	}
	for _, param := range f.Type.Params.List {
		if s, ok := param.Type.(*ast.SelectorExpr); ok && s.Sel.Name == "Context" {
			continue
		}
		if name := localTypeName(param.Type); name != "" {
			addTo(p.functions, name, f.Name.Name)
		}
		return
	}
}

func addTo(sets map[string]map[string]bool, name, member string) {
	if sets[name] == nil {
		sets[name] = map[string]bool{}
	}
	sets[name][member] = true
}

// localTypeName returns the name of a type of the same package that an expression names,
// with or without a pointer and type arguments.
func localTypeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return localTypeName(e.X)
	case *ast.IndexExpr:
		return localTypeName(e.X)
	case *ast.IndexListExpr:
		return localTypeName(e.X)
	case *ast.Ident:
		return e.Name
	default:
		return ""
	}
}

type typeRef struct{ dir, name string }

// embeddedIn returns the types of this module that a struct or interface embeds.
func embeddedIn(p *parsedPackage, dir string, spec *ast.TypeSpec) (embedded []typeRef) {
	var fields *ast.FieldList
	switch body := spec.Type.(type) {
	case *ast.StructType:
		fields = body.Fields
	case *ast.InterfaceType:
		fields = body.Methods
	default:
		return nil
	}
	for _, field := range fields.List {
		if len(field.Names) > 0 {
			continue
		}
		e := field.Type
		if star, ok := e.(*ast.StarExpr); ok {
			e = star.X
		}
		if s, ok := e.(*ast.SelectorExpr); ok {
			if from, ok := s.X.(*ast.Ident); ok && p.imports[spec][from.Name] != "" {
				embedded = append(embedded, typeRef{p.imports[spec][from.Name], s.Sel.Name})
			}
		} else if name := localTypeName(e); name != "" {
			embedded = append(embedded, typeRef{dir, name})
		}
	}
	return embedded
}

func fieldsOf(packages map[string]*parsedPackage, dir, name string, seen []typeRef) map[string]bool {
	fields := map[string]bool{}
	p := packages[dir]
	if p == nil || p.types[name] == nil || slices.Contains(seen, typeRef{dir, name}) {
		return fields
	}
	body, ok := p.types[name].Type.(*ast.StructType)
	if !ok {
		return fields
	}
	for i, field := range body.Fields.List {
		for _, n := range field.Names {
			fields[fmt.Sprint(n.Name, i)] = true
		}
		if len(field.Names) == 0 {
			fields[fmt.Sprint("embedded", i)] = true
		}
	}
	for _, e := range embeddedIn(p, dir, p.types[name]) {
		for f := range fieldsOf(packages, e.dir, e.name, append(seen, typeRef{dir, name})) {
			fields[e.dir+"."+e.name+"."+f] = true
		}
	}
	return fields
}

func methodsOf(packages map[string]*parsedPackage, dir, name string, seen []typeRef) map[string]bool {
	methods := map[string]bool{}
	p := packages[dir]
	if p == nil || p.types[name] == nil || slices.Contains(seen, typeRef{dir, name}) {
		return methods
	}
	if body, ok := p.types[name].Type.(*ast.InterfaceType); ok {
		for _, field := range body.Methods.List {
			for _, n := range field.Names {
				methods[n.Name] = true
			}
		}
	} else {
		for f := range p.functions[name] {
			methods["func "+f] = true
		}
	}
	maps.Copy(methods, p.methods[name])
	for _, e := range embeddedIn(p, dir, p.types[name]) {
		maps.Copy(methods, methodsOf(packages, e.dir, e.name, append(seen, typeRef{dir, name})))
	}
	return methods
}
