package host_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
)

// BenchmarkStatePatch changes one member of a state of 100 kB.
func BenchmarkStatePatch(b *testing.B) {
	doc := map[string]any{"n": 0}
	for i := range 1000 {
		doc[fmt.Sprint("key", i)] = map[string]any{"name": strings.Repeat("x", 50), "list": []int{1, 2, 3}}
	}
	state, err := host.NewState(doc, 0)
	if err != nil {
		b.Fatal(err)
	}
	ops := []host.PatchOp{{Op: "replace", Path: "/n", Value: json.RawMessage("1")}}
	b.SetBytes(int64(len(state.JSON())))
	b.ReportAllocs()
	for b.Loop() {
		if err := state.Patch(ops); err != nil {
			b.Fatal(err)
		}
	}
}
