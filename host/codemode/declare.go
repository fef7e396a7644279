package codemode

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/internal/schematypes"
)

// declaration is a tool as code sees it.
type declaration struct {
	Key  string `json:"name"`        // of the function among tools
	Text string `json:"declaration"` // in TypeScript
	tool string
}

// declared are the tools of a description.
type declared struct {
	list    []declaration
	byTool  map[string]string // keys by names of tools
	catalog string            // JSON for search_tools; empty: the description has them all

	last atomic.Pointer[functionSet] // of the last call: most have the same tools
}

// functionSet is the functions that code has for tools of some names.
type functionSet struct {
	names []string
	named string      // the tools whose functions have their names, a line each
	keys  [][2]string // the keys of the others, and their names
}

func (f *functionSet) fits(specs []llm.ToolSpec) bool {
	return f != nil && slices.EqualFunc(f.names, specs, func(name string, spec llm.ToolSpec) bool { return name == spec.Name })
}

// declare writes the tools as functions, and decides whether the description holds them.
func (m *Mode) declare(specs []llm.ToolSpec) (*declared, error) {
	d := &declared{byTool: map[string]string{}}
	used := identifiers(specs)
	size := 0
	for _, spec := range specs {
		if spec.Name == m.opts.Name {
			continue
		}
		one := declaration{Key: keyOf(used, spec.Name), tool: spec.Name}
		one.Text = functionOf(one.Key, spec)
		size += len(one.Text)
		d.list, d.byTool[spec.Name] = append(d.list, one), one.Key
	}
	if size <= m.opts.DeclarationBytes {
		return d, nil
	}
	raw, err := json.Marshal(d.list)
	if err != nil {
		return nil, err
	}
	if len(raw) > MaxCatalogBytes {
		return nil, host.Errorf(host.InvalidArgument, "the declarations of %d tools have %d bytes, more than the %d that %s can search", len(d.list), len(raw), MaxCatalogBytes, m.opts.Name).
			WithHint("give the agent fewer tools, or shorter descriptions")
	}
	d.catalog = string(raw)
	return d, nil
}

// identifiers are the names of tools that are identifiers: no other tool has them as its key.
func identifiers(specs []llm.ToolSpec) map[string]bool {
	names := make(map[string]bool, len(specs))
	for _, spec := range specs {
		if schematypes.Identifier(spec.Name) == spec.Name {
			names[spec.Name] = true
		}
	}
	return names
}

// keyOf returns the key of a tool, its name if that is an identifier.
func keyOf(used map[string]bool, name string) string {
	key := schematypes.Identifier(name)
	if key == name {
		return key
	}
	return unused(used, key)
}

// unused returns a name that no other tool has, and takes it.
func unused(used map[string]bool, name string) string {
	free := name
	for n := 2; used[free]; n++ {
		free = name + "_" + strconv.Itoa(n)
	}
	used[free] = true
	return free
}

// functionOf returns the declaration of one tool. A schema that cannot be written as types
// takes any arguments: the tool checks them.
func functionOf(key string, spec llm.ToolSpec) string {
	text, err := schematypes.TypeScriptFunction(schematypes.Function{Name: key, Description: spec.Description, Parameters: spec.Parameters})
	if err != nil {
		text = "declare function " + key + "(args: any): Promise<any>;\n"
	}
	return strings.Replace(text, "declare function ", "function ", 1)
}

// describe returns the description of the tool for a model.
func (m *Mode) describe(d *declared) string {
	var b strings.Builder
	b.WriteString("Runs JavaScript that calls tools, and answers with what it returns and what it writes to console. " +
		"The code is the body of an async function: await tools, compute with what they answer, and return only what you need to see. " +
		"Calls that are awaited together, with Promise.all, run at the same time. A tool that fails throws a ToolError with message and code. " +
		"Whole numbers beyond 2**53 that a tool answers are BigInts. " +
		"tools.NAME.whole(args) answers {content, media} where a tool has images or files beside its content. " +
		"There are no files, no network, no modules and no timers. The clock shows when this call began, in UTC, and waits for nothing: " +
		"each reading is a millisecond after the last one.")
	if m.opts.Keep {
		b.WriteString(" The members of the object keep last until the next call.")
	}
	if d.catalog != "" {
		fmt.Fprintf(&b, "\n\nThere are %d tools. search_tools(query) returns the 20 that fit best, as [{name, declaration}]; "+
			"return them first, and then call what you need as await tools.NAME(args).", len(d.list))
		return b.String()
	}
	if len(d.list) == 0 {
		return b.String()
	}
	b.WriteString("\n\ndeclare namespace tools {\n")
	for _, one := range d.list {
		for line := range strings.Lines(one.Text) {
			b.WriteString("  " + line)
		}
	}
	b.WriteString("}")
	return b.String()
}

// functions returns the functions that code has for tools, which the caller does not change.
func (d *declared) functions(specs []llm.ToolSpec) *functionSet {
	if f := d.last.Load(); f.fits(specs) {
		return f
	}
	f := &functionSet{}
	for _, spec := range specs {
		f.names = append(f.names, spec.Name)
	}
	var same []string
	for _, pair := range d.keys(specs) {
		if pair[0] == pair[1] {
			same = append(same, pair[0])
		} else {
			f.keys = append(f.keys, pair)
		}
	}
	f.named = strings.Join(same, "\n")
	d.last.Store(f)
	return f
}

// keys returns the pairs of a key and the name of its tool. Tools that the description does not
// declare get keys that no declared tool has.
func (d *declared) keys(specs []llm.ToolSpec) [][2]string {
	list := make([][2]string, 0, len(specs))
	used, taken := identifiers(specs), make(map[string]bool, len(d.list))
	for _, one := range d.list {
		used[one.Key], taken[one.Key] = true, true
	}
	for _, spec := range specs {
		key := d.byTool[spec.Name]
		if key == "" {
			if key = keyOf(used, spec.Name); taken[key] {
				key = unused(used, key)
			}
		}
		list = append(list, [2]string{key, spec.Name})
	}
	for _, spec := range specs { // tools["a name"] works too
		if !slices.ContainsFunc(list, func(b [2]string) bool { return b[0] == spec.Name }) {
			list = append(list, [2]string{spec.Name, spec.Name})
		}
	}
	return list
}
