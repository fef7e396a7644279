package schematypes

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
)

// typeScriptReserved are words that are no names of types, and types that every program
// has, so that a declaration neither fails nor is joined with one of them.
const typeScriptReserved = `any as async await bigint boolean break case catch class const constructor continue
	debugger declare default delete do else enum export extends false finally for from function get if implements
	import in infer instanceof interface is keyof let module namespace never new null number object of package private
	protected public readonly require return set static string super switch symbol this throw true try type typeof
	undefined unique unknown using var void while with yield eval arguments abstract accessor asserts assert global
	Array ArrayBuffer BigInt Boolean Date Error Function Infinity JSON Map Math NaN Number Object Promise Proxy Record
	Reflect RegExp Set String Symbol Partial Required Readonly Pick Omit Exclude Extract Awaited Iterator`

// typeScriptIdentifier matches the names that need no quotes.
var typeScriptIdentifier = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_$]*$`)

// Function is a tool as a function of a program.
type Function struct {
	Name        string // see Identifier
	Description string
	Parameters  json.RawMessage // the schema of its one argument; nil for a function without
	Result      json.RawMessage // the schema of the value that it resolves to; nil for any value
}

// Identifier returns a name as an identifier of TypeScript and JavaScript. Different names
// may have the same.
func Identifier(name string) string {
	if typeScriptIdentifier.MatchString(name) && len(name) <= maxName {
		return newNames(typeScriptReserved).unique(name)
	}
	return newNames(typeScriptReserved).unique(strings.Trim(snake(name), "_"))
}

// TypeScriptFunction returns the declaration of a function that takes one object and
// returns a promise:
//
//	declare function greet(args: { name: string; times?: number }): Promise<string>;
//
// Schemas that refer to definitions have these as interfaces before the function, whose
// names begin with that of the function. Its name is made an Identifier.
func TypeScriptFunction(f Function) (string, error) {
	name := Identifier(f.Name)
	w := newTypeScript(true)
	w.prefix = name + "_" // which no name of a definition has, so that those of two functions differ
	args := ""
	if f.Parameters != nil {
		n, err := read(f.Parameters, "args")
		if err != nil {
			return "", fmt.Errorf("parameters of %s: %w", f.Name, err)
		}
		optional := ""
		if n.kind == object && len(n.required) == 0 {
			optional = "?"
		}
		args = "args" + optional + ": " + w.expr(n, "Args", 0)
	}
	result := "any"
	if f.Result != nil {
		n, err := read(f.Result, "result")
		if err != nil {
			return "", fmt.Errorf("result of %s: %w", f.Name, err)
		}
		result = w.expr(n, "Result", 0)
	}
	w.text()
	writeDoc(&w.out, "", f.Description)
	fmt.Fprintf(&w.out, "declare function %s(%s): Promise<%s>;\n", name, args, result)
	return w.out.String(), nil
}

// typeScript writes types. Expressions come first; the objects in them that have names
// wait in the queue of declarations.
type typeScript struct {
	*declarations
	inline bool   // objects are written where they are used, and only definitions have names
	prefix string // of the names of definitions
	out    strings.Builder
}

func newTypeScript(inline bool) *typeScript {
	return &typeScript{declarations: newDeclarations(typeScriptReserved), inline: inline}
}

// declare writes the declaration of a named type.
func (w *typeScript) declare(d declared) {
	writeDoc(&w.out, "", d.node.description)
	export := "export "
	if w.inline {
		export = ""
	}
	if d.node.kind == object && !d.node.isMap() {
		fmt.Fprintf(&w.out, "%sinterface %s %s\n\n", export, d.name, w.body(d.node, d.name, 0))
		return
	}
	fmt.Fprintf(&w.out, "%stype %s = %s;\n\n", export, d.name, w.typeOf(d.node, d.name, 0))
}

// text returns the declarations that expressions have asked for, and those that these ask
// for.
func (w *typeScript) text() string {
	for d, ok := w.next(); ok; d, ok = w.next() {
		w.declare(d)
	}
	return w.out.String()
}

// expr returns the text of a type at the place that uses it. An object that is declared
// gets the name.
func (w *typeScript) expr(n *node, name string, indent int) string {
	switch {
	case !w.spend() || indent > maxDepth:
		return "unknown"
	case n.kind == reference && n.target.node.kind == anyValue:
		return "unknown"
	case n.kind == reference:
		return w.nameOf(n.target.node, w.prefix+pascal(n.target.name))
	case n.kind == object && !n.isMap() && !w.inline:
		return w.nameOf(n, name)
	default:
		return w.typeOf(n, name, indent)
	}
}

func (w *typeScript) typeOf(n *node, name string, indent int) string {
	switch n.kind {
	case nullValue:
		return "null"
	case boolean:
		return "boolean"
	case integer, number:
		return "number"
	case text:
		return "string"
	case literal:
		return literalTypeScript(n.value)
	case array:
		return inParentheses(w.expr(n.elem, name+"Item", indent)) + "[]"
	case tuple:
		return w.tuple(n, name, indent)
	case object:
		if n.isMap() {
			return "{ [key: string]: " + w.restOf(n, name, indent) + " }"
		}
		return w.body(n, name, indent)
	case union:
		return w.union(n, name, indent)
	case reference:
		return w.expr(n, name, indent)
	default:
		return "unknown"
	}
}

func (w *typeScript) restOf(n *node, name string, indent int) string {
	if n.rest == nil {
		return "unknown"
	}
	return w.expr(n.rest, name+"Value", indent)
}

func (w *typeScript) tuple(n *node, name string, indent int) string {
	var parts []string
	for i, elem := range n.list {
		parts = append(parts, inParentheses(w.expr(elem, name+"Item"+strconv.Itoa(i+1), indent))+"?")
	}
	if n.elem != nil {
		parts = append(parts, "..."+inParentheses(w.expr(n.elem, name+"Item", indent))+"[]")
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

func (w *typeScript) union(n *node, name string, indent int) string {
	var parts []string
	seen := map[string]bool{}
	for i, alternative := range n.list {
		expr := w.expr(alternative, alternativeName(n, name, i), indent)
		if expr == "unknown" {
			return expr
		}
		if !seen[expr] {
			parts = append(parts, expr)
		}
		seen[expr] = true
	}
	return strings.Join(parts, " | ")
}

// body returns the members of an object in braces.
func (w *typeScript) body(n *node, name string, indent int) string {
	out := &strings.Builder{}
	out.WriteString("{\n")
	inner := strings.Repeat("  ", indent+1)
	for _, f := range n.members() {
		writeDoc(out, inner, f.node.description)
		optional := ""
		if n.optional(f.name) {
			optional = "?"
		}
		fmt.Fprintf(out, "%s%s%s: %s;\n", inner, propertyTypeScript(f.name), optional, w.expr(f.node, name+pascal(f.name), indent+1))
	}
	if n.rest != nil { // whose type would have to be that of the members as well
		fmt.Fprintf(out, "%s[key: string]: unknown;\n", inner)
	}
	out.WriteString(strings.Repeat("  ", indent) + "}")
	return out.String()
}

// inParentheses puts parentheses around alternatives.
func inParentheses(expr string) string {
	if strings.Contains(expr, " | ") {
		return "(" + expr + ")"
	}
	return expr
}

func literalTypeScript(value string) string {
	if value[0] == '"' {
		return quoted(stringOf(json.RawMessage(value)))
	}
	return value
}

func propertyTypeScript(name string) string {
	if typeScriptIdentifier.MatchString(name) {
		return name
	}
	return quoted(name)
}

// quoted returns a text as a string literal of TypeScript, in printable ASCII.
func quoted(s string) string {
	out := strings.Builder{}
	out.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			out.WriteString(`\` + string(r))
		case r <= unicode.MaxASCII && unicode.IsPrint(r):
			out.WriteRune(r)
		case r > 0xffff:
			r1, r2 := utf16.EncodeRune(r)
			fmt.Fprintf(&out, `\u%04x\u%04x`, r1, r2)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.String() + `"`
}

// writeDoc writes a comment of a description, none for no description.
func writeDoc(out *strings.Builder, indent, description string) {
	list := lines(description)
	switch len(list) {
	case 0:
	case 1:
		fmt.Fprintf(out, "%s/** %s */\n", indent, strings.TrimSpace(list[0]))
	default:
		fmt.Fprintf(out, "%s/**\n", indent)
		for _, line := range list {
			fmt.Fprintf(out, "%s * %s\n", indent, line)
		}
		fmt.Fprintf(out, "%s */\n", indent)
	}
}
