package schema

import (
	"encoding/json"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The vectors of the plugin contract say what a tool is passed of what a model
// wrote.
func TestArgumentsArePassedAsTheContractSays(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "pdk", "testdata", "vectors", "numbers.json"))
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		Name, Kind string
		JSON       struct{ Arguments, Want json.RawMessage }
	}
	if err := json.Unmarshal(raw, &vectors); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, v := range vectors {
		if v.Kind != "arguments" {
			continue
		}
		seen++
		if got := CanonicalIntegers(v.JSON.Arguments); string(got) != string(v.JSON.Want) {
			t.Errorf("%s: %s becomes %s, want %s", v.Name, v.JSON.Arguments, got, v.JSON.Want)
		}
	}
	if seen == 0 {
		t.Error("numbers.json has no vectors of kind arguments")
	}
}

// TestCanonicalIntegersKeepsValues compares with math/big, which reads a number's
// text exactly.
func TestCanonicalIntegersKeepsValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.StringMatching(`-?(0|[1-9][0-9]{0,24})(\.[0-9]{1,24})?([eE][+-]?[0-9]{1,2})?`).Draw(t, "number")
		before, ok := new(big.Rat).SetString(number)
		if !ok {
			t.Skip("math/big does not read it")
		}
		got := string(CanonicalIntegers(json.RawMessage(`{"n":[` + number + `]}`)))
		got = strings.TrimSuffix(strings.TrimPrefix(got, `{"n":[`), `]}`)
		after, ok := new(big.Rat).SetString(got)
		if !ok || before.Cmp(after) != 0 {
			t.Fatalf("%s became %s", number, got)
		}
		digits := strings.TrimPrefix(before.Num().String(), "-")
		if before.IsInt() && len(digits) <= maxIntegerDigits && got != before.Num().String() {
			t.Fatalf("%s became %s, not %s", number, got, before.Num())
		}
		if again := CanonicalIntegers(json.RawMessage(got)); string(again) != got {
			t.Fatalf("%s became %s and then %s", number, got, again)
		}
	})
}

func TestCanonicalIntegersCopiesNothingWithoutNeed(t *testing.T) {
	raw := json.RawMessage(`{"order":1042,"s":"1.0","f":2.5,"l":[true,null,{"n":-7}]}`)
	if allocs := testing.AllocsPerRun(10, func() {
		if got := CanonicalIntegers(raw); &got[0] != &raw[0] {
			t.Error("it is a copy")
		}
	}); allocs > 1 { // of the fraction's digits
		t.Errorf("%v allocations", allocs)
	}
}
