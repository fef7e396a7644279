package trace

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/agenthost/agenthost/host"
)

// Line is a line of a run as people read it: a step, behind the branches of its tree, and
// what it took. It has no control characters.
type Line struct {
	Took, Tokens, Instructions string // "" if there is none

	Tree string // the branches
	Text string
}

// Write writes a run as a tree for people: before each line how long it took,
// how many tokens went in and out, and how many instructions the sandbox ran.
// Control characters are replaced.
func (r *Run) Write(w io.Writer) error {
	out := bufio.NewWriter(w)
	for _, l := range r.Lines() {
		fmt.Fprintln(out, l)
	}
	return out.Flush()
}

// String returns a line as [Run.Write] writes it. The columns are as wide as people's runs
// need.
func (l Line) String() string {
	return strings.TrimRight(padded(l.Took, 9)+"  "+padded(l.Tokens, 13)+"  "+padded(l.Instructions, 13)+"  "+l.Tree+l.Text, " ")
}

// Lines returns the lines that [Run.Write] writes. The first has the names of the columns.
func (r *Run) Lines() []Line {
	t := &tree{}
	t.line("TIME", "TOKENS", "INSTRUCTIONS", "", "run "+r.Run)
	t.line(duration(r.DurationUS), tokens(&r.Usage), instructions(&r.Cost), "", r.headline())
	t.children(r.Spans, "")
	if r.Error != nil {
		t.line("", "", "", "", "✗ "+errorText(r.Error))
	}
	if r.Damaged > 0 {
		t.line("", "", "", "", fmt.Sprintf("(%d events could not be read)", r.Damaged))
	}
	return t.lines
}

func (r *Run) headline() string {
	words := []string{r.Target}
	if r.Tenant != "" {
		words = append(words, "tenant "+r.Tenant)
	}
	if r.Thread != "" {
		words = append(words, "thread "+r.Thread)
	}
	if r.Resumes != "" {
		words = append(words, "answers run "+r.Resumes)
	}
	how := string(r.FinishReason)
	if !r.Finished {
		how = "not finished"
	}
	return fmt.Sprintf("%s: %s, %s", strings.Join(words, ", "), how, r.Began.Local().Format(time.DateTime))
}

// tree collects the lines of a run.
type tree struct{ lines []Line }

func (t *tree) line(took, tokens, instructions, branches, text string) {
	t.lines = append(t.lines, Line{Took: took, Tokens: tokens, Instructions: instructions, Tree: branches, Text: plain(text)})
}

// padded is a text at the right of a column.
func padded(s string, width int) string {
	return strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s))) + s
}

func (t *tree) children(list []*Span, indent string) {
	for i, s := range list {
		mark, below := "├ ", "│ "
		if i == len(list)-1 {
			mark, below = "└ ", "  "
		}
		t.span(s, indent+mark)
		t.children(s.Spans, indent+below)
	}
}

func (t *tree) span(s *Span, branches string) {
	text := strings.TrimSpace(s.Kind + " " + s.Name)
	if s.Detail != "" {
		text += "  " + s.Detail
	}
	if s.FirstUS > 0 {
		text += "  (first after " + duration(s.FirstUS) + ")"
	}
	if s.Error != nil {
		text += "  ✗ " + errorText(s.Error)
	}
	if s.Open {
		text += "  (not ended)"
	}
	took := ""
	if s.DurationUS > 0 {
		took = duration(s.DurationUS)
	}
	t.line(took, tokens(s.Usage), instructions(s.Cost), branches, text)
}

func errorText(e *host.Error) string { return string(e.Code) + ": " + clip(e.Message) }

// duration is a time with as many digits as matter.
func duration(us int64) string {
	d := time.Duration(us) * time.Microsecond
	switch {
	case d < time.Millisecond:
	case d < time.Second:
		d = d.Round(100 * time.Microsecond)
	default:
		d = d.Round(10 * time.Millisecond)
	}
	return d.String()
}

func tokens(u *host.Usage) string {
	if u == nil || u.Total() == 0 {
		return ""
	}
	about := ""
	if u.Estimated {
		about = "~"
	}
	return fmt.Sprintf("%s%d → %d", about, u.InputTokens, u.OutputTokens)
}

func instructions(c *host.Cost) string {
	if c == nil || c.Instructions == 0 {
		return ""
	}
	s := fmt.Sprint(c.Instructions)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// plain removes characters that could move a terminal's cursor from a text of
// models and plugins.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return ' '
		}
		return r
	}, s)
}
