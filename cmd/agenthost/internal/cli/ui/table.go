package ui

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Table is rows under a head, in columns as wide as their longest cell. On a terminal that
// is too narrow ids are shortened first, to what tells them apart, then times, and then
// columns of words. Where that is not enough each row is a block of lines, a cell each.
type Table struct {
	term *Terminal
	rows [][]string
}

// NewTable begins a table on t.Out with its head.
func NewTable(t *Terminal, head ...string) *Table {
	b := &Table{term: t}
	if len(head) > 0 {
		b.Row(head...)
	}
	return b
}

// Row adds a row.
func (b *Table) Row(cells ...string) { b.rows = append(b.rows, cells) }

// columnGap is the space between two columns.
const columnGap = 2

// Print writes the table.
func (b *Table) Print() error {
	columns := b.term.Width()
	text := joinRows(b.rows, columnWidths(b.rows))
	if columns > 0 && total(columnWidths(b.rows)) > columns {
		text = fitRows(b.rows, columns)
	}
	_, err := b.term.Out.Write([]byte(text))
	return err
}

// PrintOr is Print for a list, of which a table with nothing below its head says the words.
func (b *Table) PrintOr(format string, args ...any) error {
	if len(b.rows) > 1 {
		return b.Print()
	}
	_, err := fmt.Fprintf(b.term.Out, format, args...)
	return err
}

// fitRows returns rows that are too wide in so many columns.
func fitRows(rows [][]string, columns int) string {
	whole := shortIDs(rows)
	rows = whole
	for _, length := range []int{len("2006-01-02 15:04"), len("2006-01-02")} {
		if total(columnWidths(rows)) > columns {
			rows = shortTimes(rows, length)
		}
	}
	if widths, fits := narrow(columnWidths(rows), leastWidths(rows, columns), columns); fits {
		return joinRows(rows, widths)
	}
	return blocks(whole, columns)
}

// joinRows returns rows with their cells cut and padded to widths.
func joinRows(rows [][]string, widths []int) string {
	var out strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			cell = CutWidth(cell, widths[i])
			line.WriteString(cell)
			line.WriteString(strings.Repeat(" ", max(0, widths[i]-TextWidth(cell)+columnGap)))
		}
		out.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return out.String()
}

// blocks returns each row below the head as lines of a name and a cell. Empty cells are left
// out.
func blocks(rows [][]string, columns int) string {
	names := 0
	for _, name := range rows[0] {
		names = max(names, TextWidth(name))
	}
	var out strings.Builder
	for i, row := range rows[1:] {
		if i > 0 {
			out.WriteByte('\n')
		}
		for i, name := range rows[0] {
			if i < len(row) && row[i] != "" {
				writePair(&out, name, row[i], names, columns)
			}
		}
	}
	return out.String()
}

// leastValue is the width below which the text of a pair is not narrowed.
const leastValue = 8

// writePair writes a name and a text, which is broken into lines that begin below its first.
func writePair(out *strings.Builder, name, text string, names, columns int) {
	names += columnGap
	room := 0
	if columns > 0 {
		room = max(columns-names, leastValue)
	}
	begin := name + strings.Repeat(" ", max(0, names-TextWidth(name)))
	for _, line := range WrapWidth(text, room) {
		out.WriteString(strings.TrimRight(begin+line, " ") + "\n")
		begin = strings.Repeat(" ", names)
	}
}

// Pairs are names with texts, a text beside its name. On a terminal long texts are broken
// into lines below each other.
type Pairs struct{ rows [][2]string }

// Row adds a name and its text.
func (p *Pairs) Row(name, text string) { p.rows = append(p.rows, [2]string{name, text}) }

// Text returns the lines of the pairs, for so many columns; 0 breaks none.
func (p *Pairs) Text(columns int) string {
	names := 0
	for _, row := range p.rows {
		names = max(names, TextWidth(row[0]))
	}
	var out strings.Builder
	for _, row := range p.rows {
		writePair(&out, row[0], row[1], names, columns)
	}
	return out.String()
}

// Print writes the pairs on a terminal.
func (p *Pairs) Print(t *Terminal) error {
	_, err := t.Out.Write([]byte(p.Text(t.Width())))
	return err
}

func columnWidths(rows [][]string) []int {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], TextWidth(cell))
		}
	}
	return widths
}

func total(widths []int) int {
	n := columnGap * (len(widths) - 1)
	for _, w := range widths {
		n += w
	}
	return n
}

// leastColumn is the width below which a column of words is not narrowed.
const leastColumn = 10

// exact matches cells that say nothing if they are cut: ids, numbers, sizes and times.
var exact = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([0-9a-f]{8}(-[0-9a-f-]*)?|[~0-9][-0-9.,:% →]*([a-zA-Zµ]{1,3})?([0-9.]+[a-z]+)*)$`)
})

// leastWidths returns the widths below which columns are not narrowed. The first column
// names the rows: it keeps up to half of the terminal.
func leastWidths(rows [][]string, columns int) []int {
	least := columnWidths(rows)
	for i := range least {
		words := leastColumn
		if i == 0 {
			words = max(columns/2, leastColumn)
		}
		isExact := func(row []string) bool { return i < len(row) && exact().MatchString(row[i]) }
		if !slices.ContainsFunc(rows[1:], isExact) {
			least[i] = min(least[i], words)
		}
	}
	return least
}

// narrow takes columns from the widest one that may be narrowed until the table fits, and
// reports whether it does.
func narrow(widths, least []int, columns int) (narrowed []int, fits bool) {
	for total(widths) > columns {
		widest := -1
		for i, w := range widths {
			if w > least[i] && (widest < 0 || w >= widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return widths, false
		}
		widths[widest]--
	}
	return widths, true
}

// moment matches times as tables show them.
var moment = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}(:[0-9]{2})?$`)
})

// shortTimes cuts times to a length.
func shortTimes(rows [][]string, length int) [][]string {
	out := make([][]string, len(rows))
	for i, row := range rows {
		out[i] = slices.Clone(row)
		for j, cell := range row {
			if moment().MatchString(cell) {
				out[i][j] = cell[:length]
			}
		}
	}
	return out
}

// uuid matches ids that this program makes.
var uuid = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
})

// shortID is the least that is shown of an id: its time, to the millisecond.
const shortID = len("01a20916-2388")

// shortIDs shortens the ids of each column to a beginning that tells them apart. Commands
// take such a beginning for the id.
func shortIDs(rows [][]string) [][]string {
	out := make([][]string, len(rows))
	for i, row := range rows {
		out[i] = slices.Clone(row)
	}
	for column := range rows[0] {
		var ids []string
		for _, row := range rows {
			if column < len(row) && uuid().MatchString(row[column]) {
				ids = append(ids, row[column])
			}
		}
		n := uniquePrefix(ids)
		for _, row := range out {
			if column < len(row) && uuid().MatchString(row[column]) {
				row[column] = row[column][:n]
			}
		}
	}
	return out
}

// uniquePrefix returns how many characters tell ids apart, at least shortID.
func uniquePrefix(ids []string) int {
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	n := shortID
	for i := 1; i < len(ids); i++ {
		same := 0
		for same < len(ids[i]) && ids[i][same] == ids[i-1][same] {
			same++
		}
		n = max(n, same+1)
	}
	return n
}
