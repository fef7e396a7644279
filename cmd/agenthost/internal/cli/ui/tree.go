package ui

import (
	"fmt"
	"io"
	"strings"

	"github.com/agenthost/agenthost/host/trace"
)

// leastTreeColumns is how wide a terminal is at least on which the tree of a run has columns
// of times, tokens and instructions before it.
const leastTreeColumns = 80

// leastTreeText is the width below which the text of a step is not narrowed.
const leastTreeText = 12

// PrintTrace prints the tree of a run. On a terminal long texts are broken into lines, and
// on a narrow one the numbers of a step are behind its text.
func PrintTrace(t *Terminal, run *trace.Run) error {
	columns := t.Width()
	if columns <= 0 {
		return run.Write(t.Out)
	}
	var out strings.Builder
	for i, l := range run.Lines() {
		l.Text = strings.TrimRight(l.Text, " ")
		step := l.String()
		if columns < leastTreeColumns {
			if i > 0 { // the first line has no numbers: it names them
				l.Text += stepNumbers(l)
			}
			step = l.Tree + l.Text
		}
		before := strings.TrimSuffix(step, l.Text)
		below := strings.Repeat(" ", TextWidth(before)-TextWidth(l.Tree)) + strings.NewReplacer("├", "│", "└", " ").Replace(l.Tree)
		for _, line := range WrapWidth(l.Text, max(columns-TextWidth(before), leastTreeText)) {
			fmt.Fprintln(&out, strings.TrimRight(before+line, " "))
			before = below
		}
	}
	_, err := io.WriteString(t.Out, out.String())
	return err
}

// stepNumbers returns what a step took, behind its text.
func stepNumbers(l trace.Line) string {
	var words []string
	if l.Took != "" {
		words = append(words, l.Took)
	}
	if l.Tokens != "" {
		words = append(words, l.Tokens+" tokens")
	}
	if l.Instructions != "" {
		words = append(words, l.Instructions+" instructions")
	}
	if len(words) == 0 {
		return ""
	}
	return " · " + strings.Join(words, " · ")
}
