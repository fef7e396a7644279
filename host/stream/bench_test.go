package stream_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/runevent"
	"github.com/agenthost/agenthost/host/stream"
)

// BenchmarkStateStream changes one member of a state of 100 kB and sends that to
// a client, as a server-sent event: as the patch that it came as, as one past a
// place that is hidden, and as the difference of what a function shows, of the
// document that it gets or of one that it reads anew. Reading
// 100 kB of JSON once is what a client pays that is sent the whole.
func BenchmarkStateStream(b *testing.B) {
	doc := map[string]any{"n": 0, "secret": "s"}
	for i := range 1000 {
		doc[fmt.Sprint("key", i)] = map[string]any{"name": strings.Repeat("x", 50), "list": []int{1, 2, 3}}
	}
	without := func(_ context.Context, d *host.Document) (*host.Document, error) { return d.Without("/secret"), nil }
	anew := func(_ context.Context, d *host.Document) (*host.Document, error) { return host.ReadDocument(d.JSON()) }
	for _, c := range []struct {
		name string
		opts *stream.ViewOptions
	}{
		{"patched", nil},
		{"hidden", &stream.ViewOptions{Hide: []string{"/custom/secret"}}},
		{"diffed", &stream.ViewOptions{State: without}},
		{"diffed-anew", &stream.ViewOptions{State: anew}},
	} {
		b.Run(c.name, func(b *testing.B) {
			state, err := host.NewState(doc, 0)
			if err != nil {
				b.Fatal(err)
			}
			var view *stream.View
			if c.opts != nil {
				view = newView(b, c.opts)
			}
			b.ReportAllocs()
			b.ReportMetric(float64(sendChanges(b, state, view)), "wire-bytes")
		})
	}
	raw, err := json.Marshal(doc)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("limit=decode", func(b *testing.B) {
		for b.Loop() {
			var doc any
			if err := json.Unmarshal(raw, &doc); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// sendChanges returns how many bytes a change is on the wire.
func sendChanges(b *testing.B, state *host.State, view *stream.View) int {
	events := func(yield func(host.Event, error) bool) {
		ops := []host.PatchOp{{Op: "replace", Path: "", Value: state.JSON()}}
		for i := int64(0); ; i++ {
			if !yield(host.Event{Seq: i, Run: host.NewID(), Network: "desk", Agent: "clerk", Data: &runevent.StatePatched{Ops: ops}}, nil) || !b.Loop() {
				return
			}
			ops = []host.PatchOp{{Op: "replace", Path: "/n", Value: json.RawMessage(fmt.Sprint(i % 10))}}
			if err := state.Patch(ops); err != nil {
				b.Fatal(err)
			}
		}
	}
	enc := stream.Brief()
	var frames []stream.Frame
	var wire []byte
	for ev, err := range view.Events(b.Context(), events) {
		if err != nil {
			b.Fatal(err)
		}
		ev.Run = "r" // one run
		if frames, err = enc.Encode(frames[:0], ev); err != nil {
			b.Fatal(err)
		}
		wire = stream.AppendSSE(wire[:0], frames[0])
	}
	return len(wire)
}
