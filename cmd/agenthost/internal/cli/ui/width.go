package ui

import (
	"regexp"
	"strings"

	"github.com/rivo/uniseg"
)

// style matches the sequences that colour text, which take no place.
var style = regexp.MustCompile("\x1b\\[[0-9;]*m")

// TextWidth returns how many columns of a terminal a text takes: two for most East Asian
// characters and emoji, none for combining ones and colours.
func TextWidth(s string) int { return uniseg.StringWidth(style.ReplaceAllString(s, "")) }

// CutWidth returns a line that takes at most so many columns: a longer one ends with an
// ellipsis. A width of 0 or less is not known, and cuts nothing.
func CutWidth(s string, columns int) string {
	if columns <= 0 || TextWidth(s) <= columns {
		return s
	}
	var out strings.Builder
	room, coloured := columns-1, false
	for s != "" {
		if at := style.FindStringIndex(s); at != nil && at[0] == 0 {
			out.WriteString(s[:at[1]])
			s, coloured = s[at[1]:], true
			continue
		}
		cluster, rest, width, _ := uniseg.FirstGraphemeClusterInString(s, -1)
		if width > room {
			break
		}
		out.WriteString(cluster)
		s, room = rest, room-width
	}
	out.WriteString("…")
	if coloured {
		out.WriteString("\x1b[0m")
	}
	return out.String()
}

// CutLines cuts each line of a text: see [CutWidth].
func CutLines(s string, columns int) string {
	if columns <= 0 {
		return s
	}
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = CutWidth(lines[i], columns)
	}
	return strings.Join(lines, "\n")
}

// WrapWidth breaks a line into lines of at most so many columns, at spaces where it can.
// A width of 0 or less is not known, and breaks nothing.
func WrapWidth(s string, columns int) []string {
	var lines []string
	for columns > 0 && TextWidth(s) > columns {
		at := breakAt(s, columns)
		if at == len(s) { // one character that is wider
			break
		}
		lines = append(lines, strings.TrimRight(s[:at], " "))
		s = strings.TrimLeft(s[at:], " ")
	}
	return append(lines, s)
}

// breakAt returns where a line is broken that is longer than so many columns: behind the last
// space that fits, or where no more fits.
func breakAt(s string, columns int) int {
	at, space, room := 0, 0, columns
	for at < len(s) {
		if style := style.FindStringIndex(s[at:]); style != nil && style[0] == 0 {
			at += style[1]
			continue
		}
		cluster, _, width, _ := uniseg.FirstGraphemeClusterInString(s[at:], -1)
		if cluster == " " && strings.TrimLeft(s[:at], " ") != "" {
			space = at
		}
		if width > room && at > 0 {
			break
		}
		at, room = at+len(cluster), room-width
	}
	if space > 0 {
		return space
	}
	return at
}
