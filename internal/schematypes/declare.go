package schematypes

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/agenthost/agenthost/host/fault"
)

// Language is a programming language.
type Language string

// The languages of Declare.
const (
	TypeScript     Language = "typescript"
	Go             Language = "go"
	Rust           Language = "rust" // for serde
	C              Language = "c"
	AssemblyScript Language = "assemblyscript"
	Zig            Language = "zig"
)

// Languages returns the languages of Declare.
func Languages() []Language { return []Language{TypeScript, Go, Rust, C, AssemblyScript, Zig} }

// dialectOf returns how a language without alternatives writes types, nil for TypeScript and
// for an unknown language.
func dialectOf(lang Language) *dialect {
	switch lang {
	case Go:
		return goDialect()
	case Rust:
		return rustDialect()
	case C:
		return cDialect()
	case AssemblyScript:
		return assemblyScriptDialect()
	case Zig:
		return zigDialect()
	default:
		return nil
	}
}

// maxWritten bounds the types in one output, since a type that is written where it is used
// is written as often as that.
const maxWritten = 4 * maxNodes

// Type is a schema with the name that its type gets.
type Type struct {
	Name        string
	Description string // of the type, if the schema has none
	Schema      json.RawMessage
}

// Declare returns the declarations of types, and of the objects and definitions in them, in
// a language. Errors have code invalid_argument: a language that is unknown, or a schema
// that is no JSON or larger than MaxSchemaBytes.
func Declare(lang Language, types []Type) (string, error) {
	if !slices.Contains(Languages(), lang) {
		return "", fault.Errorf(fault.InvalidArgument, "write types: unknown language %q", lang).
			WithHint("one of: %s", strings.Trim(fmt.Sprint(Languages()), "[]"))
	}
	var w writer = newTypeScript(false)
	if d := dialectOf(lang); d != nil {
		w = newPlain(d)
	}
	for _, t := range types {
		n, err := read(t.Schema, t.Name)
		if err != nil {
			return "", fmt.Errorf("%s: %w", t.Name, err)
		}
		n.description = cmp.Or(n.description, t.Description)
		w.nameOf(n, pascal(t.Name))
	}
	return strings.TrimRight(w.text(), "\n") + "\n", nil
}

// writer writes the declarations of the types that it has named.
type writer interface {
	nameOf(n *node, wanted string) string
	text() string
}

// declared is a type with a name.
type declared struct {
	name string
	node *node
}

// declarations gives types names, and keeps those that are not written yet.
type declarations struct {
	names *names
	named map[*node]string
	queue []declared
	left  int // types that may still be written
}

func newDeclarations(reserved string) *declarations {
	return &declarations{names: newNames(reserved), named: map[*node]string{}, left: maxWritten}
}

// nameOf returns the name of a type, and queues its declaration when it has none yet.
func (d *declarations) nameOf(n *node, wanted string) string {
	if name, ok := d.named[n]; ok {
		return name
	}
	name := d.names.unique(wanted[:min(len(wanted), maxName)])
	d.named[n] = name
	d.queue = append(d.queue, declared{name: name, node: n})
	return name
}

// next returns a declaration that was not written yet.
func (d *declarations) next() (declared, bool) {
	if len(d.queue) == 0 {
		return declared{}, false
	}
	first := d.queue[0]
	d.queue = d.queue[1:]
	return first, true
}

// spend counts a type that is written.
func (d *declarations) spend() bool {
	d.left--
	return d.left >= 0
}

// alternativeName returns the name of an object among alternatives: that of all of them, if
// it is the only one that can have a name.
func alternativeName(n *node, name string, i int) string {
	objects := 0
	for _, a := range n.list {
		if a.kind == object || a.kind == array || a.kind == tuple {
			objects++
		}
	}
	if objects <= 1 {
		return name
	}
	return name + strconv.Itoa(i+1)
}
