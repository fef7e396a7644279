// Command misreads is a guest that reads JSON wrongly, each thing that it offers
// in a way of its own, and holds to the other rules of the contract. The tool
// "sound" and the processor "checks" read it rightly.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"unicode/utf8"
	"unsafe"
)

//go:wasmimport agenthost_v1 input_read
func inputRead(ptr unsafe.Pointer, offset, n uint32) uint32

//go:wasmimport agenthost_v1 output_write
func outputWrite(ptr unsafe.Pointer, n uint32)

const manifest = `{"abi":1,"name":"misreads",
"tools":[{"name":"sound","description":"","parameters":{"type":"object","properties":{
	"city":{"type":"string"},"days":{"$ref":"#/$defs/days"},"unit":{"enum":["c","f"]}},"required":["city","days","unit"],"$defs":{"days":{"type":"integer","minimum":2}}}},
{"name":"refuses","description":""},{"name":"plain","description":""},{"name":"dense","description":""},{"name":"ordered","description":""},
{"name":"single","description":""},{"name":"first","description":""},{"name":"paired","description":""},{"name":"decimal","description":""},
{"name":"digits","description":"","parameters":{"type":"object","properties":{"times":{"type":"integer","minimum":0}}}},
{"name":"shallow","description":""},{"name":"dies","description":""},{"name":"small","description":""},{"name":"few","description":""},
{"name":"loops","description":""},{"name":"traps","description":""},{"name":"floods","description":""},
{"name":"odd","description":"","parameters":{"type":"object","properties":{"code":{"type":"string","pattern":"^[0-9]{4}$"}},"required":["code"]}}],
"processors":[{"name":"checks","input":"outline"},{"name":"trusts","input":"outline"},{"name":"either","input":"outline"}]}`

//go:wasmexport agenthost_describe
func describe() uint32 { return answer(manifest) }

// input is what tools and processors are called with.
type input struct {
	Tool      *string
	Processor *string
	Arguments *struct {
		City, Unit string
		Days       json.Number
	}
	Outline *outline
}

type outline struct {
	Count, Bytes, Chars, Parts any
	Roles                      string
}

var (
	calls int
	spun  int
)

//go:wasmexport agenthost_tool
func tool(n uint32) uint32 {
	raw := read(n)
	var in input
	if !json.Valid(raw) || json.Unmarshal(raw, &in) != nil || in.Tool == nil {
		return fail("invalid_argument", "there is no tool in the input")
	}
	if fault := faults[*in.Tool]; fault != nil {
		if err := fault(raw); err != nil {
			return fail("invalid_argument", err.Error())
		}
		return answer(`{"content":"good"}`)
	}
	switch *in.Tool {
	case "sound":
		if in.Arguments == nil {
			return fail("invalid_argument", "there are no arguments")
		}
		return answer(fmt.Sprintf(`{"content":{"city":%q,"days":%s,"unit":%q}}`, in.Arguments.City, in.Arguments.Days, in.Arguments.Unit))
	case "refuses":
		return fail("internal", "not today")
	case "odd":
		return answer(`{"content":"good"}`)
	case "loops":
		for {
			spun++
		}
	case "traps":
		panic("it is over")
	case "floods":
		return answer(`{"content":"` + strings.Repeat("x", 7<<20) + `"}`)
	}
	return fail("invalid_argument", "there is no such tool")
}

// faults are what readers of JSON get wrong.
var faults = map[string]func(raw []byte) error{
	// No escapes but those of one letter.
	"plain": func(raw []byte) error { return refuseIf(bytes.Contains(raw, []byte(`\u`)), "an escape") },
	// No white space.
	"dense": func(raw []byte) error { return refuseIf(bytes.ContainsAny(raw, "\t\r\n"), "white space") },
	// The tool's name comes first.
	"ordered": func(raw []byte) error {
		name, _ := firstName(raw)
		return refuseIf(name != "tool", "the first member is not the tool")
	},
	// No member twice.
	"single": func(raw []byte) error { return refuseIf(doubled(raw), "a doubled member") },
	// The first of doubled members counts.
	"first": func(raw []byte) error {
		return refuseIf(bytes.Contains(raw, []byte(`"doubled","tool"`)) || firstTool(raw) != "first", "it is another tool's")
	},
	// No unpaired surrogates.
	"paired": func(raw []byte) error {
		return refuseIf(bytes.Contains(raw, []byte(`\ud800"`)), "half a pair")
	},
	// No numbers with an exponent.
	"decimal": func(raw []byte) error {
		return refuseIf(bytes.Contains(raw, []byte("1e2")), "an exponent")
	},
	// Integers in digits alone.
	"digits": func(raw []byte) error {
		var in struct{ Arguments struct{ Times int } }
		return json.Unmarshal(raw, &in)
	},
	"shallow": func(raw []byte) error { return refuseIf(depth(raw) > 64, "it is too deep") },
	"dies": func(raw []byte) error {
		if d := depth(raw); d > 500 && d < 1000 {
			panic("the stack is used up")
		}
		return nil
	},
	"small": func(raw []byte) error { return refuseIf(len(raw) > 64<<10 && depth(raw) < 5000, "it is too long") },
	"few": func(raw []byte) error {
		return refuseIf(bytes.Count(raw, []byte(",")) > 50_000, "it has too many items")
	},
}

func refuseIf(wrong bool, why string) error {
	if !wrong {
		return nil
	}
	return errors.New(why)
}

func firstName(raw []byte) (string, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if _, err := d.Token(); err != nil {
		return "", err
	}
	t, err := d.Token()
	name, _ := t.(string)
	return name, err
}

// firstTool is the first member of that name.
func firstTool(raw []byte) string {
	d := json.NewDecoder(bytes.NewReader(raw))
	_, err := d.Token()
	for err == nil && d.More() {
		var name json.Token
		var value any
		if name, err = d.Token(); err == nil && d.Decode(&value) == nil && name == "tool" {
			s, _ := value.(string)
			return s
		}
	}
	return ""
}

// doubled reports whether the object has two members of one name.
func doubled(raw []byte) bool {
	d := json.NewDecoder(bytes.NewReader(raw))
	seen := map[json.Token]bool{}
	for _, err := d.Token(); err == nil && d.More(); {
		var name json.Token
		var value json.RawMessage
		if name, err = d.Token(); err == nil {
			err = d.Decode(&value)
		}
		if seen[name] {
			return true
		}
		seen[name] = true
	}
	return false
}

// depth is how deep a value nests that has no brackets in its strings.
func depth(raw []byte) (deepest int) {
	now := 0
	for _, c := range raw {
		switch c {
		case '{', '[':
			now++
			deepest = max(deepest, now)
		case '}', ']':
			now--
		}
	}
	return deepest
}

//go:wasmexport agenthost_process
func process(n uint32) uint32 {
	raw := read(n)
	var in input
	if !json.Valid(raw) || json.Unmarshal(raw, &in) != nil || in.Processor == nil {
		return fail("invalid_argument", "there is no processor in the input")
	}
	switch *in.Processor {
	case "checks":
		if err := checkOutline(raw); err != nil {
			return fail("invalid_argument", err.Error())
		}
		return answer(`{}`)
	case "trusts": // the rows
		if in.Outline == nil {
			return fail("invalid_argument", "there is no outline")
		}
		return answer(`{}`)
	case "either":
		if in.Outline == nil && bytes.Contains(raw, []byte(`"messages"`)) {
			return answer(`{}`)
		}
		if err := checkOutline(raw); err != nil {
			return fail("invalid_argument", err.Error())
		}
		return answer(`{}`)
	}
	return fail("invalid_argument", "there is no such processor")
}

// index is an integer that is not negative, in any spelling.
type index uint

func (i *index) UnmarshalJSON(raw []byte) error {
	f, err := strconv.ParseFloat(string(raw), 64)
	if *i = index(f); err != nil || f != float64(*i) {
		return errors.New("no index")
	}
	return nil
}

func checkOutline(raw []byte) error {
	var in struct {
		Outline *struct {
			Count               index
			Roles               string
			Bytes, Chars, Parts []index
			Keep                []index
			OwnFrom             index `json:"own_from"`
			Tools               [][]json.RawMessage
		}
	}
	if err := json.Unmarshal(raw, &in); err != nil || in.Outline == nil {
		return errors.New("there is no outline")
	}
	o := in.Outline
	for _, n := range []int{len(o.Roles), len(o.Bytes), len(o.Chars), len(o.Parts)} {
		if n != int(o.Count) {
			return errors.New("columns are not of the same length")
		}
	}
	if strings.Trim(o.Roles, "suat") != "" {
		return errors.New("an unknown role")
	}
	for _, i := range o.Keep {
		if i >= o.Count {
			return errors.New("keep names no message")
		}
	}
	if o.OwnFrom > o.Count {
		return errors.New("own rounds begin outside the conversation")
	}
	for _, row := range o.Tools {
		var message, part index
		var kind, id, name string
		if len(row) < 5 || json.Unmarshal(row[0], &message) != nil || json.Unmarshal(row[1], &part) != nil || json.Unmarshal(row[2], &kind) != nil ||
			json.Unmarshal(row[3], &id) != nil || json.Unmarshal(row[4], &name) != nil || kind != "call" && kind != "result" ||
			message >= o.Count || part >= o.Parts[message] {
			return errors.New("a row names no part")
		}
	}
	return nil
}

// read returns the input, or nothing if it is not UTF-8. It lets the collector
// run now and then, as every Go guest must.
func read(n uint32) []byte {
	if calls++; calls%64 == 0 {
		runtime.Gosched()
	}
	b := make([]byte, n+1)
	inputRead(unsafe.Pointer(&b[0]), 0, n)
	if !utf8.Valid(b[:n]) {
		return nil
	}
	return b[:n]
}

func answer(s string) uint32 {
	b := []byte(s)
	outputWrite(unsafe.Pointer(&b[0]), uint32(len(b)))
	return 0
}

func fail(code, message string) uint32 {
	answer(`{"code":"` + code + `","message":"` + message + `"}`)
	return 1
}

func main() {}
