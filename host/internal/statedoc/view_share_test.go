package statedoc_test

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

// A patch shares with the document before what it does not touch. So whatever
// patches came before, and however they failed, a state is what a fresh one of the
// same JSON is.
func TestPatchesLeaveEarlierDocumentsAlone(t *testing.T) {
	pointer := rapid.SampledFrom([]string{"", "/o", "/o/a", "/o/a/l", "/o/a/l/0", "/o/a/l/-", "/o/b", "/l", "/l/0", "/l/1", "/l/-", "/l/0/0", "/l/0/-", "/x", "/x/y", "/x/0"})
	value := rapid.SampledFrom([]string{"1", "[]", "{}", "[1,2]", `{"y":[3]}`, `{"a":{"l":[]}}`, "null"})
	operation := rapid.Custom(func(t *rapid.T) jsondoc.Op {
		return jsondoc.Op{Op: rapid.SampledFrom([]string{"add", "add", "replace", "remove", "move", "copy", "test"}).Draw(t, "op"),
			Path: pointer.Draw(t, "path"), From: pointer.Draw(t, "from"), Value: json.RawMessage(value.Draw(t, "value"))}
	})
	rapid.Check(t, func(rt *rapid.T) {
		s := mustView(rt, `{"o":{"a":{"l":[1,2]},"b":1},"l":[[1],2]}`)
		for range rapid.IntRange(1, 12).Draw(rt, "patches") {
			patch := rapid.SliceOfN(operation, 1, 6).Draw(rt, "patch")
			before := jsonOf(s)
			fresh := mustView(rt, before)
			want, got := fresh.Patch(patch), s.Patch(patch)
			if fault.CodeOf(want) != fault.CodeOf(got) {
				rt.Fatalf("%s on %s: %v, and %v for a fresh one", encoded(patch), before, got, want)
			}
			if jsonOf(s) != jsonOf(fresh) {
				rt.Fatalf("%s on %s leaves %s, and %s for a fresh one", encoded(patch), before, jsonOf(s), jsonOf(fresh))
			}
		}
	})
}

// What a state writes is what encoding/json reads as the same value.
func TestStatesAreWrittenAsTheyWere(t *testing.T) {
	leaf := rapid.OneOf(rapid.String().AsAny(), rapid.Int64().AsAny(), rapid.Bool().AsAny(), rapid.Just[any](nil), rapid.Float64Range(-1e300, 1e300).AsAny())
	rapid.Check(t, func(rt *rapid.T) {
		doc := rapid.MapOf(rapid.String(), rapid.OneOf(leaf, rapid.SliceOf(leaf).AsAny(), rapid.MapOf(rapid.String(), leaf).AsAny())).Draw(rt, "doc")
		raw, err := json.Marshal(doc)
		if err != nil {
			rt.Fatal(err)
		}
		s, err := newView(json.RawMessage(raw), 1<<24)
		if err != nil {
			rt.Fatalf("New(%s): %v", raw, err)
		}
		var want, got any
		if err := json.Unmarshal(raw, &want); err != nil {
			rt.Fatal(err)
		}
		if err := json.Unmarshal(s.Peek(), &got); err != nil || encoded(got) != encoded(want) {
			rt.Fatalf("%s is written as %s (%v)", raw, jsonOf(s), err)
		}
	})
}

func encoded(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}
