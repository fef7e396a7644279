package statedoc_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
	"github.com/agenthost/agenthost/host/internal/statedoc"
)

const testLimit = 256 << 10

// newView returns a view of a Go value's JSON.
func newView(value any, limit int) (*statedoc.View, error) {
	raw, err := statedoc.JSONOf(value)
	if err != nil {
		return nil, err
	}
	members, err := statedoc.Members(raw)
	if err != nil {
		return nil, err
	}
	return statedoc.New(members, limit, nil)
}

func mustView(t interface{ Fatalf(string, ...any) }, doc string) *statedoc.View {
	v, err := newView(json.RawMessage(doc), testLimit)
	if err != nil {
		t.Fatalf("New(%s): %v", doc, err)
	}
	return v
}

func jsonOf(v *statedoc.View) string {
	raw, _ := v.Snapshot()
	return string(raw)
}

func decodePatch(raw string) ([]jsondoc.Op, error) {
	var ops []jsondoc.Op
	err := json.Unmarshal([]byte(raw), &ops)
	return ops, err
}

// patch applies a patch given as JSON; an error of reading it counts as one of
// applying it.
func patch(s *statedoc.View, raw string) error {
	ops, err := decodePatch(raw)
	if err != nil {
		return err
	}
	return s.Patch(ops)
}

// The examples of RFC 6902, appendix A, and what it leaves between the lines. An
// empty want is an error, with that code.
func TestPatch(t *testing.T) {
	for _, c := range []struct {
		name, doc, patch, want string
		code                   fault.Code
	}{
		{"A.1 adds a member", `{"foo":"bar"}`, `[{"op":"add","path":"/baz","value":"qux"}]`, `{"baz":"qux","foo":"bar"}`, ""},
		{"A.2 adds an element", `{"foo":["bar","baz"]}`, `[{"op":"add","path":"/foo/1","value":"qux"}]`, `{"foo":["bar","qux","baz"]}`, ""},
		{"A.3 removes a member", `{"baz":"qux","foo":"bar"}`, `[{"op":"remove","path":"/baz"}]`, `{"foo":"bar"}`, ""},
		{"A.4 removes an element", `{"foo":["bar","qux","baz"]}`, `[{"op":"remove","path":"/foo/1"}]`, `{"foo":["bar","baz"]}`, ""},
		{"A.5 replaces a value", `{"baz":"qux","foo":"bar"}`, `[{"op":"replace","path":"/baz","value":"boo"}]`, `{"baz":"boo","foo":"bar"}`, ""},
		{"A.6 moves a value", `{"foo":{"bar":"baz","waldo":"fred"},"qux":{"corge":"grault"}}`, `[{"op":"move","from":"/foo/waldo","path":"/qux/thud"}]`,
			`{"foo":{"bar":"baz"},"qux":{"corge":"grault","thud":"fred"}}`, ""},
		{"A.7 moves an element", `{"foo":["all","grass","cows","eat"]}`, `[{"op":"move","from":"/foo/1","path":"/foo/3"}]`, `{"foo":["all","cows","eat","grass"]}`, ""},
		{"A.8 tests with success", `{"baz":"qux","foo":["a",2,"c"]}`, `[{"op":"test","path":"/baz","value":"qux"},{"op":"test","path":"/foo/1","value":2}]`, `{"baz":"qux","foo":["a",2,"c"]}`, ""},
		{"A.9 tests with error", `{"baz":"qux"}`, `[{"op":"test","path":"/baz","value":"bar"}]`, "", fault.Conflict},
		{"A.10 adds a nested object", `{"foo":"bar"}`, `[{"op":"add","path":"/child","value":{"grandchild":{}}}]`, `{"child":{"grandchild":{}},"foo":"bar"}`, ""},
		{"A.11 ignores unknown members", `{"foo":"bar"}`, `[{"op":"add","path":"/baz","value":"qux","xyz":123}]`, `{"baz":"qux","foo":"bar"}`, ""},
		{"A.12 does not add to what is not there", `{"foo":"bar"}`, `[{"op":"add","path":"/baz/bat","value":"qux"}]`, "", fault.InvalidArgument},
		{"A.13 refuses two ops in one", `{"foo":"bar"}`, `[{"op":"add","path":"/baz","value":"qux","op":"remove"}]`, "", fault.InvalidArgument},
		{"A.14 reads escapes in order", `{"/":9,"~1":10}`, `[{"op":"test","path":"/~01","value":10}]`, `{"/":9,"~1":10}`, ""},
		{"A.15 tells strings from numbers", `{"/":9,"~1":10}`, `[{"op":"test","path":"/~01","value":"10"}]`, "", fault.Conflict},
		{"A.16 adds an array", `{"foo":["bar"]}`, `[{"op":"add","path":"/foo/-","value":["abc","def"]}]`, `{"foo":["bar",["abc","def"]]}`, ""},

		{"replaces the whole", `{"a":1}`, `[{"op":"replace","path":"","value":{"b":2}}]`, `{"b":2}`, ""},
		{"adds the whole", `{"a":1}`, `[{"op":"add","path":"","value":{"b":2}}]`, `{"b":2}`, ""},
		{"does not make the whole something else", `{"a":1}`, `[{"op":"replace","path":"","value":[]}]`, "", fault.InvalidArgument},
		{"does not remove the whole", `{"a":1}`, `[{"op":"remove","path":""}]`, "", fault.InvalidArgument},
		{"moves a part to the top", `{"a":{"b":1}}`, `[{"op":"move","from":"/a","path":""}]`, `{"b":1}`, ""},
		{"copies the whole into a part", `{"a":1}`, `[{"op":"copy","from":"","path":"/b"}]`, `{"a":1,"b":{"a":1}}`, ""},
		{"does not move a value into itself", `{"a":{"b":1}}`, `[{"op":"move","from":"/a","path":"/a/b/c"}]`, "", fault.InvalidArgument},
		{"moves to a name that begins alike", `{"a":1}`, `[{"op":"move","from":"/a","path":"/ab"}]`, `{"ab":1}`, ""},
		{"moves a value to where it is", `{"a":1}`, `[{"op":"move","from":"/a","path":"/a"}]`, `{"a":1}`, ""},
		{"does not move what is not there to itself", `{"a":1}`, `[{"op":"move","from":"/b","path":"/b"}]`, "", fault.InvalidArgument},
		{"takes the empty name", `{"":{"":1}}`, `[{"op":"replace","path":"//","value":2},{"op":"add","path":"/","value":{"x":1}},{"op":"copy","from":"/","path":"/y"}]`, `{"":{"x":1},"y":{"x":1}}`, ""},
		{"removes the empty name", `{"":1,"a":2}`, `[{"op":"remove","path":"/"}]`, `{"a":2}`, ""},
		{"keeps big integers", `{"n":9007199254740993}`, `[{"op":"copy","from":"/n","path":"/m"},{"op":"test","path":"/m","value":9007199254740993}]`, `{"m":9007199254740993,"n":9007199254740993}`, ""},
		{"tells big integers apart", `{"n":9007199254740993}`, `[{"op":"test","path":"/n","value":9007199254740992}]`, "", fault.Conflict},
		{"tells big decimals apart", `{"n":9007199254740993}`, `[{"op":"test","path":"/n","value":9007199254740992.0}]`, "", fault.Conflict},
		{"compares numbers by value", `{"n":[100,1.50,0,1e400]}`, `[{"op":"test","path":"/n","value":[1E2,15e-1,-0.0,10e399]}]`, `{"n":[100,1.50,0,1e400]}`, ""},
		{"compares objects without order", `{"o":{"a":1,"b":[]}}`, `[{"op":"test","path":"/o","value":{"b":[],"a":1}}]`, `{"o":{"a":1,"b":[]}}`, ""},
		{"adds null", `{}`, `[{"op":"add","path":"/a","value":null}]`, `{"a":null}`, ""},
		{"tests null", `{"a":null}`, `[{"op":"test","path":"/a","value":null}]`, `{"a":null}`, ""},
		{"a test of what is not there fails", `{}`, `[{"op":"test","path":"/a","value":null}]`, "", fault.Conflict},
		{"does not replace what is not there", `{}`, `[{"op":"replace","path":"/a","value":1}]`, "", fault.InvalidArgument},
		{"does not remove what is not there", `{}`, `[{"op":"remove","path":"/a"}]`, "", fault.InvalidArgument},
		{"does not remove the end of an array", `{"a":[1]}`, `[{"op":"remove","path":"/a/-"}]`, "", fault.InvalidArgument},
		{"refuses a leading zero", `{"a":[1,2]}`, `[{"op":"remove","path":"/a/01"}]`, "", fault.InvalidArgument},
		{"refuses a sign", `{"a":[1,2]}`, `[{"op":"remove","path":"/a/+1"}]`, "", fault.InvalidArgument},
		{"refuses a negative index", `{"a":[1,2]}`, `[{"op":"remove","path":"/a/-1"}]`, "", fault.InvalidArgument},
		{"refuses an index past the end", `{"a":[1]}`, `[{"op":"add","path":"/a/2","value":1}]`, "", fault.InvalidArgument},
		{"refuses a huge index", `{"a":[1]}`, `[{"op":"add","path":"/a/99999999999999999999","value":1}]`, "", fault.InvalidArgument},
		{"refuses a pointer without a slash", `{"a":1}`, `[{"op":"remove","path":"a"}]`, "", fault.InvalidArgument},
		{"refuses a bad escape", `{"a":1}`, `[{"op":"add","path":"/~2","value":1}]`, "", fault.InvalidArgument},
		{"refuses a lone tilde", `{"a":1}`, `[{"op":"add","path":"/a~","value":1}]`, "", fault.InvalidArgument},
		{"refuses a member of a number", `{"a":1}`, `[{"op":"add","path":"/a/b","value":1}]`, "", fault.InvalidArgument},
		{"refuses an unknown op", `{"a":1}`, `[{"op":"merge","path":"/a","value":1}]`, "", fault.InvalidArgument},
		{"refuses an op without a path", `{"a":1}`, `[{"op":"remove"}]`, "", fault.InvalidArgument},
		{"refuses a copy without from", `{"a":1}`, `[{"op":"copy","path":"/b"}]`, "", fault.InvalidArgument},
		{"refuses an add without a value", `{"a":1}`, `[{"op":"add","path":"/b"}]`, "", fault.InvalidArgument},
		{"refuses a path that is null", `{"a":1}`, `[{"op":"remove","path":null}]`, "", fault.InvalidArgument},
		{"is all or nothing", `{"a":1}`, `[{"op":"replace","path":"/a","value":2},{"op":"remove","path":"/b"}]`, "", fault.InvalidArgument},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := mustView(t, c.doc)
			before := jsonOf(s)
			err := patch(s, c.patch)
			if fault.CodeOf(err) != c.code {
				t.Fatalf("patch %s: %v (code %q); want code %q", c.patch, err, fault.CodeOf(err), c.code)
			}
			want := c.want
			if want == "" {
				want = before
			}
			if got := jsonOf(s); got != want {
				t.Errorf("patch %s of %s gives %s, want %s", c.patch, c.doc, got, want)
			}
		})
	}
}

// JSON has no name that is not UTF-8: what was put there could not be written.
func TestPathsThatAreNotUTF8AreRefused(t *testing.T) {
	s := mustView(t, `{"a":{}}`)
	for _, path := range []string{"/\xff", "/a/\xc3"} {
		if err := s.Set(path, 1); fault.CodeOf(err) != fault.InvalidArgument {
			t.Errorf("Set(%q) = %v, want code %s", path, err, fault.InvalidArgument)
		}
	}
	if got := jsonOf(s); got != `{"a":{}}` {
		t.Errorf("the state is %s", got)
	}
}

func TestPatchOpsSurviveTheirEncoding(t *testing.T) {
	for _, raw := range []string{
		`{"op":"add","path":"/a","value":null}`, `{"op":"copy","path":"/a","from":""}`, `{"op":"move","path":"","from":"/a"}`,
		`{"op":"remove","path":""}`, `{"op":"test","path":"/~0~1","value":{"a":9007199254740993}}`,
	} {
		var op jsondoc.Op
		if err := json.Unmarshal([]byte(raw), &op); err != nil {
			t.Errorf("Unmarshal(%s): %v", raw, err)
			continue
		}
		if got, err := json.Marshal(op); err != nil || string(got) != raw {
			t.Errorf("%s comes back as %s, %v", raw, got, err)
		}
	}
}

// A patch of a few kilobytes must not keep the host busy, fill its memory or
// nest a document until a stack ends: each ends at a limit, and not by itself.
func TestHostilePatchesEndSoon(t *testing.T) {
	repeat := func(n int, ops ...string) string {
		return "[" + strings.Repeat(strings.Join(ops, ",")+",", n-1) + strings.Join(ops, ",") + "]"
	}
	big := `{"a":[` + strings.Repeat("0,", 50_000) + `0],"b":{}}`
	deep := strings.Repeat(`{"x":`, 100) + "0" + strings.Repeat("}", 100)
	for name, c := range map[string]struct {
		doc, patch string
		code       fault.Code
	}{
		"copies that double":     {`{"a":[1]}`, repeat(60, `{"op":"copy","from":"","path":"/a/-"}`), fault.ResourceExhausted},
		"moves of a large value": {big, repeat(5000, `{"op":"move","from":"/a","path":"/b/c"}`, `{"op":"move","from":"/b/c","path":"/a"}`), fault.ResourceExhausted},
		"inserts at the front":   {big, repeat(9000, `{"op":"add","path":"/a/0","value":0}`), fault.ResourceExhausted},
		"removes at the front":   {big, repeat(9000, `{"op":"remove","path":"/a/0"}`), fault.ResourceExhausted},
		"moves that nest": {`{"a":1}`, repeat(1000, `{"op":"add","path":"/b","value":`+deep+`}`,
			`{"op":"move","from":"/a","path":"/b`+strings.Repeat("/x", 100)+`"}`, `{"op":"move","from":"/b","path":"/a"}`), fault.ResourceExhausted},
		"more than 10,000 ops":  {`{"a":1}`, repeat(10_001, `{"op":"test","path":"/a","value":1}`), fault.ResourceExhausted},
		"a pointer 129 deep":    {`{"a":1}`, `[{"op":"remove","path":"` + strings.Repeat("/a", 129) + `"}]`, fault.InvalidArgument},
		"a value nested deeply": {`{}`, `[{"op":"add","path":"/a","value":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}]`, fault.ResourceExhausted},
		"a value too large":     {`{}`, `[{"op":"add","path":"/a","value":"` + strings.Repeat("x", testLimit) + `"}]`, fault.ResourceExhausted},
	} {
		t.Run(name, func(t *testing.T) {
			s := mustView(t, c.doc)
			before := jsonOf(s)
			err := patch(s, c.patch)
			if fault.CodeOf(err) != c.code {
				t.Errorf("patch ends with %.200v (code %q), want code %s", err, fault.CodeOf(err), c.code)
			}
			if jsonOf(s) != before {
				t.Error("a patch that failed changed the state")
			}
		})
	}
}

// anyDocument draws JSON objects with awkward names, small and not deep.
func anyDocument() *rapid.Generator[map[string]any] {
	name := rapid.SampledFrom([]string{"", "a", "b", "~", "/", "~1", "é", "0", "-", `"`})
	leaf := rapid.OneOf(
		rapid.Just[any](nil), rapid.Map(rapid.Bool(), anyOf[bool]), rapid.Map(rapid.String(), anyOf[string]),
		rapid.Map(rapid.SampledFrom([]string{"0", "-1", "9007199254740993", "1.5", "1e3", "18446744073709551616"}), func(s string) any { return json.Number(s) }))
	object := func(of *rapid.Generator[any]) *rapid.Generator[map[string]any] { return rapid.MapOfN(name, of, 0, 4) }
	value := leaf
	for range 3 {
		inner := value
		value = rapid.OneOf(leaf, rapid.Map(object(inner), anyOf[map[string]any]), rapid.Map(rapid.SliceOfN(inner, 0, 3), anyOf[[]any]))
	}
	return object(value)
}

func anyOf[T any](v T) any { return v }

func TestUpdateWritesExactlyTheDifference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before := anyDocument().Draw(t, "before")
		after := anyDocument().Draw(t, "after")
		s, err := newView(before, testLimit)
		if err != nil {
			t.Fatal(err)
		}
		if err := statedoc.Update(s, func(doc *any) error { *doc = after; return nil }); err != nil {
			t.Fatalf("from %v to %v: %v", before, after, err)
		}
		want, err := newView(after, testLimit)
		if err != nil {
			t.Fatal(err)
		}
		if !sameJSON(t, s.Peek(), want.Peek()) {
			t.Errorf("from %v the update to %v gives %s", before, after, jsonOf(s))
		}
	})
}

// sameJSON compares with numbers as any reads them: 1e3 and 1000 are the same.
func sameJSON(t interface{ Fatal(...any) }, a, b []byte) bool {
	var x, y any
	if err := json.Unmarshal(a, &x); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &y); err != nil {
		t.Fatal(err)
	}
	return reflect.DeepEqual(x, y)
}

// FuzzPatch: whatever is applied to a state either fails, and changes nothing,
// or leaves an object within its limit that can be read again.
func FuzzPatch(f *testing.F) {
	for _, seed := range []string{
		`[{"op":"add","path":"/a/-","value":{"b":[1,2]}},{"op":"move","from":"/a","path":"/b"}]`,
		`[{"op":"copy","from":"","path":"/a/0"},{"op":"remove","path":"/c~1d"},{"op":"test","path":"/","value":1}]`,
		`[{"op":"replace","path":"","value":{}},{"op":"add","path":"/","value":1e5}]`,
	} {
		f.Add([]byte(`{"a":[1,{"":2}],"":1,"c/d":9007199254740993}`), []byte(seed))
	}
	const limit = 4 << 10
	f.Fuzz(func(t *testing.T, doc, raw []byte) {
		s, err := newView(json.RawMessage(doc), limit)
		if err != nil {
			return
		}
		before := jsonOf(s)
		ops, err := decodePatch(string(raw))
		if err != nil {
			return
		}
		switch err := s.Patch(ops); {
		case err != nil && jsonOf(s) != before:
			t.Errorf("patch %q failed (%v) and changed %s to %s", raw, err, before, jsonOf(s))
		case err != nil && fault.CodeOf(err) == fault.Internal:
			t.Errorf("patch %q: %v has no code", raw, err)
		case err == nil:
			checkState(t, s, limit)
		}
	})
}

func checkState(t *testing.T, s *statedoc.View, limit int) {
	t.Helper()
	raw := s.Peek()
	if len(raw) > limit {
		t.Errorf("the state has %d bytes, more than %d", len(raw), limit)
	}
	again, err := newView(raw, limit)
	if err != nil {
		t.Fatalf("the state %q cannot be read again: %v", raw, err)
	}
	if jsonOf(again) != string(raw) {
		t.Errorf("the state %s comes back as %s", raw, jsonOf(again))
	}
}
