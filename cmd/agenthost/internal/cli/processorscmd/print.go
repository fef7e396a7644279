package processorscmd

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/scriptedmodel"
	"github.com/agenthost/agenthost/internal/termtext"
)

// The bounds of a printed diff.
const (
	maxDropsShown = 6  // in a row, unless all are wanted
	maxTextShown  = 90 // letters of a part
)

// print shows a trial to a person.
func (t *processorsTrial) print(r *tryResult) {
	p := ui.NewPrinter(t.term)
	about := ""
	switch {
	case r.Model == "" || r.Model == scriptedmodel.DefaultName:
		about = "; --model NAME counts as it does"
	case !r.Exact:
		about = ", which is a guess for " + termtext.Printable(r.Model)
	}
	p.Line("history  %s  (%s%s)", sizeWords(r.History), r.Encoding, about)
	if len(r.Processors) == 0 {
		p.Line("There are no processors in this chain.")
	}
	for i, step := range r.Processors {
		t.printStep(p, i+1, &step)
	}
	if n := len(r.Processors); n > 0 && r.Processors[n-1].Error != nil {
		return
	}
	p.Line("\nresult   %s: %s", sizeWords(r.Result), savedWords(r.History.less(r.Result), r.History))
}

func (t *processorsTrial) printStep(p *ui.Printer, n int, s *tryStep) {
	name := p.Paint(ui.Bold, termtext.Printable(s.Processor))
	if s.Level != "" {
		name += " (" + s.Level + ")"
	}
	took := ""
	if s.Cost != nil {
		took = p.Paint(ui.Dim, fmt.Sprintf("  [%s instructions, %s]", termtext.Thousands(s.Cost.Instructions), time.Duration(s.Cost.DurationUS)*time.Microsecond))
	}
	p.Line("\n%d. %s  %s%s", n, name, s.words(p), took)
	if s.Skipped != nil {
		p.Line("   %s", strings.ReplaceAll(termtext.Printable(ui.ErrorText(s.Skipped)), "\n", "\n   "))
	}
	t.printChanges(p, s.Changes)
	if len(s.Report) > 0 {
		p.Line("   report %s", ui.Clip(string(s.Report)))
	}
}

// words describes the effect of a processor in a line.
func (s *tryStep) words(p *ui.Printer) string {
	switch {
	case s.Skipped != nil:
		return p.Paint(ui.Yellow, "fails, and is skipped")
	case s.Error != nil:
		return p.Paint(ui.Red, "fails")
	case len(s.Changes) == 0:
		return "changes nothing"
	}
	count := map[string]int{}
	for _, c := range s.Changes {
		count[c.Op]++
	}
	var parts []string
	for _, op := range []struct{ name, done string }{{dropped, "dropped"}, {changed, "changed"}, {inserted, "inserted"}, {moved, "moved"}} {
		if count[op.name] > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", op.done, count[op.name]))
		}
	}
	return fmt.Sprintf("%s of %d: %s", strings.Join(parts, ", "), s.Before.Messages, savedWords(s.Saved, s.Before))
}

func sizeWords(s viewSize) string {
	return fmt.Sprintf("%s, %s, %s", ui.Plural(s.Messages, "message"), ui.Plural(s.Tokens, "token"), ui.Plural(s.Bytes, "byte"))
}

func savedWords(saved, of viewSize) string {
	verb := "saves"
	if saved.Tokens < 0 || saved.Tokens == 0 && saved.Bytes < 0 {
		verb, saved = "adds", viewSize{}.less(saved)
	}
	share := ""
	if of.Tokens > 0 {
		share = fmt.Sprintf(" (%d %%)", (saved.Tokens*100+of.Tokens/2)/of.Tokens)
	}
	return fmt.Sprintf("%s %s%s, %s", verb, ui.Plural(saved.Tokens, "token"), share, ui.Plural(saved.Bytes, "byte"))
}

func (t *processorsTrial) printChanges(p *ui.Printer, list []viewChange) {
	for len(list) > 0 {
		n := slices.IndexFunc(list, func(c viewChange) bool { return c.Op != dropped })
		if n < 0 {
			n = len(list)
		}
		if n <= maxDropsShown || t.flags.all {
			n = min(max(n, 1), len(list))
			for _, c := range list[:n] {
				printChange(p, &c)
			}
		} else {
			printDrops(p, list[:n])
		}
		list = list[n:]
	}
}

// printDrops shows the two ends of many messages dropped in a row.
func printDrops(p *ui.Printer, list []viewChange) {
	const ends = 2
	rest := list[ends : len(list)-ends]
	saved := 0
	for _, c := range rest {
		saved -= c.Tokens
	}
	for _, c := range list[:ends] {
		printChange(p, &c)
	}
	p.Line("   %s", p.Paint(ui.Dim, fmt.Sprintf("- ... and %d more in a row, %s (--all shows them)", len(rest), ui.Plural(saved, "token"))))
	for _, c := range list[len(list)-ends:] {
		printChange(p, &c)
	}
}

// printChange shows the change to one message.
func printChange(p *ui.Printer, c *viewChange) {
	sign := map[string]string{dropped: p.Paint(ui.Red, "-"), changed: p.Paint(ui.Yellow, "~"), inserted: p.Paint(ui.Cyan, "+"), moved: p.Paint(ui.Yellow, ">")}[c.Op]
	at := "new"
	if c.From != nil {
		at = fmt.Sprint(*c.From)
	}
	head := fmt.Sprintf("%s [%s] %s", sign, at, termtext.Printable(string(c.Role)))
	weight := p.Paint(ui.Dim, fmt.Sprintf("  %+d tokens", c.Tokens))
	switch {
	case c.Op == moved:
		p.Line("   %s to %d%s", head, *c.To, weight)
	case c.after == nil || c.before == nil:
		m := c.before
		if m == nil {
			m = c.after
		}
		p.Line("   %s  %s%s", head, strings.Join(shownParts(m), " · "), weight)
		return
	default:
		p.Line("   %s%s", head, weight)
	}
	printPartsDiff(p, c.before, c.after)
}

// printPartsDiff shows the parts that only one of two messages has. If both have as
// many, each is shown from where it differs.
func printPartsDiff(p *ui.Printer, before, after *host.Message) {
	was, is := partTexts(before), partTexts(after)
	var gone, come []string
	for i, s := range was {
		switch {
		case len(was) == len(is) && s != is[i]:
			from := max(commonRunes(s, is[i])-runesBefore, 0)
			gone, come = append(gone, shortenFrom(s, from)), append(come, shortenFrom(is[i], from))
		case len(was) != len(is) && !slices.Contains(is, s):
			gone = append(gone, shortenFrom(s, 0))
		}
	}
	for _, s := range is {
		if len(was) != len(is) && !slices.Contains(was, s) {
			come = append(come, shortenFrom(s, 0))
		}
	}
	for _, s := range gone {
		p.Line("       %s %s", p.Paint(ui.Red, "-"), s)
	}
	for _, s := range come {
		p.Line("       %s %s", p.Paint(ui.Cyan, "+"), s)
	}
}

// runesBefore is how many runes of two texts' common beginning are shown before they
// differ.
const runesBefore = 24

func commonRunes(a, b string) int {
	x, y := []rune(a), []rune(b)
	n := 0
	for n < len(x) && n < len(y) && x[n] == y[n] {
		n++
	}
	return n
}

// partTexts are the parts of a message as a line each, in full.
func partTexts(m *host.Message) []string {
	lines := make([]string, len(m.Parts))
	for i, part := range m.Parts {
		lines[i] = ui.OneLine(ui.PartText(part))
	}
	return lines
}

// shownParts are the parts of a message as a short line each.
func shownParts(m *host.Message) []string {
	lines := partTexts(m)
	for i := range lines {
		lines[i] = shortenFrom(lines[i], 0)
	}
	return lines
}

// shortenFrom returns at most maxTextShown runes of a text; a longer text starts at
// rune from.
func shortenFrom(s string, from int) string {
	r := []rune(s)
	mark := ""
	if from > 0 && len(r) > maxTextShown {
		r, mark = r[from:], "…"
	}
	if len(r) > maxTextShown {
		return mark + string(r[:maxTextShown-1]) + "…"
	}
	return mark + string(r)
}
