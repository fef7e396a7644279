package ui

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/runevent"
	"github.com/agenthost/agenthost/internal/termtext"
)

// Printer shows a run's events to a person as they happen.
type Printer struct {
	w      io.Writer
	color  bool
	agent  string
	inText bool // the cursor is behind streamed text

	console *Console
}

// NewPrinter returns a printer of one run on t.
func NewPrinter(t *Terminal) *Printer {
	return &Printer{w: t.Out, color: t.Coloured(), console: t.Console()}
}

// The styles of [Printer.Paint].
const (
	Dim    = "2"
	Bold   = "1"
	Red    = "31"
	Yellow = "33"
	Cyan   = "36"
)

// Paint returns text in a style, if the terminal shows colours.
func (p *Printer) Paint(style, text string) string {
	if !p.color || text == "" {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

// Line writes one line, ending streamed text first.
func (p *Printer) Line(format string, args ...any) {
	p.EndText()
	fmt.Fprintf(p.w, format+"\n", args...)
}

// EndText ends the line of streamed text, if there is one.
func (p *Printer) EndText() {
	if p.inText {
		fmt.Fprintln(p.w)
		p.inText = false
		p.console.text(false)
	}
}

// Event shows one event.
func (p *Printer) Event(ev host.Event) {
	switch d := ev.Data.(type) {
	case *runevent.RouteChosen:
		p.route(d)
	case *runevent.AgentStarted:
		p.agent = ev.Agent
	case *runevent.ProcessorRan:
		p.processor(d)
	case *runevent.ProviderRan:
		p.Line("  %s %s", p.Paint(Dim, "provider"), d.Provider)
	case *runevent.ModelRetried:
		p.Line("  %s", p.Paint(Yellow, fmt.Sprintf("model did not answer (%s); asking again", termtext.Printable(d.Reason))))
	case *runevent.ModelFellBack:
		p.Line("  %s", p.Paint(Yellow, fmt.Sprintf("model %s does not answer (%s); asking %s", termtext.Printable(d.From), termtext.Printable(d.Reason), termtext.Printable(d.To))))
	case *runevent.TextDelta:
		p.text(d.Text)
	case *runevent.ToolStarted:
		p.Line("  %s %s %s", p.Paint(Cyan, "tool"), termtext.Printable(d.Name), p.Paint(Dim, Clip(string(d.Arguments))))
	case *runevent.ToolProgress:
		p.Line("       %s %s", p.Paint(Dim, termtext.Printable(d.Kind)), Clip(string(d.Data)))
	case *runevent.ToolFinished:
		p.toolResult(d)
	case *runevent.Interrupted:
		p.Line("  %s", p.Paint(Yellow, QuestionText(d.Question)))
	case *runevent.ArtifactMade:
		p.Line("  %s %s", p.Paint(Dim, "artifact"), termtext.Printable(d.Artifact.Name))
	case *runevent.RunFinished:
		p.finished(d)
	}
}

func (p *Printer) route(d *runevent.RouteChosen) {
	who := strings.Join(d.Next, ", ")
	if who == "" {
		who = "nobody: done"
	}
	reason := ""
	if d.Reason != "" {
		reason = " because " + termtext.Printable(d.Reason)
	}
	p.Line("%s %s → %s%s%s", p.Paint(Dim, "router"), d.Router, p.Paint(Bold, termtext.Printable(who)), reason, p.cost(d.Cost))
}

func (p *Printer) processor(d *runevent.ProcessorRan) {
	what := "unchanged"
	switch {
	case d.Skipped != nil:
		what = p.Paint(Yellow, "skipped: "+termtext.Printable(d.Skipped.Message))
	case d.Changed:
		what = "changed"
	}
	counts := fmt.Sprintf("%d→%d messages", d.MessagesBefore, d.MessagesAfter)
	if d.TokensBefore >= 0 {
		about := ""
		if d.Approximate {
			about = "~"
		}
		counts += fmt.Sprintf(", %s%d→%d tokens", about, d.TokensBefore, d.TokensAfter)
	}
	p.Line("  %s %s (%s) %s, %s%s", p.Paint(Dim, "history"), d.Processor, d.Level, what, counts, p.cost(d.Cost))
}

func (p *Printer) toolResult(d *runevent.ToolFinished) {
	mark := p.Paint(Cyan, "  →")
	if d.IsError {
		mark = p.Paint(Red, "  ✗")
	}
	p.Line("  %s %s%s", mark, Clip(string(d.Content)), p.cost(d.Cost))
}

func (p *Printer) text(s string) {
	if !p.inText {
		fmt.Fprintf(p.w, "%s ", p.Paint(Bold, termtext.Printable(p.agent)+":"))
		p.inText = true
		p.console.text(true)
	}
	fmt.Fprint(p.w, termtext.Printable(s))
}

func (p *Printer) cost(c *host.Cost) string {
	if c == nil {
		return ""
	}
	return p.Paint(Dim, fmt.Sprintf("  [%s instructions, %s]", termtext.Thousands(c.Instructions), time.Duration(c.DurationUS)*time.Microsecond))
}

func (p *Printer) finished(d *runevent.RunFinished) {
	about := ""
	if d.Usage.Estimated {
		about = "~"
	}
	took := (time.Duration(d.DurationUS) * time.Microsecond).Round(100 * time.Microsecond)
	p.Line("%s", p.Paint(Dim, fmt.Sprintf("%s · %s · %s instructions in the sandbox · %s%s in, %s%d out",
		d.FinishReason, took, termtext.Thousands(d.Cost.Instructions), about, Plural(d.Usage.InputTokens, "token"), about, d.Usage.OutputTokens)))
}
