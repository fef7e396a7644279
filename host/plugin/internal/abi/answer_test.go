package abi

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

// Lists are read in pieces, and are the same as read at once.
func TestAnswersInPiecesAreWhole(t *testing.T) {
	p := Answers{"x"}
	var b strings.Builder
	const n = 5000
	for i := range n {
		fmt.Fprintf(&b, `,{"id":"m%d","role":"user","parts":[{"type":"text","text":%q}]}`, i, strings.Repeat("x", i%100))
	}
	raw := "[" + b.String()[1:] + "]"
	if len(raw) < 3*pieceBytes {
		t.Fatalf("a list of %d bytes is too short to be read in pieces", len(raw))
	}
	got, err := p.readMessages(t.Context(), Process, "processor", "p", json.RawMessage(raw))
	if err != nil || len(got) != n {
		t.Fatalf("%d messages, %v; want %d", len(got), err, n)
	}
	for i, m := range got {
		if m.ID != fmt.Sprintf("m%d", i) || len(m.Text()) != i%100 {
			t.Fatalf("message %d is %s of %d bytes", i, m.ID, len(m.Text()))
		}
	}
	edits := "[" + strings.Repeat(`{"drop":[0,1]},`, 20_000) + `{"drop":[7,8]}]`
	list, err := p.readEdits(t.Context(), "p", json.RawMessage(edits))
	if err != nil || len(list) != 20_001 || list[20_000] != chat.Edit(chat.Drop{From: 7, To: 8}) {
		t.Errorf("%d edits, %v; want 20,001 of which the last drops 7", len(list), err)
	}
}

// TestUnknownMembersCostLittle holds the reader to what grows with an answer: an
// allocation for a member's name, and none else.
func TestUnknownMembersCostLittle(t *testing.T) {
	const members = 1000
	raw := []byte("{" + strings.Repeat(`"nobody":0,`, members) + `"content":1}`)
	got := testing.AllocsPerRun(10, func() {
		if err := jsondoc.Unmarshal(raw, &toolOutput{}); err != nil {
			t.Fatal(err)
		}
	})
	if got > 1.1*members {
		t.Errorf("reading %d members allocates %.0f times", members, got)
	}
}

// outputBytes is the default of the limit OutputBytes.
const outputBytes = 8 << 20

// BenchmarkHeaviestAnswer is how long the host reads an answer of OutputBytes that
// is made of members, at once.
func BenchmarkHeaviestAnswer(b *testing.B) {
	for name, item := range map[string]string{"unknown": `"a":0`, "known": `"content":0`, "escaped": `"\u0061":0`} {
		b.Run(name, func(b *testing.B) {
			raw := []byte("{" + strings.Repeat(item+",", outputBytes/(len(item)+1)-1) + item + "}")
			for b.Loop() {
				if err := jsondoc.Unmarshal(raw, &toolOutput{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
