package pdk_test

// Scenario: hostile and random JSON passes through the kit's scanner and writer.

import (
	"bytes"
	"encoding/json"
	"math"
	"math/big"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/agenthost/agenthost/pdk/go/pdk"
)

// Documents that every fuzz target below begins with.
var documents = []string{
	``, ` `, `null`, `true`, `false`, `nul`, `truefalse`, `0`, `-0`, `01`, `-`, `1.`, `.5`, `1.5`, `1e5`, `1E+05`, `1e`, `1e400`,
	`9007199254740993`, `123456789012345678901234567890`, `""`, `"`, `"a`, `"\"`, `"\u00e9"`, `"\u00"`, `"\ud83d\ude00"`,
	`"\ud800"`, `"\ud800\ud800\udc00"`, `"\udc00x"`, `"\ud800\n"`, `"\x"`, "\"\n\"", "\"\xff\"", "\"\xed\xa0\x80\"", `"é€😀"`,
	`"12345678\n12345678é1234567"`, `[]`, `[`, `[1,]`, `[,1]`, `[1 2]`, `[[],[[]],{}]`, `{}`, `{`, `{"a"}`, `{"a":}`,
	`{"a":1,}`, `{"a":1 "b":2}`, `{a:1}`, `{"a":1,"a":2}`, `{"a":{"b":[1,{"c":null}]},"\u0061":3}`, `[}`, `{]`, `1 2`, "\ufeff1",
	" \t\r\n[ 1 , { \"a\" : [ ] } ] ", "\v1", `[1]]`, "\x00",
}

// rebuild makes of a valid Raw, through its accessors, what encoding/json makes
// of it.
func rebuild(t *testing.T, r pdk.Raw) any {
	switch r.Kind() {
	case pdk.KindNull:
		return nil
	case pdk.KindBool:
		value, ok := r.Bool()
		if !ok {
			t.Errorf("%q.Bool() fails", r)
		}
		return value
	case pdk.KindNumber:
		checkNumber(t, r)
		return json.Number(strings.Trim(string(r), " \t\r\n"))
	case pdk.KindString:
		value, ok := r.Str()
		if !ok {
			t.Errorf("%q.Str() fails", r)
		}
		return value
	case pdk.KindArray:
		list := []any{}
		for element := range r.Elements() {
			list = append(list, rebuild(t, element))
		}
		return list
	case pdk.KindObject:
		object := map[string]any{}
		for name, member := range r.Members() {
			object[name] = rebuild(t, member)
		}
		return object
	}
	t.Errorf("%q has no kind", r)
	return nil
}

func checkNumber(t *testing.T, r pdk.Raw) {
	text := strings.Trim(string(r), " \t\r\n")
	got, ok := r.Int()
	if want, is := exactly(text); ok != is || is && got != want {
		t.Errorf("%q.Int() = %d, %t; math/big says %d, %t", r, got, ok, want, is)
	}
	if want, err := strconv.ParseFloat(text, 64); err == nil {
		if got, ok := r.Float(); !ok || got != want {
			t.Errorf("%q.Float() = %v, %t", r, got, ok)
		}
	}
}

// exactly returns a number as math/big reads it, if it is an integer of 64 bits. It
// does not ask for numbers that are as large as their exponents say.
func exactly(text string) (value int64, ok bool) {
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		if e, err := strconv.Atoi(text[i+1:]); err != nil || max(e, -e) > 10_000 {
			return 0, !strings.ContainsAny(text[:i], "123456789")
		}
	}
	n, ok := new(big.Rat).SetString(text)
	if !ok || !n.IsInt() || !n.Num().IsInt64() {
		return 0, false
	}
	return n.Num().Int64(), true
}

// FuzzRaw compares the reader with encoding/json: it accepts the same (of what
// is UTF-8) and finds the same values.
func FuzzRaw(f *testing.F) {
	for _, d := range documents {
		f.Add([]byte(d))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r := pdk.Raw(data)
		want := json.Valid(data) && utf8.Valid(data)
		if got := r.Valid(); got != want {
			t.Fatalf("Raw(%q).Valid() = %t, encoding/json says %t", data, got, want)
		}
		if !want {
			useAll(r)
			return
		}
		if got, want := rebuild(t, r), value(t, data); !reflect.DeepEqual(got, want) {
			t.Errorf("Raw(%q) = %#v, encoding/json says %#v", data, got, want)
		}
	})
}

// useAll calls every accessor on text that is not JSON: none may panic.
func useAll(r pdk.Raw) {
	r.Kind()
	r.Str()
	r.Int()
	r.Float()
	r.Bool()
	r.Get("a")
	for range r.Elements() {
	}
	for range r.Members() {
	}
	r.MapStrings(strings.ToUpper)
	pdk.RawPart(r)
}

func TestNestingIsBounded(t *testing.T) {
	for depth, want := range map[int]bool{1: true, 255: true, 256: true, 257: true, 10_000: true, 10_001: false} {
		for _, brackets := range [][2]string{{"[", "]"}, {`{"a":`, "}"}} {
			document := strings.Repeat(brackets[0], depth) + "0" + strings.Repeat(brackets[1], depth)
			if got := pdk.Raw(document).Valid(); got != want {
				t.Errorf("%d times %s: Valid() = %t, want %t", depth, brackets[0], got, want)
			}
		}
	}
}

// FuzzQuote compares the writer of strings with encoding/json.
func FuzzQuote(f *testing.F) {
	for _, d := range documents {
		f.Add(d)
	}
	f.Fuzz(func(t *testing.T, text string) {
		quoted := pdk.Quote(text)
		if !json.Valid([]byte(quoted)) || !utf8.ValidString(string(quoted)) {
			t.Fatalf("Quote(%q) = %q, which is not JSON", text, quoted)
		}
		var got, want string
		if err := json.Unmarshal([]byte(quoted), &got); err != nil {
			t.Fatal(err)
		}
		reference, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(reference, &want); err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("Quote(%q) says %q, want %q", text, got, want)
		}
	})
}

// FuzzMapStrings checks that mapping keeps JSON valid, touches strings alone and
// leaves the text as it is if nothing changes.
func FuzzMapStrings(f *testing.F) {
	for _, d := range documents {
		f.Add(d)
	}
	f.Fuzz(func(t *testing.T, document string) {
		r := pdk.Raw(document)
		if got := r.MapStrings(func(s string) string { return s }); got != r {
			t.Fatalf("nothing changed in %q, and yet it is %q", r, got)
		}
		if !r.Valid() {
			return
		}
		got := r.MapStrings(func(string) string { return "\"x\xff" })
		if !got.Valid() {
			t.Fatalf("MapStrings of %q is not JSON: %q", r, got)
		}
		if want := mapped(value(t, []byte(document))); !reflect.DeepEqual(value(t, []byte(got)), want) {
			t.Errorf("MapStrings of %q is %q", r, got)
		}
	})
}

func mapped(v any) any {
	switch v := v.(type) {
	case string:
		return "\"x\ufffd"
	case []any:
		for i := range v {
			v[i] = mapped(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = mapped(v[name])
		}
	}
	return v
}

// FuzzMessages checks that what is read is written again as the same value, once
// what the contract lets be left out is left out.
func FuzzMessages(f *testing.F) {
	f.Add([]byte("[" + history(1) + "]"))
	f.Add([]byte(`[{"role":"user","a":1,"parts":[{"b":2,"type":"text","text":"x","c":3,"d":[4]}],"e":5,"f":6}]`))
	f.Add([]byte(`[{"role":"tool","parts":[{"type":"tool_result","id":"c","name":"n","is_error":null},{"type":"q","type":"text"}]}]`))
	f.Add([]byte(`[{"a":1,"role":"user","b":2,"parts":[],"c":3}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		messages, err := pdk.ParseMessages(pdk.Raw(data))
		if err != nil {
			if code := pdk.CodeOf(err); code != pdk.InvalidArgument {
				t.Errorf("code %s", code)
			}
			return
		}
		var out []string
		for i := range messages {
			out = append(out, string(messages[i].Raw()))
		}
		written := "[" + strings.Join(out, ",") + "]"
		want := value(t, data)
		for _, m := range want.([]any) {
			normalize(m.(map[string]any))
		}
		if got := value(t, []byte(written)); !reflect.DeepEqual(got, want) {
			t.Errorf("%s\nis written as\n%s", data, written)
		}
		again, err := pdk.ParseMessages(pdk.Raw(written))
		if err != nil {
			t.Fatalf("what was written is refused: %v: %s", err, written)
		}
		for i := range again {
			if got := string(again[i].Raw()); got != out[i] {
				t.Errorf("%s is read and written as %s", out[i], got)
			}
		}
	})
}

// normalize leaves out of a message what says nothing, and adds what is always
// written.
func normalize(m map[string]any) {
	leaveOut(m, "", "id", "agent", "created_at")
	leaveOut(m, nil, "metadata")
	if m["parts"] == nil {
		m["parts"] = []any{}
	}
	for _, part := range m["parts"].([]any) {
		p := part.(map[string]any)
		switch p["type"] {
		case "text":
			fill(p, "", "text")
		case "reasoning":
			fill(p, "", "text")
			leaveOut(p, "", "signature")
		case "tool_call":
			fill(p, map[string]any{}, "arguments")
		case "tool_result":
			fill(p, nil, "content")
			leaveOut(p, nil, "is_error")
			leaveOut(p, false, "is_error")
		case "media":
			fill(p, "", "media_type")
			leaveOut(p, "", "url", "data")
		case "data":
			fill(p, nil, "value")
		}
	}
}

func leaveOut(object map[string]any, nothing any, names ...string) {
	for _, name := range names {
		if v, ok := object[name]; ok && v == nothing {
			delete(object, name)
		}
	}
}

func fill(object map[string]any, with any, name string) {
	if _, ok := object[name]; !ok {
		object[name] = with
	}
}

// FuzzCall feeds every export with anything: no input makes the kit panic, and
// what it answers is JSON.
func FuzzCall(f *testing.F) {
	for _, d := range documents {
		f.Add([]byte(d))
	}
	f.Add([]byte(`{"tool":"t","arguments":{"a":1},"resumed":[{"answer":1}]}`))
	f.Add([]byte(`{"processor":"p","messages":[` + history(1) + `]}`))
	f.Add([]byte(`{"processor":"o","outline":{"count":1,"roles":"a","bytes":[1],"chars":[1],"parts":[1],"tools":[[0,0,"call","c","f"]]}}`))
	f.Add([]byte(`{"router":"r","last":{"messages":[],"tool_results":[{"type":"x"}]},"agents":[{"name":"a"}]}`))
	f.Add([]byte(`{"provider":"v","messages":[],"error":{"code":"x"}}`))
	var p pdk.Plugin
	p.Tool("t", "", "", func(c *pdk.Call) error { c.Return(c.Arg("a")); return nil })
	p.Processor("p", func(c *pdk.Process) error { c.MapStrings(strings.ToUpper); return nil })
	p.OutlineProcessor("o", func(c *pdk.Process) error {
		for _, tool := range c.Outline().Tools {
			c.DropPart(tool.Message, tool.Part)
		}
		return nil
	})
	p.Router("r", func(r *pdk.Route) error {
		for _, a := range r.Agents {
			r.Next(a.Name)
		}
		return nil
	})
	p.Provider("v", func(c *pdk.Provide) error {
		for _, m := range c.Messages {
			c.Insert(m)
		}
		return nil
	})
	f.Fuzz(func(t *testing.T, input []byte) {
		for _, export := range []string{"tool", "process", "route", "provide", "observe"} {
			before := bytes.Clone(input)
			out, status := p.Call(export, input)
			if !json.Valid(out) || !utf8.Valid(out) {
				t.Errorf("%s(%q) = %q, which is not JSON", export, input, out)
			}
			if status != 0 && status != 1 {
				t.Errorf("%s(%q): status %d", export, input, status)
			}
			if !bytes.Equal(input, before) {
				t.Errorf("%s changed its input %q to %q", export, before, input)
			}
		}
	})
}

func TestWriter(t *testing.T) {
	var w pdk.Writer
	w.BeginObject().
		Key("a").BeginArray().Int(-1).Float(0.1).Float(math.Inf(1)).Float(math.NaN()).Bool(true).Bool(false).Null().EndArray().
		Key("b\n").BeginObject().EndObject().
		Key("c").Raw(`[1, 2 ]`).
		Key("d").Raw("").
		Key("e").Str("{[,:\"\\\x01\x7f\xff").
		EndObject()
	const want = `{"a":[-1,0.1,null,null,true,false,null],"b\n":{},"c":[1, 2 ],"d":null,"e":"{[,:\"\\\u0001` + "\x7f\ufffd" + `"}`
	if got := w.Value(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if w.Reset(); w.Value() != "" {
		t.Errorf("after Reset: %s", w.Value())
	}
}
