package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// mark is the line of a comment that asks for the methods of a struct.
const mark = "pdk:typed"

// source is a package of which structs are read.
type source struct {
	fset  *token.FileSet
	name  string
	types map[string]*declared
}

// declared is a type of the package.
type declared struct {
	name   string
	expr   ast.Expr
	typed  bool // its comment has the mark, or a struct with it needs it
	fields []field
}

// field is a member of a struct.
type field struct {
	name     string // in Go
	member   string // in JSON
	expr     ast.Expr
	doc      string
	optional bool
	tag      reflect.StructTag
}

// readSource parses the Go files of a directory, but for tests and for what pdkgen has written.
func readSource(dir string) (*source, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	s := &source{fset: token.NewFileSet(), types: map[string]*declared{}}
	for _, e := range entries {
		if name := e.Name(); !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || name == generatedFile {
			continue
		}
		file, err := parser.ParseFile(s.fset, filepath.Join(dir, e.Name()), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		s.name = file.Name.Name
		s.addFile(file)
	}
	if s.name == "" {
		return nil, fmt.Errorf("%s has no Go files", dir)
	}
	return s, s.follow()
}

func (s *source) addFile(file *ast.File) {
	for _, d := range file.Decls {
		group, ok := d.(*ast.GenDecl)
		if !ok || group.Tok != token.TYPE {
			continue
		}
		for _, spec := range group.Specs {
			t := spec.(*ast.TypeSpec)
			doc := t.Doc
			if doc == nil && len(group.Specs) == 1 {
				doc = group.Doc
			}
			s.types[t.Name.Name] = &declared{name: t.Name.Name, expr: t.Type, typed: marked(doc)}
		}
	}
}

// marked reports whether a comment has the mark on a line of its own.
func marked(doc *ast.CommentGroup) bool {
	if doc == nil {
		return false
	}
	return slices.ContainsFunc(doc.List, func(c *ast.Comment) bool {
		return strings.TrimSpace(strings.TrimPrefix(c.Text, "//")) == mark
	})
}

// follow reads the fields of the structs that are asked for, and of those that they need.
func (s *source) follow() error {
	found := false
	for _, name := range slices.Sorted(maps.Keys(s.types)) {
		if t := s.types[name]; t.typed {
			found = true
			if err := s.readStruct(t, nil); err != nil {
				return err
			}
		}
	}
	if !found {
		return fmt.Errorf("package %s has no struct with the comment %q: write it above the structs of arguments", s.name, "// "+mark)
	}
	return nil
}

// readStruct reads the fields of a struct. within are the structs that it is inside of.
func (s *source) readStruct(t *declared, within []string) error {
	st, ok := t.expr.(*ast.StructType)
	switch {
	case !ok:
		return s.errorf(t.expr, "%s is no struct", t.name)
	case slices.Contains(within, t.name):
		return s.errorf(t.expr, "%s holds itself, which no schema is written for: make the field inside a pdk.Raw", t.name)
	case t.fields != nil:
		return nil
	}
	t.typed = true
	within = append(within, t.name)
	members := map[string]bool{}
	for _, f := range st.Fields.List {
		if len(f.Names) == 0 {
			return s.errorf(f, "%s embeds a type: name the field", t.name)
		}
		for _, name := range f.Names {
			one, err := s.readField(f, name)
			if err != nil {
				return err
			}
			if one.member == "-" {
				continue
			}
			if members[one.member] {
				return s.errorf(f, "%s has two members %q", t.name, one.member)
			}
			members[one.member] = true
			if err := s.check(f.Type, t.name, within); err != nil {
				return err
			}
			t.fields = append(t.fields, one)
		}
	}
	return nil
}

func (s *source) readField(f *ast.Field, name *ast.Ident) (field, error) {
	out := field{name: name.Name, member: name.Name, expr: f.Type, doc: strings.Join(strings.Fields(f.Doc.Text()+" "+f.Comment.Text()), " ")}
	if !name.IsExported() {
		return out, s.errorf(f, "field %s is not exported", name.Name)
	}
	if f.Tag != nil {
		text, err := strconv.Unquote(f.Tag.Value)
		if err != nil {
			return out, s.errorf(f, "the tag of %s cannot be read: %w", name.Name, err)
		}
		out.tag = reflect.StructTag(text)
	}
	member, options, _ := strings.Cut(out.tag.Get("json"), ",")
	if member != "" {
		out.member = member
	}
	_, pointer := f.Type.(*ast.StarExpr)
	out.optional = pointer || slices.Contains(strings.Split(options, ","), "omitempty") || slices.Contains(strings.Split(options, ","), "omitzero")
	return out, nil
}

// check refuses types that are not read, and reads the structs that a type needs.
func (s *source) check(expr ast.Expr, of string, within []string) error {
	switch e := expr.(type) {
	case *ast.Ident:
		if basics[e.Name].reader != "" {
			return nil
		}
		t := s.types[e.Name]
		if t == nil {
			return s.errorf(expr, "%s has a field of type %s, which is not read: see the documentation of pdkgen", of, e.Name)
		}
		if _, isStruct := t.expr.(*ast.StructType); isStruct {
			fields := t.fields
			t.fields = nil // to find it inside of itself
			err := s.readStruct(t, within)
			if err == nil && fields != nil {
				t.fields = fields
			}
			return err
		}
		if under, ok := t.expr.(*ast.Ident); ok && basics[under.Name].reader != "" {
			return nil
		}
		return s.errorf(expr, "%s has a field of type %s, which is not read", of, e.Name)
	case *ast.StarExpr:
		return s.check(e.X, of, within)
	case *ast.ArrayType:
		if e.Len == nil {
			return s.check(e.Elt, of, within)
		}
	case *ast.MapType:
		if key, ok := e.Key.(*ast.Ident); ok && key.Name == "string" {
			return s.check(e.Value, of, within)
		}
	case *ast.SelectorExpr:
		if isRaw(e) {
			return nil
		}
	}
	return s.errorf(expr, "%s has a field of a type that is not read: see the documentation of pdkgen", of)
}

// isRaw reports whether a type is pdk.Raw.
func isRaw(e *ast.SelectorExpr) bool {
	from, ok := e.X.(*ast.Ident)
	return ok && from.Name == "pdk" && e.Sel.Name == "Raw"
}

func (s *source) errorf(at ast.Node, format string, args ...any) error {
	return fmt.Errorf("%s: %w", s.fset.Position(at.Pos()), fmt.Errorf(format, args...))
}
