package schematypes

import (
	"fmt"
	"strings"
)

// cWords are words that are no identifiers in C or C++.
const cWords = `auto break case char const continue default do double else enum extern float for goto if inline int long
	register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while
	bool true false NULL alignas alignof asm catch class delete explicit export friend mutable namespace new operator
	private protected public template this throw try typename using virtual and or not xor constexpr nullptr
	int64_t uint32_t linux unix f`

// The marks of types whose form depends on the field that has them.
const (
	markList = "[]"
	markMay  = "?"
)

// cDialect writes structures for the values that a plugin takes out of those of the kit.
func cDialect() *dialect {
	return &dialect{
		reserved: cWords,
		header: `#include "agenthost.h"

/* C reads nothing by itself: ah_get, ah_string, ah_read_int and ah_iterate take members out of an ah_json.
 * A text or value that is absent has at == NULL, and a structure is NULL. Alternatives, objects
 * with members of any name, and lists of lists are ah_json. */

`,
		comment:  [2]string{"/* ", " */"},
		scalars:  map[kind]string{anyValue: "ah_json", boolean: "bool", integer: "int64_t", number: "double", text: "ah_text"},
		list:     markedList("ah_json"),
		dict:     func(string) string { return "ah_json" },
		option:   func(expr string) string { return expr + markMay },
		typeName: cTypeName,
		structure: func(out *strings.Builder, name string, fields []memberType) {
			fmt.Fprintf(out, "struct %s {\n", name)
			for _, f := range fields {
				for _, line := range append(f.description, memberWords(f)) {
					fmt.Fprintf(out, "  /* %s */\n", line)
				}
				out.WriteString(cField(f))
			}
			out.WriteString("};\n")
		},
		alias: func(name, expr string) string {
			if expr = strings.TrimSuffix(expr, markMay); cIsStructure(expr) || strings.HasSuffix(expr, markList) {
				expr = "ah_json"
			}
			return fmt.Sprintf("typedef %s %s;\n", expr, name)
		},
		fieldName:  snake,
		beside:     func(name string) (flag, count string) { return "has_" + name, name + "_count" },
		fieldWords: cWords,
	}
}

// markedList returns how lists are written of elements that have a form of their own; other
// lists have elements of any value.
func markedList(anything string) func(elem string) string {
	return func(elem string) string {
		if strings.HasSuffix(elem, markList) || strings.HasSuffix(elem, markMay) {
			return anything + markList
		}
		return elem + markList
	}
}

// memberWords says which member of the document a field is, in a line of a comment.
func memberWords(f memberType) string {
	line := strings.Join(lines(quotedWith(f.json, `\u%04x`)), " ")
	if f.is.values == nil {
		return line
	}
	var values []string
	for _, value := range f.is.values {
		values = append(values, quotedWith(value, `\u%04x`))
	}
	return line + ", one of " + strings.Join(lines(strings.Join(values, ", ")), " ")
}

func cField(f memberType) string {
	expr := strings.TrimSuffix(f.expr, markMay)
	elem, isList := strings.CutSuffix(expr, markList)
	switch {
	case isList && cIsStructure(elem):
		return fmt.Sprintf("  const struct %s *%s;\n  uint32_t %s;\n", elem, f.name, f.count)
	case isList:
		return fmt.Sprintf("  const %s *%s;\n  uint32_t %s;\n", elem, f.name, f.count)
	case cIsStructure(expr):
		return fmt.Sprintf("  const struct %s *%s;\n", expr, f.name)
	case f.may && !strings.HasPrefix(expr, "ah_"):
		return fmt.Sprintf("  bool %s;\n  %s %s;\n", f.flag, expr, f.name)
	default:
		return fmt.Sprintf("  %s %s;\n", expr, f.name)
	}
}

// cTypeName returns a name that is no type or function of the kit or of the C library.
func cTypeName(name string) string {
	if name = snake(name); strings.HasPrefix(name, "ah_") || strings.HasSuffix(name, "_t") {
		return "my_" + name + "_"
	}
	return name
}

func cIsStructure(expr string) bool {
	switch strings.TrimSuffix(expr, markList) {
	case "ah_json", "ah_text", "bool", "int64_t", "double":
		return false
	}
	return true
}
