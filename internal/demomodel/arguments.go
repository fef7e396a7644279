package demomodel

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/agenthost/agenthost/internal/toolschema"
)

// filler guesses a tool's arguments from a text.
type filler struct {
	tool     *offer
	text     string
	found    []entity
	used     []bool
	idOf     string   // name of the parameter whose value is known
	id       string   // that value
	insist   bool     // a call must be made: guess unknown values
	missing  []string // required parameters for which there was nothing
	skipWord func(stem string) bool
}

func newFiller(t *offer, text string) *filler {
	f := &filler{tool: t, text: text, found: entities(text)}
	f.used = make([]bool, len(f.found))
	f.skipWord = func(s string) bool { return slices.Contains(t.nameStems, s) }
	return f
}

// know fixes one parameter's value.
func (f *filler) know(parameter, id string) {
	f.idOf, f.id = parameter, id
	for i, e := range f.found {
		if e.isID {
			f.used[i] = true // the ids are spoken for, one a call
		}
	}
}

// arguments returns the object.
func (f *filler) arguments() json.RawMessage {
	return f.object(f.tool.parameters, 0)
}

// object fills required members first, so that they take their values first,
// and writes all in the schema's order.
func (f *filler) object(s *toolschema.Schema, depth int) json.RawMessage {
	values := map[string]json.RawMessage{}
	for _, wanted := range []bool{true, false} {
		for _, p := range s.Properties {
			required := s.Requires(p.Name)
			if (required && !p.Schema.Is("null")) == wanted {
				if v := f.member(p, required, depth); v != nil {
					values[p.Name] = v
				}
			}
		}
	}
	var b bytes.Buffer
	b.WriteByte('{')
	for _, p := range s.Properties {
		if v, ok := values[p.Name]; ok {
			if b.Len() > 1 {
				b.WriteByte(',')
			}
			b.Write(encode(p.Name))
			b.WriteByte(':')
			b.Write(v)
		}
	}
	b.WriteByte('}')
	return b.Bytes()
}

// member returns a parameter's value, nil to leave it out.
func (f *filler) member(p toolschema.Property, required bool, depth int) json.RawMessage {
	nullable := p.Schema.Is("null")
	sure := !required || nullable // an optional one is only filled when it is sure
	if v := f.value(p, sure, depth); v != nil {
		return v
	}
	switch {
	case required && nullable:
		return json.RawMessage("null")
	case !required:
		return nil
	case len(p.Schema.Default) > 0:
		return p.Schema.Default
	case f.insist:
		return f.anything(p.Schema)
	}
	f.missing = append(f.missing, p.Name)
	return nil
}

func (f *filler) value(p toolschema.Property, sure bool, depth int) json.RawMessage {
	s := p.Schema
	switch {
	case p.Name == f.idOf && depth == 0:
		return asType(s, f.id)
	case len(s.Const) > 0:
		return s.Const
	case len(s.Enum) > 0:
		return f.enum(s)
	}
	switch s.Kind() {
	case "integer", "number":
		return f.number(p, sure)
	case "boolean":
		return f.boolean(p, sure)
	case "array":
		return f.array(p, sure)
	case "object":
		return f.nested(s, sure, depth)
	}
	return f.freeText(p, sure)
}

func (f *filler) nested(s *toolschema.Schema, sure bool, depth int) json.RawMessage {
	if depth >= toolschema.MaxDepth || sure {
		return nil
	}
	return f.object(s, depth+1)
}

// enum returns the value whose words the text has.
func (f *filler) enum(s *toolschema.Schema) json.RawMessage {
	words := splitWords(f.text)
	for i, w := range words {
		words[i] = stem(w)
	}
	for _, v := range s.Enum {
		var name string
		if json.Unmarshal(v, &name) != nil {
			name = string(v)
		}
		want := splitWords(name)
		for i, w := range want {
			want[i] = stem(w)
		}
		if len(want) > 0 && containsRun(words, want) {
			return v
		}
	}
	return nil
}

// containsRun reports whether a holds b, one word after the other.
func containsRun(a, b []string) bool {
	for i := 0; i+len(b) <= len(a); i++ {
		if slices.Equal(a[i:i+len(b)], b) {
			return true
		}
	}
	return false
}

// take returns the first unused entity that fits, and uses it.
func (f *filler) take(fits func(entity) bool) (string, bool) {
	for i, e := range f.found {
		if !f.used[i] && fits(e) {
			f.used[i] = true
			return e.text, true
		}
	}
	return "", false
}

// number takes an id for a parameter that names a thing and a plain number for
// another; one that is not sure must stand beside the parameter's own name.
func (f *filler) number(p toolschema.Property, sure bool) json.RawMessage {
	s := p.Schema
	fits := func(e entity) bool {
		n, err := strconv.ParseFloat(strings.ReplaceAll(e.text, ",", ""), 64)
		return err == nil && (e.kind == number || e.kind == id) && s.TakesNumber(n) && (s.Kind() == "number" || n == float64(int64(n)))
	}
	beside := func(e entity) bool { return fits(e) && f.beside(e, p.Name) }
	text, ok := f.take(beside)
	switch {
	case ok:
	case holdsID(p):
		text, ok = f.take(func(e entity) bool { return e.isID && fits(e) })
	case !sure:
		if text, ok = f.take(func(e entity) bool { return !e.isID && fits(e) }); !ok {
			text, ok = f.take(fits)
		}
	}
	if !ok {
		return nil
	}
	return asType(s, strings.ReplaceAll(text, ",", ""))
}

// besideBytes is how far from a number its name may stand.
const besideBytes = 24

// beside reports whether one of the two words before a number, or the one after
// it, is of the name: height 20, 3 items.
func (f *filler) beside(e entity, name string) bool {
	before := splitWords(f.text[max(e.start-besideBytes, 0):e.start])
	after := splitWords(f.text[e.end:min(e.end+besideBytes, len(f.text))])
	near := slices.Concat(before[max(len(before)-2, 0):], after[:min(len(after), 1)])
	return len(shared(stems(name), stems(strings.Join(near, " ")))) > 0
}

// asType writes a text as the schema's type.
func asType(s *toolschema.Schema, text string) json.RawMessage {
	if !s.WantsNumber() {
		return encode(text)
	}
	for _, text := range []string{text, digitsOf().FindString(text)} { // ORD-1042 too
		if n, ok := s.Number(text); ok {
			return json.RawMessage(n)
		}
	}
	return nil
}

var digitsOf = expression(`\d+`)

// boolean is true when the text names the parameter, false when it says not.
func (f *filler) boolean(p toolschema.Property, sure bool) json.RawMessage {
	words := splitWords(f.text)
	for i, w := range words {
		if len(shared([]string{stem(w)}, stems(p.Name))) == 0 || f.skipWord(stem(w)) {
			continue
		}
		if i > 0 && (words[i-1] == "not" || words[i-1] == "no" || words[i-1] == "without" || words[i-1] == "dont") {
			return json.RawMessage("false")
		}
		return json.RawMessage("true")
	}
	if sure {
		return nil
	}
	return json.RawMessage("false")
}

// array takes everything that fits one item.
func (f *filler) array(p toolschema.Property, sure bool) json.RawMessage {
	item := toolschema.Property{Name: strings.TrimSuffix(p.Name, "s"), Schema: p.Schema.Element()}
	if item.Schema == nil {
		item.Schema = &toolschema.Schema{}
	}
	if named(p, idNames) {
		item.Name += "_id"
	}
	var items []json.RawMessage
	for len(items) < maxItems {
		v := f.value(item, true, toolschema.MaxDepth)
		if v == nil || slices.ContainsFunc(items, func(o json.RawMessage) bool { return bytes.Equal(o, v) }) {
			break
		}
		items = append(items, v)
	}
	if len(items) == 0 && !sure {
		if v := f.value(item, false, toolschema.MaxDepth); v != nil {
			items = append(items, v)
		}
	}
	if len(items) == 0 {
		return nil
	}
	return encode(items)
}

const maxItems = 50

// freeText returns a string. The parameter's name and format select the kind of
// value; other parameters take the remaining words.
func (f *filler) freeText(p toolschema.Property, sure bool) json.RawMessage {
	for _, guess := range []func(toolschema.Property) (string, bool){f.formatted, f.identifier, f.quotedText} {
		if text, ok := guess(p); ok {
			return encode(text)
		}
	}
	if named(p, mathNames) {
		if e := expressionIn(f.text); e != "" {
			return encode(e)
		}
	}
	if sure || holdsID(p) || p.Schema.Pattern != "" || p.Schema.Format != "" {
		return nil
	}
	text := f.aboutWhat()
	if named(p, textNames) || text == "" {
		text = f.restOfText()
	}
	if text == "" {
		return nil
	}
	return encode(text)
}

// formatted takes a value that has the parameter's format or pattern, or the
// form that its name suggests.
func (f *filler) formatted(p toolschema.Property) (string, bool) {
	s := p.Schema
	ofKind := func(k kind) (string, bool) { return f.take(func(e entity) bool { return e.kind == k }) }
	has := func(names string) bool { return named(p, set(names)) }
	switch {
	case s.Format == "email" || has("email mail"):
		return ofKind(email)
	case s.Format == "uri" || s.Format == "url" || has("url uri link website"):
		return ofKind(address)
	case s.Format == "date" || s.Format == "date-time" || has("date day when since until"):
		return ofKind(date)
	case has("phone mobile"):
		return ofKind(phone)
	case s.Pattern == "":
		return "", false
	}
	re, err := regexp.Compile(s.Pattern)
	if err != nil {
		return "", false
	}
	return f.take(func(e entity) bool { return e.kind != secret && re.MatchString(e.text) })
}

func (f *filler) identifier(p toolschema.Property) (string, bool) {
	if !holdsID(p) {
		return "", false
	}
	if text, ok := f.take(func(e entity) bool { return e.kind == id }); ok {
		return text, true
	}
	return f.take(func(e entity) bool { return e.isID })
}

func (f *filler) quotedText(p toolschema.Property) (string, bool) {
	if holdsID(p) || p.Schema.Format != "" {
		return "", false
	}
	return f.take(func(e entity) bool { return e.kind == quoted })
}

// objectWords stand before the object of a request.
var (
	objectOf   = expression(`(?i)\b(?:in|for|about|of|named|called|at|to|from|on|with)\s+(?:the\s+|a\s+|an\s+)?([^.,;:?!\n]+)`)
	timeAtEnd  = expression(`(?i)\s+(?:today|tomorrow|yesterday|now|please|right now|tonight|this week|next week)\s*$`)
	capitalRun = expression(`\b\p{Lu}[\p{L}'-]+(?:\s+\p{Lu}[\p{L}'-]+)*`)
)

// aboutWhat returns the subject of the text: the words after a preposition, or a
// name inside a sentence.
func (f *filler) aboutWhat() string {
	if m := objectOf().FindStringSubmatch(f.text); m != nil {
		return strings.TrimSpace(timeAtEnd().ReplaceAllString(m[1], ""))
	}
	for _, m := range capitalRun().FindAllStringIndex(f.text, -1) {
		name := f.text[m[0]:m[1]]
		if m[0] > 0 && name != "I" && !f.skipWord(stem(strings.ToLower(name))) {
			return name
		}
	}
	return ""
}

// leadIn matches the polite beginning of a request, before its subject.
var leadIn = expression(`(?i)^\s*(?:(?:please|can you|could you|would you|will you|i want you to|i need you to|hey|hi|hello|now|then|and)[\s,]+)*`)

// restOfText returns the text without the words that asked for the tool.
func (f *filler) restOfText() string {
	rest := strings.TrimSpace(leadIn().ReplaceAllString(f.text, ""))
	for {
		word, after, found := strings.Cut(rest, " ")
		if !found || !f.skipWord(stem(strings.ToLower(strings.Trim(word, ":,")))) {
			break
		}
		rest = strings.TrimSpace(after)
	}
	return strings.TrimSpace(strings.TrimLeft(rest, ":,- "))
}

// anything returns a value of the type, for a call that must be made.
func (f *filler) anything(s *toolschema.Schema) json.RawMessage {
	switch {
	case len(s.Enum) > 0:
		return s.Enum[0]
	case s.Kind() == "integer" || s.Kind() == "number":
		n := 0.0
		if s.Minimum != nil {
			n = max(n, *s.Minimum)
		}
		return encode(n)
	case s.Kind() == "boolean":
		return json.RawMessage("false")
	case s.Kind() == "array":
		return json.RawMessage("[]")
	case s.Kind() == "object":
		return json.RawMessage("{}")
	}
	return encode(strings.TrimSpace(f.text))
}
