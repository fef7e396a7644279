// Package guesttext makes the texts of guests fit to be shown. In goes text that a
// plugin's author or its guest chose, out comes text that forges no lines and controls no
// terminal. It knows nothing of what the text says.
package guesttext

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clean makes a guest's text fit to be shown: control characters, which could forge lines
// or colour a terminal, become spaces, and invalid UTF-8 is marked.
func Clean(s string) string {
	if utf8.ValidString(s) && !strings.ContainsFunc(s, IsUnsafe) {
		return s
	}
	return strings.Map(func(r rune) rune {
		if IsUnsafe(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
}

// IsUnsafe reports whether a character could forge a line or control a terminal.
func IsUnsafe(r rune) bool {
	return unicode.IsControl(r) && r != '\n' && r != '\t' ||
		r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 // text direction
}
