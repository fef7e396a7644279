package ui

import (
	"strings"
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

func TestTablesFitTheTerminal(t *testing.T) {
	const a, b = "01a20916-2388-7261-9679-78f81bda95b7", "01a20916-2388-7262-8001-78f81bda95b7"
	for _, columns := range []int{20, 40, 60, 80, 200} {
		var out strings.Builder
		table := NewTable(&Terminal{Out: &out, OutIsTerminal: true, Columns: func() int { return columns }}, "THREAD", "MESSAGES", "TITLE")
		table.Row(a, "2", "東京 and a title that is long, but not the longest of all")
		table.Row(b, "12", "x")
		if err := table.Print(); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if n := TextWidth(strings.TrimSuffix(line, "\n")); n > columns {
				t.Errorf("in %d columns a line takes %d: %q", columns, n, line)
			}
		}
		whole := strings.Contains(out.String(), a) && strings.Contains(out.String(), b)
		if short := "01a20916-2388-7261  "; columns == 200 != whole || columns == 80 && !strings.Contains(out.String(), short) {
			t.Errorf("in %d columns the ids are\n%s\nwant whole ones where they fit, and ones that can be told apart where not", columns, out.String())
		}
	}
	var out strings.Builder
	table := NewTable(&Terminal{Out: &out, Columns: func() int { return 10 }}, "THREAD", "TITLE")
	table.Row(a, strings.Repeat("long ", 20))
	if err := table.Print(); err != nil || !strings.Contains(out.String(), strings.Repeat("long ", 19)) {
		t.Errorf("a table that no person reads is cut:\n%s%v", out.String(), err)
	}
}
