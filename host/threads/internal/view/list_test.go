package view

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// shown is a list as a model: the positions in their order, each with the position
// whose place it takes.
type shown struct{ at, stands Position }

func expand(parts []Part) (out []shown) {
	for _, p := range parts {
		for i := range p.Len() {
			out = append(out, shown{Position{p.At.Rank, p.At.Seq + i}, Position{p.Stands.Rank, p.Stands.Seq + i}})
		}
	}
	return out
}

// drawList returns the list of a view that some edits and deletions were made of, with
// end as the length of the own log.
func drawList(t *rapid.T) (l List, end uint64) {
	v := View{Origins: []string{"a", "b"}}
	v.Messages = []Part{NewPart(Position{0, 0}, rapid.Uint64Range(1, 6).Draw(t, "of a")), NewPart(Position{1, 2}, 5)}
	end = rapid.Uint64Range(0, 6).Draw(t, "end")
	for range rapid.IntRange(0, 4).Draw(t, "changes") {
		l := v.MessageList(end)
		n := l.Len()
		if n == 0 {
			break
		}
		i := rapid.Uint64Range(0, n-1).Draw(t, "changed")
		if rapid.Bool().Draw(t, "edit") {
			v.Messages = l.With(i, Position{v.OwnRank(), end})
			end++
		} else {
			v.Messages = l.Without([]uint64{i})
		}
		v.Tail = end
		end += rapid.Uint64Range(0, 3).Draw(t, "said since")
	}
	if !v.Valid() {
		t.Fatalf("%+v is not valid", v)
	}
	return v.MessageList(end), end
}

func TestListAgreesWithItsExpandedPositions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, end := drawList(t)
		model := expand(l.Parts())
		if got := l.Len(); got != uint64(len(model)) {
			t.Fatalf("Len() = %d, want %d", got, len(model))
		}
		for i, m := range model {
			if got := l.IndexOf(m.at); !l.Has(m.at) || got != uint64(i) {
				t.Errorf("IndexOf(%v) = %d, want %d", m.at, got, i)
			}
			if got := l.At(uint64(i)); got.At != m.at || got.Stands != m.stands || got.Len() != 1 {
				t.Errorf("At(%d) = %+v, want %+v", i, got, m)
			}
		}
		at := Position{rapid.Uint64Range(0, 2).Draw(t, "rank"), rapid.Uint64Range(0, end+1).Draw(t, "seq")}
		if got, want := l.Has(at), slices.ContainsFunc(model, func(m shown) bool { return m.at == at }); got != want {
			t.Errorf("Has(%v) = %v, want %v", at, got, want)
		}
		before := 0
		for before < len(model) && model[before].stands.Before(at) {
			before++
		}
		if got := l.CountBefore(at); got != uint64(before) {
			t.Errorf("CountBefore(%v) = %d, want %d", at, got, before)
		}
		i := rapid.Uint64Range(0, uint64(len(model))).Draw(t, "i")
		j := rapid.Uint64Range(i, uint64(len(model))).Draw(t, "j")
		if got := expand(l.Slice(i, j)); !slices.Equal(got, model[i:j]) {
			t.Errorf("Slice(%d, %d) = %v, want %v", i, j, got, model[i:j])
		}
	})
}

func TestViewKeepsTheOriginsItNeeds(t *testing.T) {
	v := View{
		Origins:  []string{"a", "b", "c", "d"},
		Messages: []Part{NewPart(Position{1, 0}, 2), {At: Position{4, 3}, To: 4, Stands: Position{2, 7}}},
		Turns:    []Part{NewPart(Position{4, 0}, 1)},
	}
	got := v.WithNeededOrigins(3)
	if want := []string{"b", "c", "d"}; !slices.Equal(got.Origins, want) {
		t.Errorf("origins = %v, want %v", got.Origins, want)
	}
	want := []Part{NewPart(Position{0, 0}, 2), {At: Position{3, 3}, To: 4, Stands: Position{1, 7}}}
	if !slices.Equal(got.Messages, want) || got.Turns[0].At.Rank != 3 {
		t.Errorf("parts = %v and %v, want %v and rank 3", got.Messages, got.Turns, want)
	}
	if v.Messages[0].At.Rank != 1 {
		t.Errorf("the view itself changed: %v", v.Messages)
	}
}

func TestInvalidViewsAreFound(t *testing.T) {
	for name, v := range map[string]View{
		"a rank beyond its own":       {Messages: []Part{NewPart(Position{1, 0}, 1)}},
		"a place of a rank beyond it": {Messages: []Part{{At: Position{0, 0}, To: 1, Stands: Position{3, 0}}}},
		"an empty part":               {Turns: []Part{NewPart(Position{0, 2}, 2)}},
		"a part that runs backwards":  {Turns: []Part{NewPart(Position{0, 2}, 1)}},
	} {
		if v.Valid() {
			t.Errorf("Valid() of a view with %s = true", name)
		}
	}
	if !new(View).Valid() {
		t.Error("Valid() of the zero view = false")
	}
}
