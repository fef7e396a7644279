package plugintest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin"
)

// Integers in other spellings. In pdk/ABI.md 2, 2.0 and 2e0 are the same in integer
// fields and where a schema has the type integer; a host writes the arguments of a run as
// digits, but need not.

// integerSpellings are the suffixes that may follow the digits of an integer.
var integerSpellings = []string{".0", "e0"}

// maxAddedIntegers bounds the optional integers that are added to one call.
const maxAddedIntegers = 20

// integersOtherwise returns how the answer differs if the call's integers are written with
// a fraction of zero or an exponent. A call without integers has no fault.
func (g *guest) integersOtherwise(c Call) error {
	member, schema := g.schemaOf(c)
	c = withIntegers(c, member, schema)
	tree, err := parseJSON(c.Input)
	if err != nil {
		return err
	}
	if !markEnvelope(&tree, member, schema) {
		return nil
	}
	want, err := g.sandbox.callFresh(c)
	if err != nil {
		return err
	}
	for _, spelling := range integerSpellings {
		got, err := g.sandbox.callFresh(Call{c.Export, writing{integers: spelling}.write(tree)})
		if err != nil || !g.sameValue(c, plainIntegers(got), plainIntegers(want)) {
			return fmt.Errorf("with integers written as 2%s, it answers %s, and otherwise %s", spelling, shown(got, err), shown(want, nil))
		}
	}
	return nil
}

// schemaOf returns the member of a call's input that has a schema in the manifest,
// and that schema.
func (g *guest) schemaOf(c Call) (member string, schema json.RawMessage) {
	var in struct{ Tool, Processor, Router, Provider string }
	_ = json.Unmarshal([]byte(c.Input), &in) // an unreadable input names no part
	m := g.sandbox.plugin.Manifest()
	switch c.Export {
	case "tool":
		for _, t := range m.Tools {
			if t.Name == in.Tool {
				return "arguments", t.Parameters
			}
		}
	case "process":
		for _, p := range m.Processors {
			if p.Name == in.Processor {
				return "config", p.Config
			}
		}
	case "route":
		for _, r := range m.Routers {
			if r.Name == in.Router {
				return "config", r.Config
			}
		}
	case "provide", "observe":
		for _, p := range m.Providers {
			if p.Name == in.Provider {
				return "config", p.Config
			}
		}
	}
	return "", nil
}

// withIntegers returns the call with the optional integers of its schema added, if the
// result fits the schema.
func withIntegers(c Call, member string, schema json.RawMessage) Call {
	var in sampledSchema
	own, err := members(c.Input)
	if err != nil || len(schema) == 0 || json.Unmarshal(schema, &in) != nil {
		return c
	}
	value := map[string]json.RawMessage{}
	if own[member] != nil && (json.Unmarshal(own[member], &value) != nil || value == nil) {
		return c
	}
	s, added := sampler{root: schema}, 0
	for _, name := range sortedNames(in.Properties) {
		if value[name] == nil && added < maxAddedIntegers && s.isInteger(in.Properties[name], 0) {
			value[name] = s.of(in.Properties[name], 0)
			added++
		}
	}
	compiled, err := host.CompileSchema(schema)
	if added == 0 || err != nil || compiled.Validate(mustJSON(value)) != nil {
		return c
	}
	return c.with(member, mustJSON(value))
}

func sortedNames(m map[string]json.RawMessage) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// resolve returns a schema, or the schema that it refers to; nil if it is not an object.
func (s sampler) resolve(schema json.RawMessage, depth int) *sampledSchema {
	var in sampledSchema
	switch {
	case depth > maxSampleDepth || len(schema) == 0 || json.Unmarshal(schema, &in) != nil:
		return nil
	case in.Ref != "":
		return s.resolve(s.at(in.Ref), depth+1)
	}
	return &in
}

// isInteger reports whether a schema takes integers and no other numbers.
func (s sampler) isInteger(schema json.RawMessage, depth int) bool {
	in := s.resolve(schema, depth)
	if in == nil {
		return false
	}
	var one string
	var several []string
	if json.Unmarshal(in.Type, &one) == nil {
		return one == "integer"
	}
	return json.Unmarshal(in.Type, &several) == nil && slices.Contains(several, "integer") && !slices.Contains(several, "number")
}

// envelopeIntegers are the integers of requests by pdk/ABI.md, and those of an
// outline; each is a number, or all numbers of an array.
var (
	envelopeIntegers = []string{"attempt", "state_revision", "call_count", "own_from"}
	outlineIntegers  = []string{"count", "bytes", "chars", "tokens", "parts", "keep", "own_from", "tools"}
)

// markEnvelope marks the integers of a request, and reports whether it has any.
func markEnvelope(n *jsonNode, member string, schema json.RawMessage) (found bool) {
	for i := range n.members {
		m := &n.members[i]
		switch name := m.plainName(); {
		case slices.Contains(envelopeIntegers, name):
			found = m.value.markAll() || found
		case name == "outline":
			for j := range m.value.members {
				if o := &m.value.members[j]; slices.Contains(outlineIntegers, o.plainName()) {
					found = o.value.markAll() || found
				}
			}
		case name == member:
			found = sampler{root: schema}.mark(&m.value, schema, 0) || found
		}
	}
	return found
}

// plainName returns a member's name without its quotes.
func (m *jsonMember) plainName() (name string) {
	_ = json.Unmarshal([]byte(m.name), &name) // it is a JSON string
	return name
}

// markAll marks a number, or those of an array.
func (n *jsonNode) markAll() (found bool) {
	for i := range n.items {
		found = n.items[i].markAll() || found
	}
	if n.kind == 0 && n.raw != "" && strings.Trim(n.raw, "-0123456789") == "" {
		n.integer, found = true, true
	}
	return found
}

// mark marks the numbers that a schema takes as integers alone.
func (s sampler) mark(n *jsonNode, schema json.RawMessage, depth int) (found bool) {
	in := s.resolve(schema, depth)
	if in == nil {
		return false
	}
	if n.kind == 0 && s.isInteger(schema, depth) {
		return n.markAll()
	}
	for i := range n.items {
		found = s.mark(&n.items[i], in.Items, depth+1) || found
	}
	for i := range n.members {
		m := &n.members[i]
		found = s.mark(&m.value, in.Properties[m.plainName()], depth+1) || found
	}
	return found
}

// plainIntegers returns an answer with the integers spelled as digits: a guest may copy
// the spelling of its input.
func plainIntegers(r *plugin.CallResult) *plugin.CallResult {
	v, err := decodeJSON(r.Output)
	if err != nil {
		return r
	}
	out := *r
	out.Output = mustJSON(plainNumbers(v))
	return &out
}

func plainNumbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			v[name] = plainNumbers(value)
		}
	case []any:
		for i, value := range v {
			v[i] = plainNumbers(value)
		}
	case json.Number:
		text := string(v)
		for _, spelling := range integerSpellings {
			text = strings.TrimSuffix(text, spelling)
		}
		return json.Number(text)
	}
	return v
}
