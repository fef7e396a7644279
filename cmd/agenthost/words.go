package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/agenthost/agenthost/internal/termtext"
)

// plural counts something for people: 1 message, 1,500 messages.
func plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return termtext.Thousands(int64(n)) + " " + noun
}

func clip(s string) string {
	r := []rune(s)
	if len(r) > maxShown {
		s = string(r[:maxShown]) + "…"
	}
	return termtext.Printable(s)
}

// maxShown is how many runes of arguments and results are shown.
const maxShown = 200

func oneLine(s string) string { return termtext.Printable(strings.Join(strings.Fields(s), " ")) }

// shortTime writes nanoseconds with three significant digits.
func shortTime(ns int64) string {
	unit := time.Nanosecond
	for d := time.Duration(ns); d >= 1000*unit; unit *= 10 {
	}
	return time.Duration(ns).Round(unit).String()
}

// shortBytes writes a size in the largest unit that leaves one digit.
func shortBytes(n int64) string {
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

// byteWords is a number of bytes for people.
func byteWords(n int64) string {
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
