package strictjson

import (
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
)

// Lists in outputs are bounded before they are read, so that no output keeps the
// host for seconds.
func TestListsAreBounded(t *testing.T) {
	repeat := func(item string, n int) string { return "[" + strings.Repeat(item+",", n-1) + item + "]" }
	type lists struct {
		Texts   []string
		Numbers []int
		Ops     []host.PatchOp
		Structs []struct{ A, B string }
		Carried []byte
	}
	for name, row := range map[string]struct {
		json string
		ok   bool
	}{
		"texts":              {`{"texts":` + repeat(`""`, MaxListed) + `}`, true},
		"texts with commas":  {`{"texts":["` + strings.Repeat(`,\",`, MaxListed) + `"]}`, true},
		"too many texts":     {`{"texts":` + repeat(`""`, MaxListed+1) + `}`, false},
		"too many odd texts": {`{"texts":` + repeat(`"\",\\"`, MaxListed+1) + `}`, false},
		"too many numbers":   {`{"numbers":` + repeat(`1`, MaxListed+1) + `}`, false},
		"too many objects":   {`{"structs":` + repeat(`{}`, MaxListed+1) + `}`, false},
		"too many patches":   {`{"ops":` + repeat(`{"op":"remove","path":""}`, MaxListed+1) + `}`, false},
		"unknown fields":     {`{"other":` + repeat(`1`, 2*MaxListed) + `}`, true},
	} {
		var into lists
		err := Unmarshal([]byte(row.json), &into)
		if (err == nil) != row.ok || err != nil && !strings.Contains(err.Error(), "more than 50000 items") {
			t.Errorf("%s: %v, want ok %t", name, err, row.ok)
		}
	}
}
