package schematypes

import (
	"fmt"
	"regexp"
	"strings"
)

// dialect is how a language without alternatives writes types.
type dialect struct {
	reserved   string                  // words that are no names of types
	header     string                  // of each output
	format     func(out string) string // nil: it has its form
	comment    [2]string
	scalars    map[kind]string
	list       func(elem string) string
	dict       func(elem string) string
	option     func(expr string) string // of a value that may be absent or null
	pointer    func(name string) string // to a structure that holds itself; nil: names are pointers
	structure  func(out *strings.Builder, name string, fields []memberType)
	enum       func(out *strings.Builder, name string, values []string, types *names) // nil: a text
	alias      func(name, expr string) string
	typeName   func(name string) string // nil: no change
	fieldName  func(name string) string
	beside     func(name string) (flag, count string) // nil: no field has others beside it
	fieldWords string                                 // words that are no names of fields
}

// memberType is a member of an object as a language has it.
type memberType struct {
	json        string // its name
	name        string // its identifier
	expr        string
	may         bool // be absent or null
	is          lowered
	flag, count string // identifiers of fields beside it
	description []string
}

// plainWriter writes the declarations of a dialect.
type plainWriter struct {
	*declarations
	lowering
	lang     *dialect
	pointers map[*node]bool // whether an object holds itself
	within   map[*node]bool // arrays and maps that are being written
	out      strings.Builder
}

func newPlain(d *dialect) *plainWriter {
	return &plainWriter{declarations: newDeclarations(d.reserved), lang: d, lowering: lowering{}, pointers: map[*node]bool{}, within: map[*node]bool{}}
}

// text returns the declarations.
func (w *plainWriter) text() string {
	for d, ok := w.next(); ok; d, ok = w.next() {
		w.declare(d)
	}
	out := w.lang.header + w.out.String()
	if w.lang.format != nil {
		out = w.lang.format(out)
	}
	return out
}

func (w *plainWriter) declare(d declared) {
	w.doc(&w.out, "", lines(d.node.description))
	switch l := w.lower(d.node); {
	case l.kind == object && !l.node.isMap() && l.node == d.node:
		w.lang.structure(&w.out, d.name, w.members(l.node, d.name))
	case l.values != nil && l.node == d.node && w.lang.enum != nil:
		w.lang.enum(&w.out, d.name, l.values, w.names)
	default:
		w.out.WriteString(w.lang.alias(d.name, w.standalone(d.node, d.name+"Value")))
	}
	w.out.WriteString("\n")
}

// doc writes lines of a comment.
func (w *plainWriter) doc(out *strings.Builder, indent string, list []string) {
	for _, line := range list {
		out.WriteString(indent + w.lang.comment[0] + line + w.lang.comment[1] + "\n")
	}
}

func (w *plainWriter) members(n *node, name string) (list []memberType) {
	used := newNames(w.lang.fieldWords)
	for _, f := range n.members() {
		l := w.lower(f.node)
		m := memberType{json: f.name, may: n.optional(f.name) || l.nullable, is: l, description: lines(f.node.description)}
		m.name = used.unique(w.lang.fieldName(f.name))
		m.expr = w.expr(l, name+pascal(f.name))
		if l.kind == object && !l.node.isMap() && w.lang.pointer != nil && w.isPointer(l.node) {
			m.expr = w.lang.pointer(m.expr)
		}
		if w.lang.beside != nil {
			flag, count := w.lang.beside(m.name)
			m.flag, m.count = used.unique(flag), used.unique(count)
		}
		if m.may {
			m.expr = w.lang.option(m.expr)
		}
		list = append(list, m)
	}
	return list
}

func (w *plainWriter) isPointer(n *node) bool {
	is, known := w.pointers[n]
	if !known {
		is = w.holdsItself(n)
		w.pointers[n] = is
	}
	return is
}

// standalone returns the type of a value that stands alone or in a list.
func (w *plainWriter) standalone(n *node, name string) string {
	l := w.lower(n)
	if expr := w.expr(l, name); !l.nullable || l.kind == anyValue {
		return expr
	} else {
		return w.lang.option(expr)
	}
}

// nameOf returns the name of a type in the form that the language has.
func (w *plainWriter) nameOf(n *node, wanted string) string {
	if w.lang.typeName != nil {
		wanted = w.lang.typeName(wanted)
	}
	return w.declarations.nameOf(n, wanted)
}

// named returns the name of a structure or an enumeration.
func (w *plainWriter) named(l lowered, wanted string) string {
	if l.name != "" {
		wanted = pascal(l.name)
	}
	return w.nameOf(l.node, wanted)
}

// expr returns a type without null.
func (w *plainWriter) expr(l lowered, name string) string {
	switch {
	case !w.spend():
		return w.lang.scalars[anyValue]
	case l.values != nil && w.lang.enum != nil, l.kind == object && !l.node.isMap():
		return w.named(l, name)
	case l.kind != array && l.kind != object:
		return w.lang.scalars[l.kind]
	case w.within[l.node]: // an array or map of itself
		return w.lang.scalars[anyValue]
	}
	w.within[l.node] = true
	defer delete(w.within, l.node)
	if l.kind == array {
		return w.lang.list(w.standalone(l.node.elem, name+"Item"))
	}
	if l.node.rest == nil {
		return w.lang.dict(w.lang.scalars[anyValue])
	}
	return w.lang.dict(w.standalone(l.node.rest, name+"Value"))
}

// plainIdentifier matches identifiers of every language.
var plainIdentifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// quotedWith returns a text as a literal in double quotes, in printable ASCII, with escape
// for every other character.
func quotedWith(s, escape string) string {
	out := strings.Builder{}
	out.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			out.WriteString(`\` + string(r))
		case r >= ' ' && r <= '~':
			out.WriteRune(r)
		default:
			fmt.Fprintf(&out, escape, r)
		}
	}
	return out.String() + `"`
}
