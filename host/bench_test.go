package host_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
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

// BenchmarkStateSchema changes one member of a state of 100 kB that is validated against the
// schema of its Go type. Checking all of it is what others pay for each change.
func BenchmarkStateSchema(b *testing.B) {
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
	schema, err := host.SchemaOf[typed]()
	if err != nil {
		b.Fatal(err)
	}
	state, err := host.NewStateWithSchema(doc, schema)
	if err != nil {
		b.Fatal(err)
	}
	raw := state.JSON()
	for name, path := range map[string]string{"member": "/n", "far below": "/items/key500/list/0"} {
		ops := []host.PatchOp{{Op: "replace", Path: path, Value: json.RawMessage("1")}}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := state.Patch(ops); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("all of it", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := schema.ValidateUnseen(raw); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkDocumentDiff compares two states of 100 kB that differ by a member:
// one patched from the other, of which they share what did not change, and two
// that were read each by itself, with and without the reading. Decoding one with
// encoding/json is what others pay for each.
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
	other := string(patched.JSON())
	for _, c := range []struct {
		name          string
		before, after func() *host.Document
	}{
		{"patched", func() *host.Document { return before }, func() *host.Document { return patched }},
		{"read", func() *host.Document { return before }, sync.OnceValue(func() *host.Document { return readDocument(b, other) })},
		{"reading both", func() *host.Document { return readDocument(b, string(raw)) }, func() *host.Document { return readDocument(b, other) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if got := c.before().Diff(c.after()); len(got) != 1 {
					b.Fatalf("the diff is %v", got)
				}
			}
		})
	}
	b.Run("limit=decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var doc any
			if err := json.Unmarshal(raw, &doc); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkStateUpdate changes one member of a state of 100 kB as a Go value, most
// of which is a map or an array: the value is read, and what was done to it is
// found out. Reading it and writing it once is what that takes at least, for the
// state is JSON.
func BenchmarkStateUpdate(b *testing.B) {
	type item struct {
		Name string `json:"name"`
		List []int  `json:"list"`
	}
	type typed struct {
		N     int             `json:"n"`
		Items map[string]item `json:"items,omitempty"`
		List  []item          `json:"list,omitempty"`
	}
	mapped, listed := typed{Items: map[string]item{}}, typed{}
	for i := range 1000 {
		it := item{strings.Repeat("x", 50), []int{1, 2, 3}}
		mapped.Items[fmt.Sprint("key", i)] = it
		listed.List = append(listed.List, it)
	}
	update := func(doc typed, change func(*typed)) func(*testing.B) {
		return func(b *testing.B) {
			state, err := host.NewState(doc, 0)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := host.UpdateState(state, func(s *typed) error { change(s); return nil }); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	b.Run("member", update(mapped, func(s *typed) { s.N++ }))
	b.Run("element", update(listed, func(s *typed) { s.List[500].List[1]++ }))
	b.Run("limit=decode+encode", func(b *testing.B) {
		raw, err := json.Marshal(mapped)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			var doc typed
			err := json.Unmarshal(raw, &doc)
			if err == nil {
				_, err = json.Marshal(doc)
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}
