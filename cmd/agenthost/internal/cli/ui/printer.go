package ui

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/runevent"
	"github.com/agenthost/agenthost/internal/termtext"
)

// Printer shows a run's events to a person as they happen: the text of answers on one
// stream, and the steps that led to it on another.
type Printer struct {
	answers, steps io.Writer

	labels bool // answers name their agents
	color  bool
	agent  string
	inText bool // the cursor is behind streamed text

	columns int      // that a step may take; 0: any number
	tools   []string // that run
	rest    func()   // ends the activity that is shown

	term    *Terminal
	console *Console
}

// NewPrinter returns a printer of one run that shows all of it on stdout.
func NewPrinter(t *Terminal) *Printer {
	return &Printer{answers: t.Out, steps: t.Out, labels: true, color: t.Coloured(), columns: t.Width(), term: t, console: t.Console()}
}

// NewRunPrinter returns a printer of one run whose answer alone is on stdout, and its
// steps on steps: stderr, or [io.Discard]. An answer names its agent for a person only:
// a program gets the text.
func NewRunPrinter(t *Terminal, steps io.Writer) *Printer {
	return &Printer{answers: t.Out, steps: steps, labels: t.OutIsTerminal, color: t.ErrColoured(), columns: t.ErrWidth(), term: t, console: t.Console()}
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
	fmt.Fprintf(p.steps, format+"\n", args...)
}

// step writes one line about a step of the run, as much of it as the terminal is wide.
func (p *Printer) step(format string, args ...any) {
	p.Line("%s", CutLines(fmt.Sprintf(format, args...), p.columns))
}

// working shows what the run waits for; "" is nothing.
func (p *Printer) working(what string) {
	if p.rest != nil {
		p.rest()
		p.rest = nil
	}
	if what != "" {
		p.rest = p.term.Working(what)
	}
}

// Close ends the display of a run. It may be called twice.
func (p *Printer) Close() {
	p.working("")
	p.EndText()
}

// EndText ends the line of streamed text, if there is one.
func (p *Printer) EndText() {
	if p.inText {
		fmt.Fprintln(p.answers)
		p.inText = false
		p.console.text(false)
	}
}

// Event shows one event.
func (p *Printer) Event(ev host.Event) {
	p.activity(ev.Data)
	switch d := ev.Data.(type) {
	case *runevent.RouteChosen:
		p.route(d)
	case *runevent.AgentStarted:
		p.agent = ev.Agent
	case *runevent.ProcessorRan:
		p.processor(d)
	case *runevent.ProviderRan:
		p.step("  %s %s", p.Paint(Dim, "provider"), d.Provider)
	case *runevent.ModelRetried:
		p.Line("  %s", p.Paint(Yellow, fmt.Sprintf("model did not answer (%s); asking again", termtext.Printable(d.Reason))))
	case *runevent.ModelFellBack:
		p.Line("  %s", p.Paint(Yellow, fmt.Sprintf("model %s does not answer (%s); asking %s", termtext.Printable(d.From), termtext.Printable(d.Reason), termtext.Printable(d.To))))
	case *runevent.TextDelta:
		p.text(d.Text)
	case *runevent.ToolStarted:
		p.step("  %s %s %s", p.Paint(Cyan, "tool"), termtext.Printable(d.Name), p.Paint(Dim, Clip(string(d.Arguments))))
	case *runevent.ToolProgress:
		p.step("       %s %s", p.Paint(Dim, termtext.Printable(d.Kind)), Clip(string(d.Data)))
	case *runevent.ToolFinished:
		p.toolResult(d)
	case *runevent.Interrupted:
		p.Line("  %s", p.Paint(Yellow, QuestionText(d.Question)))
	case *runevent.ArtifactMade:
		p.step("  %s %s", p.Paint(Dim, "artifact"), termtext.Printable(d.Artifact.Name))
	case *runevent.RunFinished:
		p.finished(d)
	}
}

// activity shows what the run waits for after an event.
func (p *Printer) activity(data host.EventData) {
	switch d := data.(type) {
	case *runevent.RunStarted:
		p.working("run")
	case *runevent.ModelCalled:
		p.working("model " + d.Model)
	case *runevent.ToolStarted:
		p.tools = append(p.tools, d.Name)
		p.working("tool " + d.Name)
	case *runevent.ToolFinished:
		if i := slices.Index(p.tools, d.Name); i >= 0 {
			p.tools = slices.Delete(p.tools, i, i+1)
		}
		if n := len(p.tools); n > 0 {
			p.working("tool " + p.tools[n-1])
			return
		}
		p.working("run")
	case *runevent.RunFinished:
		p.working("")
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
	p.step("%s %s → %s%s%s", p.Paint(Dim, "router"), d.Router, p.Paint(Bold, termtext.Printable(who)), reason, p.cost(d.Cost))
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
	p.step("  %s %s (%s) %s, %s%s", p.Paint(Dim, "history"), d.Processor, d.Level, what, counts, p.cost(d.Cost))
}

func (p *Printer) toolResult(d *runevent.ToolFinished) {
	mark := p.Paint(Cyan, "  →")
	if d.IsError {
		mark = p.Paint(Red, "  ✗")
	}
	p.step("  %s %s%s", mark, Clip(string(d.Content)), p.cost(d.Cost))
}

func (p *Printer) text(s string) {
	if !p.inText {
		if p.labels {
			fmt.Fprintf(p.answers, "%s ", p.Paint(Bold, termtext.Printable(p.agent)+":"))
		}
		p.inText = true
		p.console.text(true)
	}
	fmt.Fprint(p.answers, termtext.Printable(s))
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
	p.step("%s", p.Paint(Dim, fmt.Sprintf("%s · %s · %s instructions in the sandbox · %s%s in, %s%d out",
		d.FinishReason, took, termtext.Thousands(d.Cost.Instructions), about, Plural(d.Usage.InputTokens, "token"), about, d.Usage.OutputTokens)))
}
