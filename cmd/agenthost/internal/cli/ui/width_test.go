package ui

import (
	"slices"
	"testing"
)

func TestCutWidthCountsColumns(t *testing.T) {
	for _, row := range []struct {
		in      string
		columns int
		want    string
	}{
		{"short", 10, "short"},
		{"exactly ten", 11, "exactly ten"},
		{"one too long", 11, "one too lo…"},
		{"東京都庁", 8, "東京都庁"},
		{"東京都庁", 7, "東京都…"},
		{"東京都庁", 6, "東京…"}, // a half of a character is not shown
		{"e\u0301e\u0301e\u0301", 2, "e\u0301…"},
		{"👩‍👩‍👧 family", 4, "👩‍👩‍👧 …"},
		{"\x1b[31mred and long\x1b[0m", 4, "\x1b[31mred…\x1b[0m"},
		{"any length", 0, "any length"},
	} {
		got := CutWidth(row.in, row.columns)
		if got != row.want {
			t.Errorf("CutWidth(%q, %d) = %q, want %q", row.in, row.columns, got, row.want)
		}
		if row.columns > 0 && TextWidth(got) > row.columns {
			t.Errorf("%q takes %d columns, more than %d", got, TextWidth(got), row.columns)
		}
	}
}

func TestWrapWidthBreaksAtSpaces(t *testing.T) {
	for _, row := range []struct {
		in      string
		columns int
		want    []string
	}{
		{"short", 10, []string{"short"}},
		{"two words", 3, []string{"two", "wor", "ds"}},
		{"two words", 9, []string{"two words"}},
		{"  a list of words", 8, []string{"  a list", "of words"}},
		{"東京都庁 is far", 7, []string{"東京都", "庁 is", "far"}},
		{"\x1b[31mred and long\x1b[0m", 7, []string{"\x1b[31mred and", "long\x1b[0m"}},
		{"東", 1, []string{"東"}}, // nothing is narrower
		{"any length", 0, []string{"any length"}},
	} {
		if got := WrapWidth(row.in, row.columns); !slices.Equal(got, row.want) {
			t.Errorf("WrapWidth(%q, %d) = %q, want %q", row.in, row.columns, got, row.want)
		}
	}
}
