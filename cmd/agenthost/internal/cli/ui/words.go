package ui

import (
	"fmt"
	"strings"
	"time"

	"github.com/agenthost/agenthost/internal/termtext"
)

// Plural counts something for people: 1 message, 1,500 messages.
func Plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return termtext.Thousands(int64(n)) + " " + noun
}

// Clip returns the beginning of a text without control sequences.
func Clip(s string) string {
	r := []rune(s)
	if len(r) > maxShown {
		s = string(r[:maxShown]) + "…"
	}
	return termtext.Printable(s)
}

// maxShown is how many runes of arguments and results are shown.
const maxShown = 200

// Wrap breaks a text into lines of at most so many columns, between words where it can.
func Wrap(s string, columns int) string {
	var out strings.Builder
	at := 0
	for word := range strings.FieldsSeq(s) {
		width := TextWidth(word)
		switch {
		case at > 0 && at+1+width > columns:
			out.WriteByte('\n')
			at = 0
		case at > 0:
			out.WriteByte(' ')
			at++
		}
		out.WriteString(word)
		at += width
	}
	return out.String()
}

// OneLine returns a text on one line, without control sequences.
func OneLine(s string) string { return termtext.Printable(strings.Join(strings.Fields(s), " ")) }

// ShortTime writes nanoseconds with three significant digits.
func ShortTime(ns int64) string {
	unit := time.Nanosecond
	for d := time.Duration(ns); d >= 1000*unit; unit *= 10 {
	}
	return time.Duration(ns).Round(unit).String()
}

// ShortBytes writes a size in the largest unit that leaves one digit.
func ShortBytes(n int64) string {
	for _, u := range []struct {
		n    int64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= u.n {
			return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(n)/float64(u.n)), ".0") + " " + u.name
		}
	}
	return fmt.Sprintf("%d B", n)
}

// ByteWords is a number of bytes for people.
func ByteWords(n int64) string {
	switch {
	case n < 10_000:
		return fmt.Sprintf("%d bytes", n)
	case n < 10_000_000:
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	case n < 10_000_000_000:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%.1f GB", float64(n)/1e9)
}
