package view

import (
	"encoding/json"
	"testing"
)

func TestPartHasItsStoredForm(t *testing.T) {
	for want, p := range map[string]Part{
		"[0,2,5]":     NewPart(Position{0, 2}, 5),
		"[3,4,5,1,7]": {At: Position{3, 4}, To: 5, Stands: Position{1, 7}},
	} {
		raw, err := json.Marshal(p)
		if err != nil || string(raw) != want {
			t.Errorf("Marshal(%+v) = %s, %v, want %s", p, raw, err, want)
		}
		var back Part
		if err := json.Unmarshal(raw, &back); err != nil || back != p {
			t.Errorf("Unmarshal(%s) = %+v, %v, want %+v", raw, back, err, p)
		}
	}
}

func TestZeroViewIsStoredAsNothing(t *testing.T) {
	if raw, err := json.Marshal(View{}); err != nil || string(raw) != "{}" {
		t.Errorf("Marshal(View{}) = %s, %v, want {}", raw, err)
	}
}

// A part of stored bytes is refused, or written back as it was read.
func FuzzPartReadsWhatItWrites(f *testing.F) {
	for _, seed := range []string{"[0,1,2]", "[0,1,2,3,4]", "[]", "[1,2]", "[0,1,2,0,1]", `["a"]`, "[18446744073709551615,0,1]"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var p, again Part
		if json.Unmarshal(raw, &p) != nil {
			return
		}
		written, err := json.Marshal(p)
		if err != nil {
			t.Fatalf("Marshal(%+v) = %v", p, err)
		}
		if err := json.Unmarshal(written, &again); err != nil || again != p {
			t.Errorf("Unmarshal(%s) = %+v, %v, want %+v", written, again, err, p)
		}
	})
}
