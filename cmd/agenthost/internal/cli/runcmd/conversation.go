package runcmd

import (
	"context"
	"fmt"
	"io"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/lookup"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/open"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/talk"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/project"
	"github.com/agenthost/agenthost/host/runevent"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/internal/termtext"
)

// conversation is the turns of a person, or of a command line, with one target.
type conversation struct {
	term    *ui.Terminal
	steps   io.Writer // all but the answers: stderr, or nothing
	app     *project.Project
	target  host.Target
	name    string            // of the target; "" is the project's
	reload  *project.Reloader // nil unless plugins can be replaced
	project string
	thread  string
	data    cli.DataFlag
	tenant  string
	json    bool
	durable bool
	branch  string // of the thread; "" is its main line
	racing  host.Racing
	record  talk.Record
	asked   openQuestions // of the last run; empty if it did not ask
}

func newConversation(t *ui.Terminal, a *project.Project, projectName string, f runFlags) (s *conversation, err error) {
	s = &conversation{term: t, steps: f.steps(t), app: a, project: projectName, thread: f.thread, data: f.data, tenant: f.tenant, json: f.json, durable: f.durable, name: f.target,
		branch: f.on, racing: host.Racing(f.racing)}
	s.target, err = a.Target(f.target)
	return s, err
}

// regenerate answers a stored message again.
func (s *conversation) regenerate(ctx context.Context, f *runFlags) (err error) {
	f.regenerate, err = lookup.Message(ctx, s.app.Threads(), s.app.Tenant(s.tenant), s.thread, threads.At{Branch: f.on}, f.regenerate)
	if err != nil && host.CodeOf(err) != host.NotFound { // the run reports a missing thread itself
		return err
	}
	return s.stream(ctx, &host.Request{Regenerate: f.regenerate, NewBranch: f.branch})
}

// turn runs one prompt and shows its events.
func (s *conversation) turn(ctx context.Context, prompt string) error {
	return s.stream(ctx, &host.Request{Text: prompt})
}

// stream runs a request and shows its events.
func (s *conversation) stream(ctx context.Context, req *host.Request) error {
	s.asked = openQuestions{}
	req.Tenant = s.app.Tenant(s.tenant)
	if req.Resume == "" {
		req.Thread, req.Branch, req.Racing, req.Durable = s.thread, s.branch, s.racing, s.durable
	}
	if len(req.Answers) > 0 {
		if err := open.Record(ctx, s.app.Data().Driver, "run.answer", req.Tenant, "run/"+req.Resume); err != nil {
			return err
		}
	}
	done, err := s.inAgentThread(ctx, req)
	if err != nil {
		return err
	}
	return done(s.streamEvents(ctx, req))
}

// printer returns the printer of one run.
func (s *conversation) printer() *ui.Printer {
	if s.steps == s.term.Out {
		return ui.NewPrinter(s.term)
	}
	return ui.NewRunPrinter(s.term, s.steps)
}

// streamEvents runs a request that is complete.
func (s *conversation) streamEvents(ctx context.Context, req *host.Request) error {
	show := s.printer()
	defer show.Close()
	if s.reload != nil {
		s.reload.Refresh(ctx)
		pinned, release := s.app.Runtime().Pin(ctx)
		defer release()
		ctx = pinned
		if t, err := s.app.Target(s.name); err == nil {
			s.target = t
		}
	}
	for ev, err := range s.app.Host().Stream(ctx, s.target, req) {
		if err != nil {
			return err
		}
		switch d := ev.Data.(type) {
		case *runevent.RunStarted:
			s.thread, s.branch = d.Thread, d.Branch
			s.term.Console().Shows(ev.Run)
		case *runevent.Interrupted:
			s.asked.run, s.asked.questions = ev.Run, append(s.asked.questions, d.Question)
		}
		s.record.Add(ev)
		if !s.json {
			show.Event(ev)
		} else if err := ui.PrintJSON(s.term.Out, ev); err != nil {
			return err
		}
	}
	return nil
}

// withResumeCommand adds the command that continues an interrupted turn to its error, if
// the turn's messages are stored.
func (s *conversation) withResumeCommand(err error) error {
	if !s.data.Given() || s.thread == "" || host.CodeOf(err) != host.Canceled {
		return err
	}
	return host.Errorf(host.Canceled, "interrupted: %w; what was finished is kept in thread %s", err, s.thread).
		WithHint("go on with: agenthost run %s%s%s --thread %s \"\"", termtext.ShellWord(s.project), s.data.Words(), s.tenantWords(), termtext.ShellWord(s.thread))
}

func (s *conversation) tenantWords() string {
	if s.tenant == "" {
		return ""
	}
	return " --tenant " + termtext.ShellWord(s.tenant)
}

// printBranch prints the branch of an answer that is not on the thread's main line.
func (s *conversation) printBranch() {
	if s.branch != "" {
		fmt.Fprintf(s.steps, "\nThis is on branch %s of thread %s; go on with: --on %s\n", s.branch, termtext.Printable(s.thread), s.branch)
	}
}

// printThread prints the thread that a run has made, if it is stored.
func (s *conversation) printThread(named string) {
	if s.thread == "" || named != "" || !s.data.Given() || len(s.asked.questions) > 0 {
		return
	}
	fmt.Fprintf(s.steps, "\nThis is thread %s; go on with:\n  %s run %s%s%s --thread %s \"...\"\n",
		termtext.Printable(s.thread), ui.Self(), termtext.ShellWord(s.project), s.data.Words(), s.tenantWords(), termtext.ShellWord(s.thread))
}

// footer reports an answer that did not come from a model.
func (s *conversation) footer() {
	if s.app.Scripted() {
		fmt.Fprintf(s.steps, scriptedFooter, ui.Self(), termtext.ShellWord(s.project))
	}
}

const scriptedFooter = `
These answers come from a script, not from an LLM. To connect a real one:
  export OPENAI_API_KEY=...            (or OPENAI_BASE_URL=http://localhost:11434/v1)
  %s run %s --model NAME "..."
`
