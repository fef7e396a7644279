package schematypes_test

import (
	"encoding/json"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/internal/longtest"
	"github.com/agenthost/agenthost/internal/schematypes"
)

// FuzzDeclare wants declarations of any bytes to end, to be bounded, and to have all their
// brackets, texts and comments closed.
func FuzzDeclare(f *testing.F) {
	f.Add([]byte(order))
	f.Add([]byte(bomb(12)))
	for _, schema := range schemas(rand.New(rand.NewPCG(3, 4)), 40) {
		f.Add([]byte(schema))
	}
	f.Fuzz(func(t *testing.T, schema []byte) {
		for _, lang := range schematypes.Languages() {
			out, err := schematypes.Declare(lang, []schematypes.Type{{Name: "X", Schema: schema}})
			if err == nil {
				checkText(t, string(lang), out)
			}
		}
		out, err := schematypes.TypeScriptFunction(schematypes.Function{Name: "f", Description: string(schema), Parameters: schema, Result: schema})
		if err == nil {
			checkText(t, "function", out)
		}
	})
}

// maxOutput is more than any schema of less than a megabyte should become.
const maxOutput = 16 << 20

// checkText reads a program without its comments and texts, and wants its brackets to match.
func checkText(t *testing.T, lang, out string) {
	t.Helper()
	if len(out) > maxOutput {
		t.Fatalf("%s: %d bytes were written", lang, len(out))
	}
	var open []byte
	for i := 0; i < len(out); i++ {
		switch rest := out[i:]; {
		case strings.HasPrefix(rest, "/*"):
			end := strings.Index(rest[2:], "*/")
			if end < 0 {
				t.Fatalf("%s: a comment does not end: %.200s", lang, rest)
			}
			i += end + 3
		case strings.HasPrefix(rest, "//"):
			i += strings.IndexByte(rest, '\n')
		case rest[0] == '"' || rest[0] == '`':
			end := endOfText(rest)
			if end < 0 {
				t.Fatalf("%s: a text does not end: %.200s", lang, rest)
			}
			i += end
		case strings.ContainsRune("([{", rune(rest[0])):
			open = append(open, rest[0])
		case strings.ContainsRune(")]}", rune(rest[0])):
			if len(open) == 0 || open[len(open)-1] != map[byte]byte{')': '(', ']': '[', '}': '{'}[rest[0]] {
				t.Fatalf("%s: %q closes nothing: %.200s", lang, rest[0], rest)
			}
			open = open[:len(open)-1]
		}
	}
	if len(open) > 0 {
		t.Fatalf("%s: %q is not closed in: %.500s", lang, open, out)
	}
}

func endOfText(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			if s[0] == '"' {
				i++
			}
		case '\n':
			if s[0] == '"' {
				return -1
			}
		case s[0]:
			return i
		}
	}
	return -1
}

// bomb returns a schema whose types multiply where they are written out: each level is an
// object that is joined with two alternatives of the next.
func bomb(levels int) string {
	inner := `{"type":"string"}`
	for range levels {
		inner = `{"properties":{"a":` + inner + `,"b":{"type":"string"}},"anyOf":[{"required":["a"]},{"required":["b"]},{"required":["c"]}]}`
	}
	return inner
}

func TestSizeIsBounded(t *testing.T) {
	many := &strings.Builder{}
	many.WriteString(`{"$defs":{"big":{"description":"` + strings.Repeat("x", 500_000) + `"}},"allOf":[`)
	many.WriteString(strings.Repeat(`{"$ref":"#/$defs/big"},`, 5_000) + `{}]}`)
	for name, schema := range map[string]string{
		"types that multiply":             bomb(30),
		"a large schema that comes often": many.String(),
		"definitions that double":         doubling(38),
		"deep nesting":                    strings.Repeat(`{"items":`, 5_000) + "{}" + strings.Repeat("}", 5_000),
		"many members":                    `{"properties":{` + strings.Repeat(`"a":{},`, 50_000) + `"b":{}}}`,
		"alternatives that double":        doublingObjects(200),
		"members that are joined often":   joining(1_000, 1_000),
		"required members without end":    `{"required":["` + strings.Join(symbols(40_000), `","`) + `"]}`,
		"members of no letters":           `{"properties":{"` + strings.Join(symbols(6_000), `":{},"`) + `":{}}}`,
		"references that multiply":        `{"allOf":[{"$ref":"#"},{"$ref":"#"}],"anyOf":[{"$ref":"#"},{"$ref":"#"}],"properties":{"a":{"$ref":"#"}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			langs := schematypes.Languages()
			for _, lang := range langs[:longtest.Alone(1, len(langs))] { // in one goroutine
				checkText(t, string(lang), declare(t, lang, "x", schema))
			}
			out, err := schematypes.TypeScriptFunction(schematypes.Function{Name: "f", Parameters: json.RawMessage(schema)})
			if err != nil {
				t.Fatal(err)
			}
			checkText(t, "function", out)
		})
	}
}

// doublingObjects returns a schema with objects of which each is one of two, both the one before.
func doublingObjects(levels int) string {
	properties, definitions := &strings.Builder{}, &strings.Builder{}
	for i := range levels {
		before, n := `{"$ref":"#/$defs/d`+strconv.Itoa(i)+`"}`, strconv.Itoa(i+1)
		definitions.WriteString(`"d` + n + `":{"type":"object","anyOf":[` + before + `,` + before + `]},`)
		properties.WriteString(`"p` + n + `":{"$ref":"#/$defs/d` + n + `"},`)
	}
	return `{"properties":{` + properties.String() + `"z":{}},"$defs":{` + definitions.String() + `"d0":{"properties":{"a":{}}}}}`
}

// joining returns a schema with objects that have all members of a large one.
func joining(objects, members int) string {
	properties, large := &strings.Builder{}, &strings.Builder{}
	for i := range members {
		large.WriteString(`"m` + strconv.Itoa(i) + `":{"type":"string","description":"` + strings.Repeat("x", 300) + `"},`)
	}
	for i := range objects {
		properties.WriteString(`"p` + strconv.Itoa(i) + `":{"allOf":[{"$ref":"#/$defs/large"},{"type":"object"}]},`)
	}
	return `{"properties":{` + properties.String() + `"z":{}},"$defs":{"large":{"properties":{` + large.String() + `"z":{}}}}}`
}

// symbols returns different names without a letter that identifiers have.
func symbols(count int) []string {
	list, letters := make([]string, count), strings.NewReplacer("0", "é", "1", "ü", "2", "ö", "3", "ä")
	for i := range list {
		list[i] = letters.Replace(strconv.FormatInt(int64(i), 4))
	}
	return list
}

// doubling returns a schema each of whose definitions is the next one twice.
func doubling(levels int) string {
	out := &strings.Builder{}
	out.WriteString(`{"$ref":"#/$defs/d0","$defs":{`)
	for i := range levels {
		ref := `{"$ref":"#/$defs/d` + strconv.Itoa(i+1) + `"}`
		out.WriteString(`"d` + strconv.Itoa(i) + `":{"anyOf":[` + ref + `,` + ref + `]},`)
	}
	return out.String() + `"d` + strconv.Itoa(levels) + `":{"type":"string"}}}`
}
