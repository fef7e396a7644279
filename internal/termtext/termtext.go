// Package termtext prepares texts for a terminal: names quoted for a shell, text of
// other parties without control characters, and the nearest match of a misspelt word.
package termtext

import (
	"fmt"
	"strings"
	"unicode"
)

// ShellWord returns a word for a shell's command line, for hints that name a command:
// quoted where needed, without characters that control a terminal.
func ShellWord(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@+,=%", r))
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(Printable(s), "'", `'\''`) + "'"
}

// Printable replaces the characters of a text that could move a terminal's cursor or
// colour it by spaces: models, tools and plugins write parts of texts.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return ' '
		}
		return r
	}, s)
}

// Thousands writes a number with a comma between each three digits: 1,234,567.
func Thousands(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
