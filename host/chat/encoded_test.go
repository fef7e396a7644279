package chat_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/agenthost/agenthost/host/chat"
)

func TestMessagesAreWrittenOnceForEachForm(t *testing.T) {
	m := chat.UserText("hi")
	writes := 0
	write := func(m *chat.Message) ([]byte, error) {
		writes++
		return []byte(m.Text()), nil
	}
	type form int
	for range 3 {
		for f := range form(2) {
			if b, err := m.Encoded(f, write); string(b) != "hi" || err != nil {
				t.Fatalf("Encoded: %q, %v", b, err)
			}
		}
	}
	if writes != 2 {
		t.Errorf("a message in two forms was written %d times", writes)
	}
	for range 2 { // more forms than are kept: right, if not once
		for f := range form(10) {
			if b, _ := m.Encoded(f, write); string(b) != "hi" {
				t.Fatalf("form %d: %q", f, b)
			}
		}
	}
	if b, _ := m.Clone().Encoded(form(0), func(*chat.Message) ([]byte, error) { return []byte("anew"), nil }); string(b) != "anew" {
		t.Errorf("a clone, which may be changed, has the bytes of the original: %q", b)
	}
	if err := json.Unmarshal([]byte(`{"id":"m","role":"user","parts":[{"type":"text","text":"other"}]}`), m); err != nil {
		t.Fatal(err)
	}
	if b, _ := m.Encoded(form(9), write); string(b) != "other" {
		t.Errorf("a message that was read anew is written as %q", b)
	}
}

func TestEncodingErrorsAreNotKept(t *testing.T) {
	m := chat.UserText("hi")
	refused := errors.New("refused")
	for range 2 {
		if _, err := m.Encoded("form", func(*chat.Message) ([]byte, error) { return nil, refused }); !errors.Is(err, refused) {
			t.Fatalf("Encoded: %v", err)
		}
	}
	if b, err := m.Encoded("form", func(*chat.Message) ([]byte, error) { return []byte("x"), nil }); string(b) != "x" || err != nil {
		t.Errorf("Encoded after an error: %q, %v", b, err)
	}
}
