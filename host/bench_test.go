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

// BenchmarkDocumentDiff compares two states of 100 kB that differ by a member.
// Decoding both is what everybody pays who gets them as JSON; documents that
// share what did not change are compared without looking at it.
func BenchmarkDocumentDiff(b *testing.B) {
	doc := map[string]any{"n": 0}
	for i := range 1000 {
		doc[fmt.Sprint("key", i)] = map[string]any{"name": strings.Repeat("x", 50), "list": []int{1, 2, 3}}
	}
	raw, err := json.Marshal(doc)
	if err != nil {
		b.Fatal(err)
	}
	before := readDocument(b, string(raw))
	ops := []host.PatchOp{{Op: "replace", Path: "/n", Value: json.RawMessage("1")}}
	patched, err := before.Patch(ops)
	if err != nil {
		b.Fatal(err)
	}
	read := readDocument(b, string(patched.JSON()))
	for name, after := range map[string]*host.Document{"patched": patched, "read": read} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if got := before.Diff(after); len(got) != 1 {
					b.Fatalf("the diff is %v", got)
				}
			}
		})
	}
	b.Run("limit=decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := host.ReadDocument(raw); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkStateUpdate changes one member of a state of 100 kB as a Go value: it
// is read, and what was done to it is found out. Encoding and decoding it once is
// what that takes at least.
func BenchmarkStateUpdate(b *testing.B) {
	type item struct {
		Name string `json:"name"`
		List []int  `json:"list"`
	}
	type typed struct {
		N     int             `json:"n"`
		Items map[string]item `json:"items"`
	}
	doc := typed{Items: map[string]item{}}
	for i := range 1000 {
		doc.Items[fmt.Sprint("key", i)] = item{strings.Repeat("x", 50), []int{1, 2, 3}}
	}
	state, err := host.NewState(doc, 0)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("update", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := host.UpdateState(state, func(s *typed) error { s.N++; return nil }); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("limit=encode+decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			raw, err := json.Marshal(doc)
			if err == nil {
				err = json.Unmarshal(raw, new(typed))
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}
