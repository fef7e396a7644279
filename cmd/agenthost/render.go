package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/internal/termtext"
)

// printer shows a run's events to a person as they happen.
type printer struct {
	w      io.Writer
	color  bool
	agent  string
	inText bool // the cursor is behind streamed text

	console *console
}

func newPrinter(t *terminal) *printer {
	return &printer{w: t.Out, color: t.coloured(), console: t.console()}
}

const (
	dim    = "2"
	bold   = "1"
	red    = "31"
	yellow = "33"
	cyan   = "36"
)

func (p *printer) paint(style, text string) string {
	if !p.color || text == "" {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

// line writes one line, ending streamed text first.
func (p *printer) line(format string, args ...any) {
	p.endText()
	fmt.Fprintf(p.w, format+"\n", args...)
}

func (p *printer) endText() {
	if p.inText {
		fmt.Fprintln(p.w)
		p.inText = false
		p.console.text(false)
	}
}

// event shows one event.
func (p *printer) event(ev host.Event) {
	switch d := ev.Data.(type) {
	case *host.RouteChosen:
		p.route(d)
	case *host.AgentStarted:
		p.agent = ev.Agent
	case *host.ProcessorRan:
		p.processor(d)
	case *host.ProviderRan:
		p.line("  %s %s", p.paint(dim, "provider"), d.Provider)
	case *host.ModelRetried:
		p.line("  %s", p.paint(yellow, fmt.Sprintf("model did not answer (%s); asking again", termtext.Printable(d.Reason))))
	case *host.ModelFellBack:
		p.line("  %s", p.paint(yellow, fmt.Sprintf("model %s does not answer (%s); asking %s", termtext.Printable(d.From), termtext.Printable(d.Reason), termtext.Printable(d.To))))
	case *host.TextDelta:
		p.text(d.Text)
	case *host.ToolStarted:
		p.line("  %s %s %s", p.paint(cyan, "tool"), termtext.Printable(d.Name), p.paint(dim, clip(string(d.Arguments))))
	case *host.ToolProgress:
		p.line("       %s %s", p.paint(dim, termtext.Printable(d.Kind)), clip(string(d.Data)))
	case *host.ToolFinished:
		p.toolResult(d)
	case *host.Interrupted:
		p.line("  %s", p.paint(yellow, question(d.Question)))
	case *host.ArtifactMade:
		p.line("  %s %s", p.paint(dim, "artifact"), termtext.Printable(d.Artifact.Name))
	case *host.RunFinished:
		p.finished(d)
	}
}

func (p *printer) route(d *host.RouteChosen) {
	who := strings.Join(d.Next, ", ")
	if who == "" {
		who = "nobody: done"
	}
	reason := ""
	if d.Reason != "" {
		reason = " because " + termtext.Printable(d.Reason)
	}
	p.line("%s %s → %s%s%s", p.paint(dim, "router"), d.Router, p.paint(bold, termtext.Printable(who)), reason, p.cost(d.Cost))
}

func (p *printer) processor(d *host.ProcessorRan) {
	what := "unchanged"
	switch {
	case d.Skipped != nil:
		what = p.paint(yellow, "skipped: "+termtext.Printable(d.Skipped.Message))
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
	p.line("  %s %s (%s) %s, %s%s", p.paint(dim, "history"), d.Processor, d.Level, what, counts, p.cost(d.Cost))
}

func (p *printer) toolResult(d *host.ToolFinished) {
	mark := p.paint(cyan, "  →")
	if d.IsError {
		mark = p.paint(red, "  ✗")
	}
	p.line("  %s %s%s", mark, clip(string(d.Content)), p.cost(d.Cost))
}

func (p *printer) text(s string) {
	if !p.inText {
		fmt.Fprintf(p.w, "%s ", p.paint(bold, termtext.Printable(p.agent)+":"))
		p.inText = true
		p.console.text(true)
	}
	fmt.Fprint(p.w, termtext.Printable(s))
}

func (p *printer) cost(c *host.Cost) string {
	if c == nil {
		return ""
	}
	return p.paint(dim, fmt.Sprintf("  [%s instructions, %s]", termtext.Thousands(c.Instructions), time.Duration(c.DurationUS)*time.Microsecond))
}

func (p *printer) finished(d *host.RunFinished) {
	about := ""
	if d.Usage.Estimated {
		about = "~"
	}
	took := (time.Duration(d.DurationUS) * time.Microsecond).Round(100 * time.Microsecond)
	p.line("%s", p.paint(dim, fmt.Sprintf("%s · %s · %s instructions in the sandbox · %s%s in, %s%d out",
		d.FinishReason, took, termtext.Thousands(d.Cost.Instructions), about, plural(d.Usage.InputTokens, "token"), about, d.Usage.OutputTokens)))
}
