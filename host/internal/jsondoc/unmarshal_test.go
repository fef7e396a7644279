package jsondoc

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// Lists in outputs are bounded before they are read, so that no output keeps the
// host for seconds.
func TestListsAreBounded(t *testing.T) {
	repeat := func(item string, n int) string { return "[" + strings.Repeat(item+",", n-1) + item + "]" }
	type lists struct {
		Texts   []string
		Numbers []int
		Ops     []Op
		Structs []struct{ A, B string }
		Carried []byte
	}
	for name, row := range map[string]struct {
		json string
		ok   bool
	}{
		"texts":              {`{"texts":` + repeat(`""`, MaxListed) + `}`, true},
		"texts with commas":  {`{"texts":["` + strings.Repeat(`,\",`, MaxListed) + `"]}`, true},
		"too many texts":     {`{"texts":` + repeat(`""`, MaxListed+1) + `}`, false},
		"too many odd texts": {`{"texts":` + repeat(`"\",\\"`, MaxListed+1) + `}`, false},
		"too many numbers":   {`{"numbers":` + repeat(`1`, MaxListed+1) + `}`, false},
		"too many objects":   {`{"structs":` + repeat(`{}`, MaxListed+1) + `}`, false},
		"too many patches":   {`{"ops":` + repeat(`{"op":"remove","path":""}`, MaxListed+1) + `}`, false},
		"unknown fields":     {`{"other":` + repeat(`1`, 2*MaxListed) + `}`, true},
	} {
		var into lists
		err := Unmarshal([]byte(row.json), &into)
		if (err == nil) != row.ok || err != nil && !strings.Contains(err.Error(), "more than 50000 items") {
			t.Errorf("%s: %v, want ok %t", name, err, row.ok)
		}
	}
}

// FuzzUnmarshal holds Unmarshal to encoding/json: a document that Unmarshal accepts has
// the same values there, except for the case of names and a null.
func FuzzUnmarshal(f *testing.F) {
	for _, s := range []string{
		`{"op":"a","n":[1,2],"list":[{"op":"b"},{"n":null}],"any":{"x":[{}]}}`, ` { "\u006fp" : "\u0041" , "op":"last" } `, `{"list":null,"any":null}`,
		`{"list":[null]}`, `{"op":1}`, `[]`, `null`, `{"list":{}}`, `{"":1}`, `{"any":"]}\"["}`, `{"in":{"op":"x"}}`, `{"in":null}`, `{"list":[ {} , {} ]}`,
	} {
		f.Add(s)
	}
	type inner struct {
		Op string `json:"op"`
	}
	type outer struct {
		Op     string          `json:"op"`
		N      []int           `json:"n"`
		List   []inner         `json:"list"`
		Any    json.RawMessage `json:"any"`
		In     *inner          `json:"in"`
		hidden int
	}
	f.Fuzz(func(t *testing.T, s string) {
		var mine, theirs outer
		err := Unmarshal([]byte(s), &mine)
		if mine.hidden != 0 {
			t.Fatal("a field that is not exported was set")
		}
		if err != nil {
			return
		}
		if !json.Valid([]byte(s)) {
			t.Fatalf("%q was read, and is not JSON", s)
		}
		if foldsNames(s) {
			return
		}
		if err := json.Unmarshal([]byte(s), &theirs); err != nil {
			t.Fatalf("%q was read; encoding/json says %v", s, err)
		}
		if diff := cmp.Diff(theirs, mine, cmp.AllowUnexported(outer{}), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("%q (-encoding/json +ours):\n%s", s, diff)
		}
	})
}

// foldsNames reports whether a member's name differs from a field's by its case,
// or comes twice: there encoding/json does otherwise on purpose.
func foldsNames(s string) bool {
	d := json.NewDecoder(strings.NewReader(s))
	seen := 0
	for {
		token, err := d.Token()
		if err != nil {
			return false
		}
		name, ok := token.(string)
		if !ok {
			continue
		}
		for _, field := range []string{"op", "n", "list", "any", "in"} {
			if strings.EqualFold(name, field) {
				if name != field || seen > 0 && strings.Count(s, name) > 1 || strings.Contains(s, `\u`) {
					return true
				}
			}
		}
		seen++
	}
}

// FuzzReaders: every reader of the package accepts the same documents, and finds the
// same members, elements and values in them as encoding/json.
func FuzzReaders(f *testing.F) {
	for _, s := range []string{
		`{"a":[1,{"b":null}],"c":"\ud800","\u0061":2,"":{}}`, ` [ 1e400 , -0 , "\u0000" , 9007199254740993 ] `, `{"a":1,"a":{"a":2}}`,
		"\xff", `"\u12"`, `[]x`, `{"a" : "\\\"]}"}`, `nul`, ``, `[[[[]]]]`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		raw := []byte(s)
		doc, err := Decode(raw)
		if accepted := utf8.ValidString(s) && json.Valid(raw); (err == nil) != accepted || (Check(raw) == nil) != accepted {
			t.Fatalf("Decode(%q): %v, want accepted %t", s, err, accepted)
		}
		if _, _, strict := DecodeStrict(raw); err != nil && strict == nil {
			t.Fatalf("DecodeStrict accepts %q", s)
		}
		var carried struct{ Any json.RawMessage }
		if got := Unmarshal([]byte(`{"any":`+s+`,"any":`+s+`}`), &carried); err == nil && (got != nil || string(carried.Any) != strings.Trim(s, Space)) {
			t.Fatalf("Unmarshal carries %q as %q, %v", s, carried.Any, got)
		}
		if err != nil {
			return
		}
		d := json.NewDecoder(strings.NewReader(s))
		d.UseNumber()
		var want any
		if err := d.Decode(&want); err != nil || !identical(doc, want) {
			t.Fatalf("Decode(%q) = %v; encoding/json has %v, %v", s, doc, want, err)
		}
		if walked := walk(t, raw); !identical(walked, want) {
			t.Fatalf("the members and elements of %q are %v, want %v", s, walked, want)
		}
	})
}

// walk reads a document by EachMember and EachElement.
func walk(t *testing.T, raw []byte) any {
	t.Helper()
	members, list := map[string]any{}, []any{}
	if EachMember(raw, func(name string, value []byte) error { members[name] = walk(t, value); return nil }) == nil {
		return members
	}
	if EachElement(raw, func(i int, value []byte) error {
		if i != len(list) {
			t.Fatalf("element %d of %q comes after %d elements", i, raw, len(list))
		}
		list = append(list, walk(t, value))
		return nil
	}) == nil {
		if n := CountElements(raw); n != len(list) {
			t.Fatalf("%q has %d elements, CountElements says %d", raw, len(list), n)
		}
		return list
	}
	return DecodeValid(raw)
}

// A long document is read in pieces, and ends with the error of the code that it yields to.
func TestUnmarshalYieldsBetweenPieces(t *testing.T) {
	raw := []byte(`{"list":[` + strings.Repeat(`{"op":"a"},`, MaxListed-1) + `{}]}`)
	var into struct {
		List []struct{ Op string } `json:"list"`
	}
	pieces := 0
	if err := UnmarshalInPieces(raw, &into, func() error { pieces++; return nil }); err != nil || pieces < len(raw)/pieceBytes {
		t.Errorf("%d bytes: %d pieces, %v; want a piece for each %d bytes", len(raw), pieces, err, pieceBytes)
	}
	late := errors.New("late")
	if err := UnmarshalInPieces(raw, &into, func() error {
		if pieces--; pieces > 1 {
			return nil
		}
		return late
	}); !errors.Is(err, late) {
		t.Errorf("after an error of yield: %v, want it", err)
	}
}
