package main

import (
	"strings"
	"testing"

	"github.com/agenthost/agenthost/pdk/go/pdk"
	"github.com/agenthost/agenthost/pdk/go/pdktest"
)

func TestMask(t *testing.T) {
	for _, test := range []struct{ name, in, want string }{
		{"no number", "hello", "hello"},
		{"nothing", "", ""},
		{"digits in a row", "my card is 4111111111111111.", "my card is •••• 1111."},
		{"groups with spaces", "4111 1111 1111 1111 please", "•••• 1111 please"},
		{"groups with dashes", "pay 5555-5555-5555-4444", "pay •••• 4444"},
		{"fifteen digits", "378282246310005", "•••• 0005"},
		{"thirteen digits", "4222222222222", "•••• 2222"},
		{"nineteen digits", "6304000000000000000", "•••• 0000"},
		{"two numbers", "4111111111111111 or 5555555555554444", "•••• 1111 or •••• 4444"},
		{"after another number", "order 1042: 4111 1111 1111 1111", "order 1042: •••• 1111"},
		{"after another number and a space", "1042 4111 1111 1111 1111", "1042 •••• 1111"},
		{"beside other scripts", "карта 4111111111111111 ок", "карта •••• 1111 ок"},
		{"a wrong check digit is no card", "4111 1111 1111 1112", "4111 1111 1111 1112"},
		{"twelve digits are no card", "411111111117", "411111111117"},
		{"an end of a longer number is no card", "99999999994111111111111111", "99999999994111111111111111"},
		{"two spaces part numbers", "41111111  11111111", "41111111  11111111"},
		{"other separators part numbers", "4111.1111.1111.1111", "4111.1111.1111.1111"},
		{"a masked text stays", "•••• 1111", "•••• 1111"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := mask(test.in); got != test.want {
				t.Errorf("mask(%q) = %q, want %q", test.in, got, test.want)
			}
		})
	}
}

// Only the messages with a card number come back, and in them only the texts
// change.
func TestProcessor(t *testing.T) {
	host := pdktest.Host{Messages: `[
		{"id":"1","role":"user","parts":[{"type":"text","text":"hello"}]},
		{"id":"2","role":"user","parts":[{"type":"text","text":"bill 4111 1111 1111 1111"}]},
		{"id":"3","role":"assistant","parts":[{"type":"tool_call","id":"c","name":"pay","arguments":{"card":"4111111111111111","cents":9007199254740993}}]},
		{"id":"4","role":"tool","parts":[{"type":"tool_result","id":"c","name":"pay","content":{"paid":true}}]}]`}
	got := host.Process(t, "piimask", "")
	if n := len(got.Messages); n != 4 {
		t.Fatalf("%d messages are left of 4", n)
	}
	if want := "bill •••• 1111"; got.Messages[1].Text() != want {
		t.Errorf("message 2 says %q, want %q", got.Messages[1].Text(), want)
	}
	if want := pdk.Raw(`{"card":"•••• 1111","cents":9007199254740993}`); got.Messages[2].Parts[0].Arguments != want {
		t.Errorf("arguments %s, want %s", got.Messages[2].Parts[0].Arguments, want)
	}
	edits := 0
	for edit := range got.Output.Get("edits").Elements() {
		if edit.Get("replace") == "" {
			t.Errorf("edit %s, want replacements only", edit)
		}
		edits++
	}
	if edits != 2 {
		t.Errorf("%d edits, want one for each message with a card number: %s", edits, got.Output)
	}
}

// Between the masks there is no card number left.
func FuzzMask(f *testing.F) {
	f.Add("card 4111 1111-1111 1111, or 378282246310005")
	f.Fuzz(func(t *testing.T, text string) {
		masked := mask(text)
		for i, piece := range strings.Split(masked, "•••• ") {
			if i > 0 {
				piece = piece[min(4, len(piece)):] // the last four digits of the one before
			}
			if again := mask(piece); again != piece {
				t.Errorf("mask(%q) = %q, in which %q is left", text, masked, piece)
			}
		}
	})
}
