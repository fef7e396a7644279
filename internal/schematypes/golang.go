package schematypes

import (
	"fmt"
	"go/format"
	"strconv"
	"strings"
	"unicode"
)

// goDialect writes the types that encoding/json reads. A member whose name no tag can have
// is a comment.
func goDialect() *dialect {
	return &dialect{
		reserved: "Main",
		header:   "package main\n\n",
		format: func(out string) string {
			if formatted, err := format.Source([]byte(out)); err == nil {
				return string(formatted)
			}
			return out // a test compiles them
		},
		comment: [2]string{"// ", ""},
		scalars: map[kind]string{anyValue: "any", boolean: "bool", integer: "int64", number: "float64", text: "string"},
		list:    func(elem string) string { return "[]" + elem },
		dict:    func(elem string) string { return "map[string]" + elem },
		option: func(expr string) string {
			if expr == "any" || strings.HasPrefix(expr, "[]") || strings.HasPrefix(expr, "map[") || strings.HasPrefix(expr, "*") {
				return expr
			}
			return "*" + expr
		},
		pointer:   func(name string) string { return "*" + name },
		structure: goStruct,
		enum:      goEnum,
		alias:     func(name, expr string) string { return fmt.Sprintf("type %s = %s\n", name, expr) },
		fieldName: goName,
	}
}

// goInitialisms are words that are written in capitals.
var goInitialisms = map[string]bool{"Id": true, "Url": true, "Uri": true, "Http": true, "Json": true, "Api": true, "Ip": true, "Sku": true, "Uuid": true, "Html": true}

func goName(name string) string {
	out := strings.Builder{}
	for _, word := range words(name) {
		word = strings.ToUpper(word[:1]) + word[1:]
		if goInitialisms[word] {
			word = strings.ToUpper(word)
		}
		out.WriteString(word)
	}
	return beginsWithLetter(out.String(), "F")
}

func goStruct(out *strings.Builder, name string, fields []memberType) {
	fmt.Fprintf(out, "type %s struct {\n", name)
	for _, f := range fields {
		for _, line := range f.description {
			fmt.Fprintf(out, "\t// %s\n", line)
		}
		if !goTag(f.json) {
			fmt.Fprintf(out, "\t// The member %s has a name that no tag can have.\n", strconv.QuoteToASCII(f.json))
			continue
		}
		options := ""
		if f.may {
			options = ",omitempty"
		} else if f.json == "-" {
			options = ","
		}
		fmt.Fprintf(out, "\t%s %s `json:%s`\n", f.name, f.expr, strconv.Quote(f.json+options))
	}
	out.WriteString("}\n")
}

// goTag reports whether encoding/json takes a name from a tag.
func goTag(name string) bool {
	for _, r := range name {
		if !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r) || r == unicode.ReplacementChar {
			return false
		}
	}
	return name != ""
}

func goEnum(out *strings.Builder, name string, values []string, types *names) {
	fmt.Fprintf(out, "type %s string\n\nconst (\n", name)
	for _, value := range values { // constants and types are names of one scope
		constant := types.unique(name + goName(value))
		fmt.Fprintf(out, "\t%s %s = %s\n", constant, name, strconv.QuoteToASCII(value))
	}
	out.WriteString(")\n")
}
