package jsondoc_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

func decode(t interface{ Fatalf(string, ...any) }, raw string) *jsondoc.Document {
	d, err := jsondoc.Read(json.RawMessage(raw))
	if err != nil {
		t.Fatalf("ReadDocument(%.200s): %v", raw, err)
	}
	return d
}

func TestDiff(t *testing.T) {
	long := strings.Repeat("x", 300)
	for _, c := range []struct{ name, before, after, want string }{
		{"nothing for the same", `{"a":[1,{"b":null}]}`, `{ "a":[1,{"b":null}]}`, `null`},
		{"by element, from the end", `{"list":[1,2,3],"x":"` + long + `"}`, `{"list":[1,9],"x":"` + long + `"}`,
			`[{"op":"replace","path":"/list/1","value":9},{"op":"remove","path":"/list/2"}]`},
		{"names with slashes and tildes", `{"k/~":1}`, `{"k/~":2}`, `[{"op":"replace","path":"/k~1~0","value":2}]`},
		{"the empty name", `{"":1}`, `{"":2}`, `[{"op":"replace","path":"/","value":2}]`},
		{"integers that no float has", `{"n":9007199254740992}`, `{"n":9007199254740993}`, `[{"op":"replace","path":"/n","value":9007199254740993}]`},
		{"numbers that are written otherwise", `{"n":1}`, `{"n":1.0}`, `[{"op":"replace","path":"/n","value":1.0}]`},
		{"what is appended", `{"a":[1,2]}`, `{"a":[1,2,3]}`, `[{"op":"add","path":"/a/-","value":3}]`},
		{"what is put in front", `{"a":[1,2]}`, `{"a":[0,1,2]}`, `[{"op":"add","path":"/a/0","value":0}]`},
		{"what is taken from the middle", `{"a":[1,2,3]}`, `{"a":[1,3]}`, `[{"op":"remove","path":"/a/1"}]`},
		{"another type at the root", `{"a":1}`, `[1]`, `[{"op":"replace","path":"","value":[1]}]`},
		{"another type below", `{"a":{},"b":1}`, `{"a":[],"b":1}`, `[{"op":"replace","path":"/a","value":[]}]`},
		{"null is not nothing", `{"a":null}`, `{}`, `[{"op":"remove","path":"/a"}]`},
		{"the whole where that is far shorter", `{"a":{"b":1,"c":2,"d":3,"e":4},"x":"` + long + `"}`, `{"a":{},"x":"` + long + `"}`, `[{"op":"replace","path":"/a","value":{}}]`},
	} {
		ops := decode(t, c.before).Diff(decode(t, c.after))
		got, err := json.Marshal(ops)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %s to %s is %s, %v; want %s", c.name, c.before, c.after, got, err, c.want)
		}
	}
}

// randomJSON draws a value, with the names and numbers that get lost elsewhere.
func randomJSON(depth int) *rapid.Generator[string] {
	scalar := rapid.SampledFrom([]string{"null", "true", "0", "1", "1.0", "-0", "9007199254740993", "1e400", `""`, `"é\n\"\u0001"`, `"\ud800"`, `"aaaaaaaaaaaaaaaaaaaaaaaa"`})
	if depth == 0 {
		return scalar
	}
	name := rapid.SampledFrom([]string{"", "a", "b", "c", "a/b", "~", "~1", "-", "0", "é\n"})
	return rapid.OneOf(scalar, rapid.Custom(func(t *rapid.T) string {
		return "[" + strings.Join(rapid.SliceOfN(randomJSON(depth-1), 0, 5).Draw(t, "array"), ",") + "]"
	}), rapid.Custom(func(t *rapid.T) string {
		var members []string
		for k, v := range rapid.MapOfN(name, randomJSON(depth-1), 0, 5).Draw(t, "object") {
			members = append(members, string(jsondoc.AppendString(nil, k))+":"+v)
		}
		return "{" + strings.Join(members, ",") + "}"
	}))
}

func TestADiffLeadsThere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before, after := decode(t, randomJSON(3).Draw(t, "before")), decode(t, randomJSON(3).Draw(t, "after"))
		was := string(before.JSON())
		ops := before.Diff(after)
		sent, err := json.Marshal(ops)
		if err != nil {
			t.Fatal(err)
		}
		var received []jsondoc.Op
		if err := json.Unmarshal(sent, &received); err != nil {
			t.Fatal(err)
		}
		got, err := before.Patch(received)
		if err != nil || !got.Equal(after) || string(got.JSON()) != string(after.JSON()) {
			t.Fatalf("%s leads from %s to %v, %v; want %s", sent, before.JSON(), got, err, after.JSON())
		}
		if len(before.Diff(after)) > 0 && before.Equal(after) || string(before.JSON()) != was {
			t.Fatalf("the documents have changed")
		}
		if got.Size() != len(got.JSON()) {
			t.Fatalf("Size = %d, want %d", got.Size(), len(got.JSON()))
		}
		if whole := len(after.JSON()) + 72; len(sent) > 2*whole {
			t.Fatalf("the patch %s is longer than %s", sent, after.JSON())
		}
	})
}

// A diff must be one that can be applied, however long and deep things are.
func TestADiffKeepsToTheBoundsOfAPatch(t *testing.T) {
	list := func(n int, first string) string {
		return `{"a":[` + first + strings.Repeat(`{"x":1},`, n) + `0]}`
	}
	nest := func(leaf string) string { return strings.Repeat(`{"a":`, 500) + leaf + strings.Repeat("}", 500) }
	numbers := func(from int) string {
		var b strings.Builder
		for i := range 30_000 {
			fmt.Fprintf(&b, `[%d,"%060d"],`, i+from, i)
		}
		return "[" + b.String() + "0]"
	}
	for name, c := range map[string][2]string{
		"many elements in front": {list(50_000, ""), list(50_000, strings.Repeat(`"y",`, 5000))},
		"many that are gone":     {list(50_000, strings.Repeat(`"y",`, 5000)), list(50_000, "")},
		"deep":                   {nest("1"), nest(`"other"`)},
		"many that changed":      {numbers(0), numbers(1)},
	} {
		before, after := decode(t, c[0]), decode(t, c[1])
		got, err := before.Patch(before.Diff(after))
		if err != nil || !got.Equal(after) {
			t.Errorf("%s: the diff cannot be applied: %v", name, err)
		}
	}
}

func TestWithout(t *testing.T) {
	d := decode(t, `{"a":{"secret":1,"b":2},"list":[{"s":1},{"s":2}],"":{"/":1}}`)
	got := d.Without("/a/secret", "/list/0/s", "/list/1", "/list/9", "/nothing/here", "//~1", "x", "")
	if want := `{"":{},"a":{"b":2},"list":[{},null]}`; string(got.JSON()) != want {
		t.Errorf("Without leaves %s, want %s", got.JSON(), want)
	}
	if want := `{"":{"/":1},"a":{"b":2,"secret":1},"list":[{"s":1},{"s":2}]}`; string(d.JSON()) != want {
		t.Errorf("the document is now %s", d.JSON())
	}
}

func TestDocumentsAreRead(t *testing.T) {
	deep := strings.Repeat("[", 513) + strings.Repeat("]", 513)
	for _, raw := range []string{"", "{", `{"a":1}x`, "\xff", deep} {
		if _, err := jsondoc.Read(json.RawMessage(raw)); fault.CodeOf(err) != fault.InvalidArgument {
			t.Errorf("ReadDocument(%.20q) = %v, want invalid_argument", raw, err)
		}
	}
}
