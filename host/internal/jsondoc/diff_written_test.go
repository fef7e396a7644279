package jsondoc

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// What was read is compared as it is written, and from outside nobody can tell.
// So it is held here to what the decoded documents say.

// writtenJSON draws a value as somebody else may write it: with spaces, escapes,
// members in any order and twice.
func writtenJSON(depth int) *rapid.Generator[string] {
	scalar := rapid.SampledFrom([]string{"null", "true", "false", "0", "1", "12", "1.0", "-0", "1e2", "100", "9007199254740993", "9007199254740992",
		`""`, `"a"`, `"\u0061"`, `"\b\n\"\\"`, `"\ud800"`, `"é,]}"`, `"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"`})
	if depth == 0 {
		return scalar
	}
	name := rapid.SampledFrom([]string{`""`, `"a"`, `"\u0061"`, `"b"`, `"c"`, `"a/b"`, `"~1"`, `"0"`, `"\"]"`, `"é"`})
	separator := rapid.SampledFrom([]string{",", ",", ",", " ,\n"})
	list := func(open, end string, parts *rapid.Generator[string]) *rapid.Generator[string] {
		return rapid.Custom(func(t *rapid.T) string {
			return open + strings.Join(rapid.SliceOfN(parts, 0, 6).Draw(t, "parts"), separator.Draw(t, "separator")) + end
		})
	}
	member := rapid.Custom(func(t *rapid.T) string {
		return name.Draw(t, "name") + rapid.SampledFrom([]string{":", ":", ": "}).Draw(t, "colon") + writtenJSON(depth-1).Draw(t, "value")
	})
	return rapid.OneOf(scalar, list("[", "]", writtenJSON(depth-1)), list("{", "}", member), list("{ ", " }", member))
}

// edited draws what a value becomes, most often by a small change of how it is
// written.
func edited(t *rapid.T, raw string) string {
	if rapid.IntRange(0, 4).Draw(t, "anew") == 0 {
		return writtenJSON(3).Draw(t, "after")
	}
	for range rapid.IntRange(1, 3).Draw(t, "edits") {
		at := rapid.IntRange(0, len(raw)).Draw(t, "at")
		with := rapid.SampledFrom([]string{"1", "1,", `,1`, `"b":2,`, `,"a":3`, "{}", " ", "", "null", "0"}).Draw(t, "with")
		end := min(len(raw), at+rapid.IntRange(0, 4).Draw(t, "gone"))
		if s := raw[:at] + with + raw[end:]; Check([]byte(s)) == nil {
			raw = s
		}
	}
	return raw
}

func TestWhatWasReadIsComparedAsItIsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before := writtenJSON(3).Draw(t, "before")
		checkDiff(t, before, edited(t, before))
	})
}

// FuzzDiff: the difference of any two documents leads from one to the other,
// however they are written.
func FuzzDiff(f *testing.F) {
	f.Add(`{"a":[1,{"b":null}],"c":1}`, `{"a":[12,{"b":null}],"c":1}`)
	f.Add(`{"a":1,"b":2,"a":3}`, `{"a":1,"b":2,"c":3}`)
	f.Add(`[1,1]`, `[1,1,1]`)
	f.Add(`{ "n" : 9007199254740993}`, `{"n":9007199254740992, "\u006e":-0}`)
	f.Fuzz(func(t *testing.T, before, after string) { checkDiff(t, before, after) })
}

func checkDiff(t interface {
	Helper()
	Fatalf(string, ...any)
}, before, after string) {
	t.Helper()
	from, err := Read(json.RawMessage(before))
	if err != nil {
		return
	}
	to, err := Read(json.RawMessage(after))
	if err != nil {
		return
	}
	ops := from.Diff(to)
	got, err := from.Patch(ops)
	if err != nil || !identical(got.tree(), to.tree()) {
		t.Fatalf("%+v leads from %s to %v, %v; want %s", ops, before, got, err, after)
	}
	if from.JSON(); string(got.JSON()) != string(Encode(to.tree())) {
		t.Fatalf("%s is written as %s, after %s", after, got.JSON(), from.JSON())
	}
	if canonical(from, before) && canonical(to, after) {
		if want := from.Diff(to); describe(ops) != describe(want) {
			t.Fatalf("from %s to %s as they are written %s, decoded %s", before, after, describe(ops), describe(want))
		}
	}
}

// canonical reports whether a document was read as we write it.
func canonical(d *Document, raw string) bool { return string(d.JSON()) == raw }

func describe(ops []Op) string {
	raw, err := json.Marshal(ops)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

func TestDiffOfLongObjectsDecodesNothing(t *testing.T) {
	var members []string
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		members = append(members, `"`+name+`":{"n":1,"text":"`+strings.Repeat("x", 1000)+`"}`)
	}
	before := "{" + strings.Join(members, ",") + "}"
	from, _ := Read(json.RawMessage(before))
	to, _ := Read(json.RawMessage(strings.Replace(before, `"n":1`, `"n":2`, 3)))
	if ops := from.Diff(to); len(ops) != 3 || from.decoded.Load() != nil || to.decoded.Load() != nil {
		t.Errorf("the difference is %s", describe(ops))
	}
}

// The operations of a typed update lead where a merge of the decoded documents does.
func TestTypedUpdatesAreComparedAsTheyAreWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole := writtenJSON(3).Draw(t, "document")
		known := edited(t, whole)
		checkDiffTyped(t, whole, known, edited(t, known))
	})
}

// FuzzDiffTyped: a typed update makes its changes in any document and no others.
func FuzzDiffTyped(f *testing.F) {
	f.Add(`{"a":{"b":1,"unknown":2},"c":[1,2]}`, `{"a":{"b":1},"c":[1,2],"n":0}`, `{"a":{"b":2},"c":[1,2,3],"n":1}`)
	f.Add(`{"c":[{"a":1,"unknown":2}]}`, `{"c":[{"a":1}]}`, `{"c":[{"a":2}]}`)
	f.Add(`{"a":1}`, `{"a":{"b":1},"a":{"c":1}}`, `{"a":{"b":2}}`)
	f.Fuzz(func(t *testing.T, doc, before, after string) {
		for _, raw := range []string{doc, before, after} {
			if _, err := Read(json.RawMessage(raw)); err != nil || WrittenDepth([]byte(raw)) > maxPointerDepth {
				return // no patch reaches deeper values
			}
		}
		checkDiffTyped(t, doc, before, after)
	})
}

func checkDiffTyped(t interface {
	Helper()
	Fatalf(string, ...any)
}, whole, known, changed string) {
	t.Helper()
	doc, before, after := DecodeValid([]byte(whole)), DecodeValid([]byte(known)), DecodeValid([]byte(changed))
	ops, err := DiffTyped(doc, []byte(strings.Trim(known, Space)), []byte(strings.Trim(changed, Space)))
	if err != nil {
		t.Fatalf("DiffTyped: %v", err)
	}
	want := merged(Optional{doc, true}, Optional{before, true}, Optional{after, true}).Value
	got, _, err := ApplyTo(doc, ops)
	if err != nil || !identical(got, want) {
		t.Fatalf("%s known as %s and changed to %s becomes %s, %v by %s; want %s", whole, known, changed,
			Encode(got), err, describe(ops), Encode(want))
	}
}

// merged returns a document with the changes from before to after: objects by member,
// other values as a whole.
func merged(doc, before, after Optional) Optional {
	if before.Present == after.Present && identical(before.Value, after.Value) {
		return doc
	}
	if !isObject(doc.Value) || !isObject(before.Value) || !isObject(after.Value) {
		return after
	}
	out := map[string]any{}
	for _, members := range []any{doc.Value, before.Value, after.Value} {
		for name := range members.(map[string]any) {
			if m := merged(doc.Member(name), before.Member(name), after.Member(name)); m.Present {
				out[name] = m.Value
			}
		}
	}
	return Optional{out, true}
}
