package wordindex

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
)

func message(id, text string) *host.Message {
	m := host.UserText(text)
	m.ID = id
	return m
}

// The bytes of an entry are stored data: they do not change.
func TestEntryHasItsStoredForm(t *testing.T) {
	writes := New().Entries(7, []*host.Message{message("a", "Tea, tea and cakes"), message("b", "")})
	if len(writes) != 1 || writes[0].Key("c") != KeysOf("c").WithUint(7) {
		t.Fatalf("Entries = %v, want one at position 7", writes)
	}
	const want = "01" + // format
		"0403" + "0f29c2a601" + "8aea885901" + "b401e62902" + // and, cake, tea
		"0000"
	if got := hex.EncodeToString(writes[0].Value); got != want {
		t.Errorf("entry = %s, want %s", got, want)
	}
}

func TestEntriesSayWhichWordsMessagesHave(t *testing.T) {
	x := New()
	var messages []*host.Message
	for i := range 300 {
		messages = append(messages, message(fmt.Sprint(i), fmt.Sprintf("word%d ", i)+strings.Repeat("again ", i)+longText(i)))
	}
	next := uint64(0)
	for _, w := range x.Entries(0, messages) {
		content, seq, ok := CutKey(w.Key("c"))
		if content != "c" || seq != next || !ok {
			t.Fatalf("CutKey(%q) = %q, %d, %v, want position %d", w.Key("c"), content, seq, ok, next)
		}
		read, ok := Read(w.Value)
		if !ok || len(w.Value) > 2*entryBytes {
			t.Fatalf("Read of an entry of %d bytes = %v", len(w.Value), ok)
		}
		for _, m := range read {
			if got := m.Times(Hash(fmt.Sprintf("word%d", next))); got != 1 {
				t.Errorf("message %d has its word %d times", next, got)
			}
			if got, want := m.Times(Hash("again")), min(next, maxTimes); uint64(got) != want {
				t.Errorf("message %d has a word %d times, want %d", next, got, want)
			}
			next++
		}
	}
	if next != uint64(len(messages)) {
		t.Errorf("%d messages are in the entries, want %d", next, len(messages))
	}
}

// longText makes entries overflow now and then.
func longText(i int) string {
	if i%50 != 0 {
		return ""
	}
	var b strings.Builder
	for j := range 3000 {
		fmt.Fprintf(&b, "w%dx%d ", i, j)
	}
	return b.String()
}

// An entry that was damaged is refused, and reading it does not go beyond it.
func FuzzReadOfAnyBytes(f *testing.F) {
	for _, w := range New().Entries(0, []*host.Message{message("a", "Tea and cakes"), message("b", "more")}) {
		f.Add(w.Value)
	}
	for _, seed := range []string{"", "\x02", "\x01\x05\xff", "\x01\x05\x02abcde"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		messages, ok := Read(bytes.Clone(raw))
		for _, m := range messages {
			m.Times(Hash("tea"))
			m.Times(0)
		}
		if ok && len(messages)*2 > len(raw) {
			t.Errorf("%d messages are read from %d bytes", len(messages), len(raw))
		}
	})
}
