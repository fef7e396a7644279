package tracecmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/trace"
)

// followEvery is how often the trace of a run is read while it is followed.
const followEvery = 200 * time.Millisecond

// follower prints a run line by line while it lasts.
type follower struct {
	group *group
	dir   string
	opts  *trace.ReadOptions

	run     string // that is printed
	printed int    // lines of its tree
	ended   bool
}

// follow prints a run until it ends. After [trace.Last] it prints the next runs, until ctx
// ends.
func (g *group) follow(ctx context.Context, dir, id string, opts *trace.ReadOptions) error {
	defer g.term.Idle()()
	f := &follower{group: g, dir: dir, opts: opts}
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		run, err := trace.Read(dir, id, opts)
		switch {
		case err != nil && id == trace.Last && fault.CodeOf(err) == host.NotFound:
			// no run is kept yet
		case err != nil:
			return g.hinted(err)
		default:
			if err := f.show(run); err != nil {
				return err
			}
			if f.ended && id != trace.Last {
				return nil
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fault.ContextError(ctx)
		}
	}
}

// show prints the lines of a run that are new.
func (f *follower) show(run *trace.Run) error {
	if run.Run != f.run {
		if err := f.finish(); err != nil {
			return err
		}
		f.run, f.printed, f.ended = run.Run, 0, false
	}
	if f.ended {
		return nil
	}
	f.ended = run.Finished
	if f.group.flags.JSON {
		if f.ended {
			return ui.PrintTimed(f.group.term.Out, run)
		}
		return nil
	}
	return f.print(run)
}

// finish prints the rest of a run that another one followed before its end was read.
func (f *follower) finish() error {
	if f.run == "" || f.ended {
		return nil
	}
	run, err := trace.Read(f.dir, f.run, f.opts)
	if err != nil {
		return nil // it is no longer kept
	}
	return f.print(run)
}

// print prints the lines behind those that are printed. The last line of a run that has
// not ended may still change, and the second has the sums: it is printed at the end.
func (f *follower) print(run *trace.Run) error {
	var tree bytes.Buffer
	if err := run.Write(&tree); err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSuffix(tree.String(), "\n"), "\n")
	const heads = 2
	if len(lines) < heads {
		return errors.New("a trace has no head")
	}
	sums, steps := lines[1], lines[heads:]
	ready := len(steps)
	if !run.Finished {
		ready = max(ready-1, 0)
	}
	columns := f.group.term.Width()
	if f.printed == 0 && (ready > 0 || run.Finished) {
		fmt.Fprintln(f.group.term.Out, ui.CutWidth(lines[0], columns))
	}
	for ; f.printed < ready; f.printed++ {
		fmt.Fprintln(f.group.term.Out, ui.CutWidth(steps[f.printed], columns))
	}
	if run.Finished {
		fmt.Fprintln(f.group.term.Out, ui.CutWidth(sums, columns))
	}
	return nil
}
