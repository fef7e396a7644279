package schematypes

import (
	"bytes"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/agenthost/agenthost/host/fault"
)

// The bounds of a schema that is read. Schemas that are deeper, or come after the nodes, are
// any value.
const (
	MaxSchemaBytes = 1 << 20
	maxDepth       = 40
	maxNodes       = 5_000
	maxReadBytes   = 32 << 20 // of all schemas in a document, each time one is read
	maxLiteral     = 200      // bytes of a literal that is a type of its own
	maxJoined      = 20_000   // members and alternatives that are taken over from other schemas
)

// reader makes nodes of one document.
type reader struct {
	document    json.RawMessage
	nodesLeft   int
	bytesLeft   int
	joinedLeft  int
	definitions map[string]*definition // by reference
	order       []*definition
	opened      map[string]keywords // members of objects that references lead through, by pointer
}

// read returns the type of a schema. name is that of the schema for its references to
// itself.
func read(raw json.RawMessage, name string) (*node, error) {
	if len(raw) > MaxSchemaBytes {
		return nil, fault.Errorf(fault.InvalidArgument, "read a schema of %d bytes: at most %d are read", len(raw), MaxSchemaBytes)
	}
	if !json.Valid(raw) {
		return nil, fault.Errorf(fault.InvalidArgument, "read a schema: it is not JSON").WithHint("give a JSON Schema, which is an object")
	}
	if c := bytes.TrimSpace(raw)[0]; c != '{' && c != 't' && c != 'f' {
		return nil, fault.Errorf(fault.InvalidArgument, "read a schema: it is neither an object nor true or false").WithHint("give a JSON Schema, which is an object")
	}
	r := &reader{document: raw, nodesLeft: maxNodes, bytesLeft: maxReadBytes, joinedLeft: maxJoined, definitions: map[string]*definition{}, opened: map[string]keywords{}}
	root := &definition{name: name}
	r.definitions["#"] = root
	root.node = r.node(raw, 0)
	var empty []*definition
	for _, d := range append(r.order, root) {
		if d.leadsToItself() {
			empty = append(empty, d)
		}
	}
	for _, d := range empty {
		d.node = &node{description: d.node.description}
	}
	return root.node, nil
}

// keywords are the members of a schema.
type keywords map[string]json.RawMessage

// node reads a schema.
func (r *reader) node(raw json.RawMessage, depth int) *node {
	if !r.admit(len(raw)) || depth > maxDepth {
		return &node{}
	}
	var k keywords
	if json.Unmarshal(raw, &k) != nil || k == nil {
		return &node{}
	}
	n := r.ownRules(k, depth)
	for _, part := range elements(k["allOf"]) {
		n = r.both(n, r.resolved(part, depth+1))
	}
	for _, keyword := range []string{"anyOf", "oneOf"} {
		if list := elements(k[keyword]); len(list) > 0 {
			n = r.both(n, r.alternatives(n, list, depth+1))
		}
	}
	if ref := stringOf(k["$ref"]); ref != "" {
		if n.kind == anyValue {
			n = &node{kind: reference, target: r.definition(ref, depth+1)}
			if n.target == nil {
				n = &node{}
			}
		} else if target := r.lookup(ref); target != nil {
			n = r.both(n, r.node(target, depth+1))
		}
	}
	if string(k["nullable"]) == "true" {
		n = unionOf(n, &node{kind: nullValue})
	}
	if d := descriptionOf(k); d != "" {
		c := *n
		c.description = d
		n = &c
	}
	return n
}

// admit counts a node, and the bytes that making it reads.
func (r *reader) admit(size int) bool {
	r.nodesLeft--
	r.bytesLeft -= size
	return r.nodesLeft >= 0 && r.bytesLeft >= 0
}

// join counts members or alternatives that one type takes over from another, which may be
// many times as many as the document has.
func (r *reader) join(count int) bool {
	r.joinedLeft -= count
	return r.joinedLeft >= 0
}

// resolved reads a schema whose reference, if it has one, is replaced by what it names, so
// that its members can be joined with others.
func (r *reader) resolved(raw json.RawMessage, depth int) *node {
	n := r.node(raw, depth)
	for range maxDepth {
		if n.kind != reference || n.target.node == nil {
			break
		}
		n = described(n.target.node, n.description)
	}
	if n.kind == reference { // to a schema around it
		return &node{}
	}
	return n
}

// alternatives reads the schemas of anyOf or oneOf beside the rules of n. An alternative
// of any value says no more than n does.
func (r *reader) alternatives(n *node, list []json.RawMessage, depth int) *node {
	var parts []*node
	for _, raw := range list {
		if n.kind == object {
			part := r.resolved(raw, depth)
			if part.kind == union && !r.join(len(part.list)) {
				return &node{}
			}
			parts = append(parts, part)
			continue
		}
		parts = append(parts, r.node(raw, depth))
	}
	return unionOf(parts...)
}

// ownRules reads a schema without what it says of other schemas.
func (r *reader) ownRules(k keywords, depth int) *node {
	if value, ok := k["const"]; ok {
		return literalOf(value)
	}
	if values := elements(k["enum"]); len(values) > 0 {
		return r.literals(values)
	}
	var list []*node
	for _, name := range typesOf(k) {
		list = append(list, r.ofType(name, k, depth))
	}
	return unionOf(list...)
}

func (r *reader) literals(values []json.RawMessage) *node {
	var list []*node
	for _, value := range values {
		if !r.admit(len(value)) {
			return &node{}
		}
		list = append(list, literalOf(value))
	}
	return unionOf(list...)
}

// literalOf returns the type of one value. Objects and arrays are any value.
func literalOf(raw json.RawMessage) *node {
	value := string(bytes.TrimSpace(raw))
	switch {
	case value == "null":
		return &node{kind: nullValue}
	case value[0] == '{' || value[0] == '[':
		return &node{}
	case len(value) <= maxLiteral:
		return &node{kind: literal, value: value}
	case value[0] == '"':
		return &node{kind: text}
	default:
		return &node{kind: number}
	}
}

// typesOf returns the types that a schema names, or the one that its keywords are for.
func typesOf(k keywords) []string {
	var list []string
	if raw, ok := k["type"]; ok {
		if json.Unmarshal(raw, &list) != nil {
			list = []string{stringOf(raw)}
		}
		return slices.Compact(list)
	}
	for _, keyword := range []string{"properties", "required", "additionalProperties", "patternProperties"} {
		if _, ok := k[keyword]; ok {
			return []string{"object"}
		}
	}
	for _, keyword := range []string{"items", "prefixItems"} {
		if _, ok := k[keyword]; ok {
			return []string{"array"}
		}
	}
	return nil
}

func (r *reader) ofType(name string, k keywords, depth int) *node {
	switch name {
	case "null":
		return &node{kind: nullValue}
	case "boolean":
		return &node{kind: boolean}
	case "integer":
		return &node{kind: integer}
	case "number":
		return &node{kind: number}
	case "string":
		return &node{kind: text}
	case "array":
		return r.array(k, depth)
	case "object":
		return r.object(k, depth)
	default:
		return &node{}
	}
}

func (r *reader) array(k keywords, depth int) *node {
	first, rest := elements(k["prefixItems"]), k["items"]
	if list := elements(rest); len(first) == 0 && len(list) > 0 { // as before 2020
		first, rest = list, k["additionalItems"]
	}
	elem := &node{}
	if rest != nil {
		elem = r.node(rest, depth+1)
	}
	if len(first) == 0 {
		return &node{kind: array, elem: elem}
	}
	out := &node{kind: tuple, elem: elem}
	if string(bytes.TrimSpace(rest)) == "false" {
		out.elem = nil
	}
	for _, raw := range first {
		out.list = append(out.list, r.node(raw, depth+1))
	}
	return out
}

func (r *reader) object(k keywords, depth int) *node {
	out := &node{kind: object, required: map[string]bool{}}
	for _, f := range ordered(k["properties"]) {
		out.fields = append(out.fields, field{name: f.name, node: r.node(f.raw, depth+1)})
	}
	var required []string
	_ = json.Unmarshal(k["required"], &required) // anything else requires nothing
	for _, name := range required {
		if !r.admit(0) {
			break
		}
		out.required[name] = true
	}
	var rest []*node
	for _, f := range ordered(k["patternProperties"]) {
		rest = append(rest, r.node(f.raw, depth+1))
	}
	switch more := bytes.TrimSpace(k["additionalProperties"]); {
	case string(more) == "false":
		out.closed = len(rest) == 0
	case len(more) > 0:
		rest = append(rest, r.node(more, depth+1))
	case len(rest) > 0:
		rest = append(rest, &node{})
	}
	if len(rest) > 0 {
		out.rest = unionOf(rest...)
	}
	return out
}

// definition returns the schema that a reference names, nil for one that the document does
// not have.
func (r *reader) definition(ref string, depth int) *definition {
	if d, ok := r.definitions[ref]; ok {
		return d
	}
	raw := r.lookup(ref)
	if raw == nil {
		return nil
	}
	d := &definition{name: nameIn(ref)}
	r.definitions[ref] = d
	d.node = r.node(raw, depth)
	r.order = append(r.order, d)
	return d
}

// nameIn returns the last name of a reference.
func nameIn(ref string) string {
	name := ref[strings.LastIndexByte(ref, '/')+1:]
	if plain, err := url.PathUnescape(name); err == nil {
		name = plain
	}
	return unescapePointer(name)
}

func unescapePointer(name string) string {
	return strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
}

// lookup follows a JSON pointer in the fragment of a reference; nil is for other
// references, and for places that are not there.
func (r *reader) lookup(ref string) json.RawMessage {
	pointer, ok := strings.CutPrefix(ref, "#")
	pointer, err := url.PathUnescape(pointer)
	if !ok || err != nil || pointer != "" && pointer[0] != '/' || strings.Count(pointer, "/") > maxDepth {
		return nil
	}
	raw := r.document
	for end := 0; end < len(pointer) && raw != nil; {
		start := end + 1
		if end = strings.IndexByte(pointer[start:], '/') + start; end < start {
			end = len(pointer)
		}
		name := unescapePointer(pointer[start:end])
		raw = r.membersAt(pointer[:start], raw)[name]
	}
	return raw
}

// membersAt returns the members of an object or array at a pointer.
func (r *reader) membersAt(pointer string, raw json.RawMessage) keywords {
	if k, ok := r.opened[pointer]; ok {
		return k
	}
	if r.bytesLeft -= len(raw); r.bytesLeft < 0 {
		return nil
	}
	var k keywords
	if json.Unmarshal(raw, &k) != nil {
		k = keywords{}
		for i, element := range elements(raw) {
			k[strconv.Itoa(i)] = element
		}
	}
	r.opened[pointer] = k
	return k
}

// member is a member of a JSON object.
type member struct {
	name string
	raw  json.RawMessage
}

// ordered returns the members of a JSON object in their order; of two with one name the
// last counts.
func ordered(raw json.RawMessage) (list []member) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil
	}
	places := map[string]int{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return list
		}
		m := member{name: name.(string)} // in an object, every second token is a name
		if err := d.Decode(&m.raw); err != nil {
			return list
		}
		if i, ok := places[m.name]; ok {
			list[i] = m
			continue
		}
		places[m.name] = len(list)
		list = append(list, m)
	}
	return list
}

// elements returns the elements of a JSON array, nil for anything else.
func elements(raw json.RawMessage) (list []json.RawMessage) {
	_ = json.Unmarshal(raw, &list) // anything else has no elements
	return list
}

func stringOf(raw json.RawMessage) (s string) {
	_ = json.Unmarshal(raw, &s) // anything else is no text
	return s
}

// descriptionOf returns the description of a schema, else its title, with the bounds that
// no type says.
func descriptionOf(k keywords) string {
	text := strings.TrimSpace(stringOf(k["description"]))
	if text == "" {
		text = strings.TrimSpace(stringOf(k["title"]))
	}
	var rules []string
	for _, keyword := range []string{"default", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength", "minItems", "maxItems", "format", "pattern"} {
		if value := bytes.TrimSpace(k[keyword]); len(value) > 0 && len(value) <= maxLiteral {
			rules = append(rules, keyword+" "+string(value))
		}
	}
	if len(rules) == 0 {
		return text
	}
	return strings.TrimSpace(text + "\n" + strings.Join(rules, ", "))
}
