package plugintest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/agenthost/agenthost/host/plugin"
)

// The same JSON in other spellings. A guest with a JSON parser of its own may read only
// the spellings of its tests and of its usual host; pdk/ABI.md lets a host write any JSON.

// writtenOtherwise makes each call with other spellings of its input.
func writtenOtherwise(g *guest) (broken []error) {
	for _, c := range g.calls {
		want, err := g.sandbox.callFresh(c)
		if err != nil {
			broken = append(broken, c.problem("%w", err))
			continue
		}
		tree, err := parseJSON(c.Input)
		if err != nil {
			broken = append(broken, c.problem("%w", err))
			continue
		}
		if err := g.integersOtherwise(c); err != nil {
			broken = append(broken, c.problem("%w", err))
		}
		later := g.withLater(c, want)
		for _, w := range writings() {
			input, want := w.write(tree), want
			if w.extra != "" {
				want = later
			}
			got, err := g.sandbox.callFresh(Call{c.Export, input})
			if err != nil || !g.sameValue(c, got, want) {
				broken = append(broken, c.problem("%s, it answers %s, and otherwise %s", w.how, shown(got, err), shown(want, nil)))
			}
		}
	}
	return broken
}

// withLater returns the answer of a call with a small unknown field, or want if the call
// fails: another rule reports that.
func (g *guest) withLater(c Call, want *plugin.CallResult) *plugin.CallResult {
	r, err := g.sandbox.callFresh(c.with("x-later", json.RawMessage("1")))
	if err != nil {
		return want
	}
	return r
}

// writing is a way to write a value.
type writing struct {
	how string

	space, reverse bool
	escape         func(b []byte, raw string) []byte // of strings; nil leaves them
	double         bool                              // doubled members of the envelope; the last one counts
	integers       string                            // the suffix of marked integers
	extra          string                            // an additional member, unknown in every version of the contract
}

func writings() []writing {
	return []writing{
		{how: "with white space between everything", space: true},
		{how: "with members in another order", reverse: true},
		{how: `with every character as a \u escape`, escape: escapeAll},
		{how: "with no escape that can be left out", escape: escapeLeast},
		{how: "with doubled members, of which the last counts", double: true},
		{how: "with surrogates in a string that it does not know, one of them unpaired", extra: `"x-later":"\ud83d\ude00 \ud800"`},
		{how: "with numbers that it does not know, and that its language may not have", extra: `"x-later":[-0.0,123456789012345678901234567890,2.0,1e2]`},
	}
}

// jsonNode is a JSON value whose strings and numbers are their text.
type jsonNode struct {
	raw     string // of a value that is neither object nor array
	members []jsonMember
	items   []jsonNode
	kind    byte // {, [, ", or 0
	integer bool // by the contract or a schema
}

type jsonMember struct {
	name  string // with its quotes
	value jsonNode
}

// parseJSON reads a JSON text.
func parseJSON(text string) (jsonNode, error) {
	if !json.Valid([]byte(text)) { // which bounds the depth as well
		return jsonNode{}, fmt.Errorf("the input is not JSON")
	}
	p := nodeParser{text}
	return p.value(), nil
}

// nodeParser parses a text that is known to be JSON.
type nodeParser struct{ rest string }

// skip skips white space, and then c, if c comes next.
func (p *nodeParser) skip(c byte) bool {
	p.rest = strings.TrimLeft(p.rest, " \t\r\n")
	if p.rest == "" || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

func (p *nodeParser) value() jsonNode {
	switch {
	case p.skip('{'):
		n := jsonNode{kind: '{'}
		for !p.skip('}') {
			p.skip(',')
			p.skip(0)
			m := jsonMember{name: p.str()}
			p.skip(':')
			m.value = p.value()
			n.members = append(n.members, m)
		}
		return n
	case p.skip('['):
		n := jsonNode{kind: '['}
		for !p.skip(']') {
			p.skip(',')
			n.items = append(n.items, p.value())
		}
		return n
	case p.rest[0] == '"': // skip has skipped the white space
		return jsonNode{kind: '"', raw: p.str()}
	}
	return jsonNode{raw: p.take(strings.IndexAny(p.rest, ",]} \t\r\n"))}
}

func (p *nodeParser) str() string {
	for i := 1; ; i++ {
		switch p.rest[i] {
		case '\\':
			i++
		case '"':
			return p.take(i + 1)
		}
	}
}

// take consumes n bytes; a negative number consumes all.
func (p *nodeParser) take(n int) string {
	if n < 0 {
		n = len(p.rest)
	}
	taken := p.rest[:n]
	p.rest = p.rest[n:]
	return taken
}

// write writes an object in this spelling.
func (w writing) write(n jsonNode) string {
	b := w.append(nil, n, 0)
	if w.extra != "" {
		b = append(bytes.TrimSuffix(b, []byte("}")), ',')
		b = append(b, w.extra...)
		b = append(b, '}')
	}
	return string(b)
}

// historyMembers are the members of an envelope with a conversation, in which a guest
// must or may refuse a doubled field.
var historyMembers = []string{`"messages"`, `"outline"`, `"responses"`, `"input"`, `"last"`}

func (w writing) append(b []byte, n jsonNode, depth int) []byte {
	b = w.gap(b)
	switch n.kind {
	case '{':
		return w.gap(append(w.appendMembers(append(b, '{'), n.members, depth), '}'))
	case '[':
		b = append(b, '[')
		for i, item := range n.items {
			if i > 0 {
				b = append(b, ',')
			}
			b = w.append(b, item, depth+1)
		}
		b = append(b, ']')
	case '"':
		b = w.appendString(b, n.raw)
	default:
		b = append(b, n.raw...)
		if n.integer {
			b = append(b, w.integers...)
		}
	}
	return w.gap(b)
}

func (w writing) appendMembers(b []byte, members []jsonMember, depth int) []byte {
	if w.reverse {
		members = slices.Clone(members)
		slices.Reverse(members)
	}
	for i, m := range members {
		if i > 0 {
			b = append(b, ',')
		}
		inner := w
		other := m.value.other()
		if slices.Contains(historyMembers, m.name) && depth == 0 {
			inner.double, other = false, m.value // a guest may refuse another doubled field first
		}
		if w.double {
			b = append(inner.appendMember(b, m.name, other, depth), ',')
		}
		b = inner.appendMember(b, m.name, m.value, depth)
	}
	return b
}

func (w writing) appendMember(b []byte, name string, value jsonNode, depth int) []byte {
	b = append(w.gap(w.appendString(w.gap(b), name)), ':')
	return w.append(b, value, depth+1)
}

// other returns another value of the same kind.
func (n jsonNode) other() jsonNode {
	switch {
	case n.kind == '{' || n.kind == '[':
		return jsonNode{kind: n.kind}
	case n.kind == '"':
		return jsonNode{kind: '"', raw: `"doubled"`}
	case n.raw == "true":
		return jsonNode{raw: "false"}
	case n.raw == "false":
		return jsonNode{raw: "true"}
	case n.raw == "null":
		return n
	}
	return jsonNode{raw: "7"}
}

func (w writing) gap(b []byte) []byte {
	if w.space {
		b = append(b, " \t\r\n"...)
	}
	return b
}

func (w writing) appendString(b []byte, raw string) []byte {
	if w.escape == nil {
		return append(b, raw...)
	}
	b = append(b, '"')
	return append(w.escape(b, raw[1:len(raw)-1]), '"')
}

// escapeAll writes every character of a string as \u escapes of its UTF-16 units.
func escapeAll(b []byte, raw string) []byte {
	for raw != "" {
		units, n := firstCharacter(raw)
		raw = raw[n:]
		for _, u := range units {
			b = fmt.Appendf(b, `\u%04x`, u)
		}
	}
	return b
}

// escapeLeast writes characters unescaped where JSON allows it.
func escapeLeast(b []byte, raw string) []byte {
	for raw != "" {
		units, n := firstCharacter(raw)
		r := rune(units[0])
		if len(units) == 2 {
			r = utf16.DecodeRune(rune(units[0]), rune(units[1]))
		}
		if r < ' ' || r == '"' || r == '\\' || utf16.IsSurrogate(r) {
			b = append(b, raw[:n]...)
		} else {
			b = utf8.AppendRune(b, r)
		}
		raw = raw[n:]
	}
	return b
}

// firstCharacter reads the first character of a JSON string, and its written
// length. A pair of escaped surrogates is one.
func firstCharacter(raw string) (units []uint16, n int) {
	if raw[0] != '\\' {
		r, n := utf8.DecodeRuneInString(raw)
		return utf16.Encode([]rune{r}), n
	}
	if raw[1] != 'u' {
		const letters, means = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
		return []uint16{uint16(means[strings.IndexByte(letters, raw[1])])}, 2
	}
	first := escapedUnit(raw)
	if len(raw) >= 12 && raw[6:8] == `\u` {
		if second := escapedUnit(raw[6:]); utf16.DecodeRune(rune(first), rune(second)) != utf8.RuneError {
			return []uint16{first, second}, 12
		}
	}
	return []uint16{first}, 6
}

func escapedUnit(raw string) uint16 {
	u, _ := strconv.ParseUint(raw[2:6], 16, 16) // four digits, as the text is JSON
	return uint16(u)
}

// sameValue reports whether two answers are the same JSON value; for errors, whether they
// have the same code, because a message may quote the input. Answers that vary from call
// to call are not compared.
func (g *guest) sameValue(c Call, got, want *plugin.CallResult) bool {
	switch {
	case got.GuestError != want.GuestError:
	case got.GuestError && errorCode(got.Output) == errorCode(want.Output):
		return true
	case !got.GuestError && sameJSON(got.Output, want.Output):
		return true
	}
	return sameResult(got, want) || g.sandbox.varies(c, want)
}

func errorCode(output []byte) string {
	m, _ := members(string(output)) // of an object alone
	return string(m["code"])
}
