package ui

import (
	"regexp"
	"slices"
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

// Table is rows under a head, in columns as wide as their longest cell. On a terminal that
// is too narrow ids are shortened first, to what tells them apart, and then the widest
// columns.
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

// Write adds a row for each line, whose cells tabs separate. It takes whole lines.
func (b *Table) Write(lines []byte) (int, error) {
	for line := range strings.Lines(string(lines)) {
		b.Row(strings.Split(strings.TrimSuffix(line, "\n"), "\t")...)
	}
	return len(lines), nil
}

// columnGap is the space between two columns.
const columnGap = 2

// Print writes the table.
func (b *Table) Print() error {
	rows := b.rows
	widths := columnWidths(rows)
	if columns := b.term.Width(); columns > 0 && total(widths) > columns {
		rows = shortIDs(rows)
		widths = narrow(columnWidths(rows), columns)
	}
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
	_, err := b.term.Out.Write([]byte(out.String()))
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

// leastColumn is the width below which a column is not narrowed.
const leastColumn = 4

// narrow takes columns from the widest one until the table fits.
func narrow(widths []int, columns int) []int {
	for total(widths) > columns {
		widest := 0
		for i, w := range widths {
			if w >= widths[widest] {
				widest = i
			}
		}
		if widths[widest] <= leastColumn {
			break
		}
		widths[widest]--
	}
	return widths
}

// uuid matches ids that this program makes.
var uuid = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

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
			if column < len(row) && uuid.MatchString(row[column]) {
				ids = append(ids, row[column])
			}
		}
		n := uniquePrefix(ids)
		for _, row := range out {
			if column < len(row) && uuid.MatchString(row[column]) {
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
