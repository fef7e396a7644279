package pdktest

import (
	"maps"
	"slices"
	"strings"

	"github.com/agenthost/agenthost/pdk/go/pdk"
)

// An argumentRead is an argument that a tool has asked for.
type argumentRead struct{ tool, name string }

// ReadArgument notes that a tool reads an argument. A call whose tool reads one that
// its parameters do not name fails the test: it is a typo, and would read nothing.
func (h *Host) ReadArgument(tool, name string) {
	h.reads = append(h.reads, argumentRead{strings.Clone(tool), strings.Clone(name)})
}

// misnamed returns the error for the first argument that the last call has read and
// that the tool's parameters do not name.
func (h *Host) misnamed(p *pdk.Plugin) *pdk.Error {
	if len(h.reads) == 0 {
		return nil
	}
	described, _ := p.Call("describe", nil)
	for tool := range pdk.Raw(described).Get("tools").Elements() {
		name, _ := tool.Get("name").Str()
		known := argumentNames{names: map[string]bool{}}
		known.add(tool.Get("parameters"), maxSchemaDepth)
		for _, read := range h.reads {
			if read.tool == name && !known.has(read.name) {
				return pdk.Errorf(pdk.Internal, "tool %q reads the argument %q, which its parameters do not have; they have: %s",
					name, read.name, known.list())
			}
		}
	}
	return nil
}

// maxSchemaDepth is how many schemas are followed from one to the next.
const maxSchemaDepth = 32

// argumentNames are the names that a schema has for the members of an object.
type argumentNames struct {
	names map[string]bool
	root  pdk.Raw
	open  bool // it allows for others, and says how
	shut  bool // it allows for none
}

func (a *argumentNames) has(name string) bool {
	return a.open || a.names[name] || len(a.names) == 0 && !a.shut
}

func (a *argumentNames) list() string {
	if len(a.names) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(maps.Keys(a.names)), ", ")
}

// add adds what a schema says, and the schemas that it applies to the same object.
func (a *argumentNames) add(schema pdk.Raw, depth int) {
	if schema == "" { // a tool that takes no arguments
		a.shut = true
		return
	}
	if a.root == "" {
		a.root = schema
	}
	if depth == 0 {
		a.open = true
		return
	}
	for keyword, value := range schema.Members() {
		switch keyword {
		case "properties":
			for name := range value.Members() {
				a.names[strings.Clone(name)] = true
			}
		case "patternProperties":
			a.open = true
		case "additionalProperties", "unevaluatedProperties":
			allowed, isBool := value.Bool()
			a.open = a.open || allowed || !isBool
			a.shut = a.shut || isBool && !allowed
		case "allOf", "anyOf", "oneOf":
			for one := range value.Elements() {
				a.add(one, depth-1)
			}
		case "if", "then", "else":
			a.add(value, depth-1)
		case "dependentSchemas":
			for _, one := range value.Members() {
				a.add(one, depth-1)
			}
		case "$ref":
			a.follow(value, depth-1)
		}
	}
}

// follow adds the schema that a reference within the document leads to.
func (a *argumentNames) follow(ref pdk.Raw, depth int) {
	pointer, _ := ref.Str()
	path, inside := strings.CutPrefix(pointer, "#")
	if !inside {
		a.open = true
		return
	}
	at := a.root
	for _, token := range tokens(path) {
		at = at.Get(token)
	}
	if at == "" {
		a.open = true // a named anchor
		return
	}
	a.add(at, depth)
}
