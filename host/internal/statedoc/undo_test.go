package statedoc

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

// Inside, for the decoded document and its size are not to be seen from outside.

// read returns a view of JSON.
func read(raw string) (*View, error) {
	members, err := Members(json.RawMessage(raw))
	if err != nil {
		return nil, err
	}
	return New(members, 256<<10, nil)
}

// undoOps are operations on the places of a small document, which they mostly fit.
func undoOps(top string) *rapid.Generator[jsondoc.Op] {
	paths := []string{"/a", "/a/x", "/a/x/y", "/b", "/l", "/l/0", "/l/1", "/l/-", "/l/0/x", "/l/1/x"}
	path := rapid.Custom(func(t *rapid.T) string { return top + rapid.SampledFrom(paths).Draw(t, "path") })
	return rapid.Custom(func(t *rapid.T) jsondoc.Op {
		op := jsondoc.Op{Op: rapid.SampledFrom([]string{"add", "add", "replace", "remove", "move", "copy"}).Draw(t, "op"), Path: path.Draw(t, "at")}
		switch op.Op {
		case "move", "copy":
			op.From = path.Draw(t, "from")
		case "add", "replace":
			op.Value = json.RawMessage(rapid.SampledFrom([]string{`1`, `2`, `"s"`, `null`, `{}`, `{"x":{"y":3}}`, `{"x":1}`, `[]`, `[1,{"x":2}]`}).Draw(t, "value"))
		}
		return op
	})
}

const undoDocument = `{"mine":{"a":{"x":{"y":1}},"b":2,"l":[1,{"x":1}]},"other":{"a":{"x":{"y":1}},"b":2,"l":[1,{"x":1}]}}`

// Whatever patches a call has made, alone or beside one that works elsewhere in the
// state: what is left when they are taken back is what the other has made.
func TestTakingBackLeavesWhatWasThere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		begin := func() *View {
			s, err := read(undoDocument)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		s, without := begin(), begin()
		mine, other := s.ForCall(nil), s.ForCall(nil)
		for range rapid.IntRange(1, 12).Draw(t, "patches") {
			if rapid.IntRange(0, 2).Draw(t, "whose") > 0 {
				_ = mine.Patch(rapid.SliceOfN(undoOps("/mine"), 1, 4).Draw(t, "mine")) // all of it or nothing
				continue
			}
			ops := rapid.SliceOfN(undoOps("/other"), 1, 4).Draw(t, "other")
			if (other.Patch(ops) == nil) != (without.Patch(ops) == nil) {
				t.Fatalf("%v applies only where nothing is taken back, or only there", ops)
			}
		}
		mine.TakeBack()
		if !jsondoc.Equal(s.doc, without.doc) {
			t.Fatalf("taken back, the state is\n%s, want\n%s", s.json(), without.json())
		}
		if n := jsondoc.Size(s.doc); n != s.size {
			t.Fatalf("the state has %d bytes and counts %d", n, s.size)
		}
		mine.TakeBack() // is done
		if !jsondoc.Equal(s.doc, without.doc) {
			t.Fatalf("taken back twice, the state is\n%s", s.json())
		}
	})
}

// A list that several calls add to loses what the failing one has added, wherever
// that stands by then.
func TestTakingBackFindsElementsThatOthersMoved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, err := read(`{"l":[]}`)
		if err != nil {
			t.Fatal(err)
		}
		views := []*View{s.ForCall(nil), s.ForCall(nil), s.ForCall(nil)}
		for i := range rapid.IntRange(1, 20).Draw(t, "elements") {
			who := rapid.IntRange(0, 2).Draw(t, "who")
			at := rapid.SampledFrom([]string{"/l/-", "/l/0"}).Draw(t, "at")
			if err := views[who].Patch([]jsondoc.Op{{Op: "add", Path: at, Value: jsondoc.Encode([]any{json.Number([]string{"0", "1", "2"}[who]), json.Number(string(rune('0' + i%10)))})}}); err != nil {
				t.Fatal(err)
			}
		}
		before := s.doc.(map[string]any)["l"].([]any)
		failing := rapid.SliceOfNDistinct(rapid.IntRange(0, 2), 0, 3, rapid.ID).Draw(t, "failing")
		gone := map[json.Number]bool{}
		for _, who := range failing {
			views[who].TakeBack()
			gone[json.Number([]string{"0", "1", "2"}[who])] = true
		}
		want := []any{}
		for _, e := range before {
			if !gone[e.([]any)[0].(json.Number)] {
				want = append(want, e)
			}
		}
		if got := s.doc.(map[string]any)["l"]; !jsondoc.Equal(got, want) {
			t.Fatalf("the list is %s, want %s", jsondoc.Encode(got), jsondoc.Encode(want))
		}
	})
}

// Calls that set one place to one value: it stays as long as one of them has not
// failed, and is what it was when all have.
func TestTakingBackLeavesWhatAnotherHasSetToo(t *testing.T) {
	for name, c := range map[string]struct {
		fail []int // of the calls 0 and 1, in this order
		want string
	}{
		"the first fails":  {[]int{0}, `{"status":"searching"}`},
		"the second fails": {[]int{1}, `{"status":"searching"}`},
		"both fail":        {[]int{0, 1}, `{}`},
		"both, last first": {[]int{1, 0}, `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := read(`{}`)
			if err != nil {
				t.Fatal(err)
			}
			views := []*View{s.ForCall(nil), s.ForCall(nil)}
			for _, v := range views {
				if err := v.Set("/status", "searching"); err != nil {
					t.Fatal(err)
				}
			}
			for _, i := range c.fail {
				views[i].TakeBack()
			}
			if got := string(s.json()); got != c.want {
				t.Errorf("the state is %s, want %s", got, c.want)
			}
		})
	}
}

// Whatever patches a call has made when a journal takes the changes: with their undo another
// process has the document as the other writers have made it, and without it the document.
func TestUnsavedChangesComeWithTheUndoOfCallsWithoutAnOutcome(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		begin := func() *View {
			s, err := read(undoDocument)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		s, without, stored := begin(), begin(), begin()
		s.KeepUnsaved()
		mine, other := s.ForCall(nil), s.ForCall(nil)
		_, _ = s.TakeUnsaved(other) // its changes need no undo
		for range rapid.IntRange(1, 12).Draw(t, "patches") {
			if rapid.IntRange(0, 2).Draw(t, "whose") > 0 {
				_ = mine.Patch(rapid.SliceOfN(undoOps("/mine"), 1, 4).Draw(t, "mine")) // all of it or nothing
			} else {
				ops := rapid.SliceOfN(undoOps("/other"), 1, 4).Draw(t, "other")
				_, _ = other.Patch(ops), without.Patch(ops)
			}
			ops, undo := s.TakeUnsaved(nil)
			if err := stored.PatchAgain(ops); err != nil || !jsondoc.Equal(stored.doc, s.doc) {
				t.Fatalf("the changes lead to %s, %v; want %s", stored.json(), err, s.json())
			}
			next := &View{shared: &shared{limit: s.limit, doc: stored.doc, size: stored.size}}
			if err := next.PatchAgain(undo); err != nil || !jsondoc.Equal(next.doc, without.doc) {
				t.Fatalf("the undo %v of %s leads to %s, %v; want %s", undo, s.json(), next.json(), err, without.json())
			}
		}
		if _, undo := s.TakeUnsaved(mine); len(undo) > 0 {
			t.Errorf("the changes of a call with an outcome are undone by %v", undo)
		}
	})
}

// Calls at the same time, of which the one that began later has its outcome first.
func TestTheUndoKeepsWhatACallWithAnOutcomeHasMade(t *testing.T) {
	for name, c := range map[string]struct{ first, second, third, want string }{
		"beside":              {`{"op":"add","path":"/a","value":1}`, `{"op":"add","path":"/b","value":2}`, `{"op":"add","path":"/c","value":3}`, `{"b":2,"l":[]}`},
		"over the other's":    {`{"op":"add","path":"/a","value":1}`, `{"op":"replace","path":"/a","value":2}`, `{"op":"add","path":"/c","value":3}`, `{"a":2,"l":[]}`},
		"in the same list":    {`{"op":"add","path":"/l/-","value":1}`, `{"op":"add","path":"/l/-","value":2}`, `{"op":"add","path":"/l/-","value":3}`, `{"l":[2]}`},
		"of the same place":   {`{"op":"add","path":"/a","value":1}`, `{"op":"add","path":"/b","value":2}`, `{"op":"replace","path":"/a","value":3}`, `{"b":2,"l":[]}`},
		"before the other is": {`{"op":"add","path":"/a","value":{}}`, `{"op":"add","path":"/a/b","value":2}`, `{"op":"add","path":"/c","value":3}`, `{"a":{"b":2},"l":[]}`},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := read(`{"l":[]}`)
			if err != nil {
				t.Fatal(err)
			}
			s.KeepUnsaved()
			open, ended, alsoOpen := s.ForCall(nil), s.ForCall(nil), s.ForCall(nil)
			for i, v := range []*View{open, ended, alsoOpen} {
				var op jsondoc.Op
				if err := json.Unmarshal([]byte([]string{c.first, c.second, c.third}[i]), &op); err != nil {
					t.Fatal(err)
				}
				if err := v.Patch([]jsondoc.Op{op}); err != nil {
					t.Fatal(err)
				}
			}
			for range 3 {
				open.EndCall() // no call is in progress, and two have no outcome
			}
			_, undo := s.TakeUnsaved(ended)
			if err := s.PatchAgain(undo); err != nil || string(s.json()) != c.want {
				t.Errorf("the undo %v leads to %s, %v; want %s", undo, s.json(), err, c.want)
			}
		})
	}
}

// A call changes more than its log keeps, beside another that has no outcome either, or has one.
func TestTheUndoOfMoreThanALogKeepsLeavesNoChangeOfAnyOpenCall(t *testing.T) {
	for name, c := range map[string]struct {
		largeFirst bool // of the calls without an outcome
		ended      bool // a third call has changed the state before these, and has an outcome
		want       string
	}{
		"the small one first":   {false, false, `{"big":"","kept":0}`},
		"the large one first":   {true, false, `{"big":"","kept":0}`},
		"behind one that ended": {false, true, `{"big":"","kept":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := read(`{"big":"","kept":0}`)
			if err != nil {
				t.Fatal(err)
			}
			s.KeepUnsaved()
			ended, large, small := s.ForCall(nil), s.ForCall(nil), s.ForCall(nil)
			if c.ended {
				set(t, ended, "/kept", 1)
			}
			if !c.largeFirst {
				set(t, small, "/small", 1)
			}
			for n := 0; !large.undo.full; n++ {
				set(t, large, "/big", strings.Repeat(strconv.Itoa(n%10), 200<<10))
			}
			set(t, small, "/small", 2)
			_, undo := s.TakeUnsaved(ended)
			if err := s.PatchAgain(undo); err != nil || string(s.json()) != c.want {
				t.Errorf("the undo leads to %.100s, %v; want %s", s.json(), err, c.want)
			}
		})
	}
}

func set(t *testing.T, v *View, path string, value any) {
	t.Helper()
	if err := v.Set(path, value); err != nil {
		t.Fatal(err)
	}
}
