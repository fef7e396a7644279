package schema

import (
	"fmt"
	"reflect"
	"strings"
)

// plainFields returns a type that encoding/json reads like t, with a named field in
// place of each embedded field that JSON has under a name: the library that infers
// schemas promotes the fields of every embedded struct. Without such a field it returns
// t. A type in known has its schema already. plainFields returns t too if package reflect
// cannot make such a type, which it reports by a panic: of a type that embeds itself and
// has methods.
func (in *inference) plainFields(t reflect.Type) (plain reflect.Type) {
	defer func() {
		if recover() != nil {
			plain = t
		}
	}()
	plain, _ = in.plain(t, map[reflect.Type]bool{}, false)
	return plain
}

// plain is plainFields for a part of a type. It also reports whether the type has
// changed; the last parameter makes it replace any struct, which then has no methods. A
// recursive type stays unchanged: no schema can be inferred from it.
func (in *inference) plain(t reflect.Type, within map[reflect.Type]bool, anew bool) (plain reflect.Type, changed bool) {
	if in.known[t] != nil || within[t] {
		return t, false
	}
	within[t] = true
	defer delete(within, t)
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		elem, changed := in.plain(t.Elem(), within, anew && t.Kind() == reflect.Pointer)
		if !changed {
			return t, false
		}
		switch t.Kind() {
		case reflect.Pointer:
			return reflect.PointerTo(elem), true
		case reflect.Slice:
			return reflect.SliceOf(elem), true
		case reflect.Array:
			return reflect.ArrayOf(t.Len(), elem), true
		}
		return reflect.MapOf(t.Key(), elem), true
	case reflect.Struct:
		if !anew && !in.hasNamedEmbedding(t, within) {
			return t, false
		}
		return in.plainStruct(t, within), true
	}
	return t, false
}

// hasNamedEmbedding reports whether a struct or a part of it embeds a field that JSON has
// under a name.
func (in *inference) hasNamedEmbedding(t reflect.Type, within map[reflect.Type]bool) bool {
	for i := range t.NumField() {
		f := t.Field(i)
		if isNamedEmbedding(f) {
			return true
		}
		if _, changed := in.plain(f.Type, within, false); (f.IsExported() || f.Anonymous) && changed {
			return true
		}
	}
	return false
}

// isNamedEmbedding reports whether JSON has an embedded field under a name: that of its
// tag, or of a type that is no struct.
func isNamedEmbedding(f reflect.StructField) bool {
	t := f.Type
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	tag := f.Tag.Get("json")
	name, _, _ := strings.Cut(tag, ",")
	return f.Anonymous && tag != "-" && (t.Kind() == reflect.Struct && name != "" || t.Kind() != reflect.Struct && f.IsExported())
}

// plainStruct returns a struct with the fields of t. Unexported ones are left out.
func (in *inference) plainStruct(t reflect.Type, within map[reflect.Type]bool) reflect.Type {
	var fields []reflect.StructField
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() && !f.Anonymous {
			continue
		}
		embeds := f.Anonymous && !isNamedEmbedding(f) && in.known[f.Type] == nil
		f.Type, _ = in.plain(f.Type, within, embeds) // reflect cannot embed a type with methods
		if f.Anonymous && (!f.IsExported() || embeds) {
			f.Name = fmt.Sprintf("Embedded%d", i)
		}
		fields = append(fields, reflect.StructField{Name: f.Name, Type: f.Type, Tag: f.Tag, Anonymous: embeds})
	}
	return reflect.StructOf(fields)
}
