package redact_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/agenthost/agenthost/host/internal/redact"
)

func TestLineKeepsWordsAndDropsPlaces(t *testing.T) {
	for text, want := range map[string]string{
		"": "", " \n\t": "", "no order 7\ngoroutine 1 [running]": "no order 7",
		"open /etc/agent/keys.yaml: denied": "open (path): denied",
		"dial tcp 10.0.0.1:5432: refused":   "dial tcp (address): refused",
		"GET /v1/orders/7: 404 Not Found":   "GET /v1/orders/7: 404 Not Found",
		strings.Repeat("a", 600):            strings.Repeat("a", redact.MaxLine) + "…",
	} {
		if got := redact.Line(text); got != want {
			t.Errorf("Line(%q) = %q, want %q", text, got, want)
		}
	}
}

// Any text becomes one short line.
func FuzzLine(f *testing.F) {
	for _, seed := range []string{"", "open /etc/x: y", `C:\a b\c`, `\\`, "a:1:2", "[::1]:5", "file:", "://@", "Traceback (most recent call last)", "\xff/\xff.go:1", "/", ":", "~/"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := redact.Line(text)
		if strings.ContainsAny(got, "\n\t") || len(got) > 600 {
			t.Errorf("Line(%q) = %q", text, got)
		}
		if utf8.ValidString(text) && !utf8.ValidString(got) {
			t.Errorf("Line(%q) = %q, not UTF-8", text, got)
		}
	})
}
