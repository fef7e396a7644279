package ui

import (
	"strings"
	"testing"
)

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

func TestATableThatCannotFitIsBlocks(t *testing.T) {
	head := []string{"KEY", "NAME", "SCOPES", "CREATED", "EXPIRES", "LAST USED"}
	row := []string{"abcd2345", "of the shop", "runs:write,threads:read,threads:write", "2026-11-28 10:20:30", "never", "2026-11-28 10:20:31"}
	for columns, want := range map[int]string{
		200: "KEY       NAME         SCOPES                                 CREATED              EXPIRES  LAST USED\n" +
			"abcd2345  of the shop  runs:write,threads:read,threads:write  2026-11-28 10:20:30  never    2026-11-28 10:20:31\n",
		100: "KEY       NAME         SCOPES                                 CREATED     EXPIRES  LAST USED\n" +
			"abcd2345  of the shop  runs:write,threads:read,threads:write  2026-11-28  never    2026-11-28\n",
		80: "KEY       NAME         SCOPES                    CREATED     EXPIRES  LAST USED\n" +
			"abcd2345  of the shop  runs:write,threads:read…  2026-11-28  never    2026-11-28\n",
		40: "KEY        abcd2345\nNAME       of the shop\nSCOPES     runs:write,threads:read,threa\n           ds:write\n" +
			"CREATED    2026-11-28 10:20:30\nEXPIRES    never\nLAST USED  2026-11-28 10:20:31\n",
	} {
		var out strings.Builder
		table := NewTable(&Terminal{Out: &out, OutIsTerminal: true, Columns: func() int { return columns }}, head...)
		table.Row(row...)
		if err := table.Print(); err != nil {
			t.Fatal(err)
		}
		if out.String() != want {
			t.Errorf("in %d columns the table is\n%swant\n%s", columns, out.String(), want)
		}
	}
}

func TestPairsBreakTheirTexts(t *testing.T) {
	var pairs Pairs
	pairs.Row("/help", "list these commands and what they do")
	pairs.Row("/save FILE", "")
	pairs.Row("", "a/long/path/without/a/space")
	for columns, want := range map[int]string{
		0:  "/help       list these commands and what they do\n/save FILE\n            a/long/path/without/a/space\n",
		30: "/help       list these\n            commands and what\n            they do\n/save FILE\n            a/long/path/withou\n            t/a/space\n",
	} {
		if got := pairs.Text(columns); got != want {
			t.Errorf("in %d columns the pairs are\n%swant\n%s", columns, got, want)
		}
	}
}
