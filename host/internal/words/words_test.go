package words_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/words"
)

func TestStems(t *testing.T) {
	w, err := words.New("")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string][]string{
		"":                         nil,
		" ,;":                      nil,
		"The orders, ORDERED!":     {"the", "order", "order"},
		"route66 is not":           {"route66", "is", "not"},
		"東京都":                      {"東京", "京都"},
		"x東京y":                     {"x", "東京", "y"},
		"ค":                        {"ค"},
		"na\u00efve cafe\u0301 ok": {"na\u00efv", "cafe\u0301", "ok"},
	} {
		var got []string
		for stem, at := range w.Stems(text) {
			got = append(got, stem)
			if at.From < 0 || at.To > len(text) || at.From >= at.To {
				t.Errorf("Stems(%q): %q is at %v", text, stem, at)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Stems(%q) (-want +got):\n%s", text, diff)
		}
	}
	if got := w.Query("a b a c d", 3); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("Query = %q", got)
	}
	if _, err := words.New("klingon"); fault.CodeOf(err) != fault.InvalidArgument {
		t.Errorf("New(klingon) = %v", err)
	}
}

func FuzzStems(f *testing.F) {
	w, _ := words.New(words.NoStemming)
	f.Add("The 東京 orders\xff, ordered!")
	f.Fuzz(func(t *testing.T, text string) {
		last := 0
		for stem, at := range w.Stems(text) {
			if stem == "" || at.From < last || at.To <= at.From || at.To > len(text) {
				t.Fatalf("Stems(%q): %q at %v after %d", text, stem, at, last)
			}
			last = at.From
		}
	})
}
