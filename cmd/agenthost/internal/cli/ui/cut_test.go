package ui

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// Elements kept and elements left out are all elements, and what is kept is of the
// order and the values it had.
func TestCutJSONCountsWhatItLeavesOut(t *testing.T) {
	numbers := make([]int, 10_000)
	members := map[string]int{}
	for i := range numbers {
		numbers[i] = i
		members[fmt.Sprintf("m%05d", i)] = i
	}
	var list []json.RawMessage
	if err := json.Unmarshal(CutJSON(encodeJSON(numbers), 4096), &list); err != nil {
		t.Fatal(err)
	}
	last := len(list) - 1
	var left map[string]int
	if err := json.Unmarshal(list[last], &left); err != nil || last < 100 || last+left[CutMember] != len(numbers) || string(list[50]) != "50" {
		t.Errorf("%d are kept and %v: %v", last, left, err)
	}
	left = nil
	if err := json.Unmarshal(CutJSON(encodeJSON(members), 4096), &left); err != nil || left["m00007"] != 7 || len(left)-1+left[CutMember] != len(members) {
		t.Errorf("%d members, %d left out: %v", len(left), left[CutMember], err)
	}
	var s string
	if err := json.Unmarshal(CutJSON(encodeJSON(strings.Repeat("é\x01", 10_000)), 1000), &s); err != nil || !strings.HasPrefix(s, "é\x01é") || !strings.HasSuffix(s, "bytes left out)") {
		t.Errorf("%q: %v", s, err)
	}
}

func FuzzCutJSON(f *testing.F) {
	f.Add([]byte(`{"a":[1,2,{"b":"cccccccccccccccccccccccccccc"}],"`+strings.Repeat("n", 300)+`":1}`), 128)
	f.Add([]byte(strings.Repeat("[", 100)+strings.Repeat("]", 100)), 130)
	f.Add([]byte(strings.Repeat(`{"a":`, 100)+strings.Repeat("1", 1000)+strings.Repeat("}", 100)), 500)
	f.Add([]byte(`["`+strings.Repeat(`\u0001é`, 300)+`", "a", "b"]`), 200)
	f.Fuzz(func(t *testing.T, raw []byte, limit int) {
		if limit < minCutBytes || limit > 1<<20 || !json.Valid(raw) {
			return
		}
		if out := CutJSON(raw, limit); len(out) > limit || !json.Valid(out) {
			t.Errorf("%d bytes under a limit of %d: %s", len(out), limit, out)
		}
	})
}
