package talk

import (
	"context"
	"fmt"
	"time"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runevent"
	"github.com/agenthost/agenthost/host/trace"
	"github.com/agenthost/agenthost/internal/termtext"
)

// Record has the events of the last turn of a conversation, and the sums of all turns. The
// zero Record is of no turn.
type Record struct {
	events      []host.Event // of the last turn, without pieces of texts
	turns       int
	usage       host.Usage
	cost        host.Cost
	duration    int64 // microseconds
	lastUsage   host.Usage
	lastCost    host.Cost
	lastElapsed int64
}

// maxRecorded bounds the events that are kept of the last turn.
const maxRecorded = 10_000

// Add records an event of a turn.
func (r *Record) Add(ev host.Event) {
	switch d := ev.Data.(type) {
	case *runevent.RunStarted:
		r.events = nil
	case *runevent.TextDelta, *runevent.ReasoningDelta, *llm.ToolCallDelta:
		return
	case *runevent.RunFinished:
		r.turns++
		r.lastUsage, r.lastCost, r.lastElapsed = d.Usage, d.Cost, d.DurationUS
		r.usage, r.duration = r.usage.Add(d.Usage), r.duration+d.DurationUS
		r.cost.Instructions += d.Cost.Instructions
	}
	if len(r.events) < maxRecorded {
		r.events = append(r.events, ev)
	}
}

// errNoTurn is the error of a command about the last turn before there was one.
func (r *Record) errNoTurn() error {
	if len(r.events) > 0 {
		return nil
	}
	return host.Errorf(host.NotFound, "there was no turn yet").WithHint("say something first")
}

// Commands are those that show the record.
func (r *Record) Commands(t *ui.Terminal) []Command {
	does := func(show func(*ui.Terminal) error) func(context.Context, string) error {
		return func(context.Context, string) error { return show(t) }
	}
	return []Command{
		{Name: "route", About: "which agents had the last turn, and why", Do: does(r.showRoute)},
		{Name: "why", About: "what the last turn did, as a tree", Do: does(r.showWhy)},
		{Name: "cost", About: "tokens, time and instructions of the last turn and of all", Do: does(r.showCost)},
	}
}

func (r *Record) showRoute(t *ui.Terminal) error {
	if err := r.errNoTurn(); err != nil {
		return err
	}
	show, routed := ui.NewPrinter(t), false
	for _, ev := range r.events {
		if _, ok := ev.Data.(*runevent.RouteChosen); ok {
			show.Event(ev)
			routed = true
		}
	}
	if !routed {
		fmt.Fprintln(t.Out, "One agent had the turn: nothing routes it.")
	}
	return nil
}

func (r *Record) showWhy(t *ui.Terminal) error {
	if err := r.errNoTurn(); err != nil {
		return err
	}
	run, err := trace.Of(r.events)
	if err != nil {
		return err
	}
	return ui.PrintTrace(t, run)
}

func (r *Record) showCost(t *ui.Terminal) error {
	if err := r.errNoTurn(); err != nil {
		return err
	}
	table := ui.NewTable(t, "", "TOKENS IN", "TOKENS OUT", "INSTRUCTIONS", "TIME")
	row := func(name string, u host.Usage, c host.Cost, us int64) {
		about := ""
		if u.Estimated {
			about = "~"
		}
		table.Row(name, about+termtext.Thousands(int64(u.InputTokens)), about+termtext.Thousands(int64(u.OutputTokens)),
			termtext.Thousands(c.Instructions), ui.ShortTime(us*int64(time.Microsecond)))
	}
	row("last turn", r.lastUsage, r.lastCost, r.lastElapsed)
	row(ui.Plural(r.turns, "turn"), r.usage, r.cost, r.duration)
	return table.Print()
}
