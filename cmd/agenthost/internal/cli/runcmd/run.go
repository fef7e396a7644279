package runcmd

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/control"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/lookup"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/open"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/project"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/internal/termtext"
)

type runFlags struct {
	verify                                       bool
	thread, data, history, model, target, tenant string
	regenerate, on, racing                       string
	json, durable, branch                        bool
	answerFlags
}

// NewRun returns the command agenthost run.
func NewRun(t *ui.Terminal, projects *open.Projects) *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:   "run PROJECT [PROMPT|-]",
		Short: "Run a project's network once, or talk to it",
		Long: `Run the network of a project: a directory with an agenthost.yaml, such a file, or
builtin:orderdesk, the example that every binary has. With a prompt it answers once; with - the prompt is read from stdin; with
neither, on a terminal, it is a conversation.

Threads live as long as the command unless --data names a directory, or --history
(or the configuration's history.address_env) a PostgreSQL database. A
conversation with --data can be steered from elsewhere: see agenthost plugin
list. With --thread an empty prompt ("") goes on from what is there: it repeats a turn that
failed or was interrupted.

A tool may ask a person, and the configuration may want one to agree to calls. In a
conversation that is asked at once; otherwise the run ends, and another command
goes on with --resume. With --durable, or a network that says so, that also goes
on with a run whose process was killed.`,
		Example: `  agenthost run builtin:orderdesk "where is order 1042?"
  agenthost run builtin:orderdesk --thread t1 --data ./data "and 1043?" --json`,
		Args: cli.Args(cli.OneText(1, "put the prompt in quotes")),
		RunE: func(c *cobra.Command, list []string) error {
			if err := f.check(list[1:]); err != nil {
				return cli.UsageError(err, c.CommandPath())
			}
			if f.resume != "" || f.question != "" || f.expired {
				return runProject(c.Context(), t, projects, list[0], "", false, f)
			}
			if f.regenerate != "" {
				return runProject(c.Context(), t, projects, list[0], "", false, f)
			}
			prompt, talk, err := cli.ReadPrompt(t, list[1:], f.thread != "")
			if errors.Is(err, cli.ErrNoPrompt) {
				return cli.UsageError(err, c.CommandPath())
			}
			if err != nil {
				return err
			}
			return runProject(c.Context(), t, projects, list[0], prompt, talk, f)
		},
	}
	f.add(c)
	flags := c.Flags()
	flags.BoolVar(&f.json, "json", false, "print events as JSON, one a line")
	flags.BoolVar(&f.durable, "durable", false, "write each step down, so that --resume can go on if the process ends")
	flags.StringVar(&f.regenerate, "regenerate", "", "answer a stored message of --thread again, by its id or its number in thread show, in the place of what came after it")
	flags.BoolVar(&f.branch, "branch", false, "with --regenerate: answer on a branch of the thread, and leave the thread as it is")
	flags.StringVar(&f.on, "on", "", "the branch of --thread to go on with: see thread branches")
	flags.StringVar(&f.racing, "racing", "", "while another turn runs on the thread: wait, conflict or branch (default: the project's)")
	flags.StringVar(&f.resume, "resume", "", "go on with a run that asked something, with the answers of the flags below, or with one whose process ended: see thread runs")
	flags.StringVar(&f.question, "question", "", "go on with the run that asks the question of this key, as --resume does: see key under approve in the configuration")
	flags.BoolVar(&f.expired, "expired", false, "go on with the runs of the target whose questions have expired, with their defaults, and end those without one")
	flags.StringArrayVar(&f.approve, "approve", nil, "let a call run: QUESTION is the id of the question or of the call, or its tool")
	flags.StringArrayVar(&f.deny, "deny", nil, "do not let a call run: QUESTION, or QUESTION=REASON")
	flags.StringArrayVar(&f.reply, "reply", nil, "answer a tool's question, or give a call's result: QUESTION=JSON")
	return c
}

// check refuses flags that do not go together.
func (f *runFlags) check(prompt []string) error {
	switch {
	case f.question != "" || f.expired:
		return f.checkQuestion(prompt)
	case f.resume == "" && f.given():
		return errors.New("--approve, --deny and --reply answer a run: name it with --resume")
	case f.resume != "" && (len(prompt) > 0 || f.thread != ""):
		return errors.New("--resume continues a run: it takes no prompt and no --thread")
	case f.resume != "" && (f.regenerate != "" || f.on != ""):
		return errors.New("--resume continues a run where it stopped: it takes no --regenerate and no --on")
	case f.regenerate != "" && (len(prompt) > 0 || f.thread == ""):
		return errors.New("--regenerate answers a message of --thread: it takes no prompt")
	case f.branch && f.regenerate == "":
		return errors.New("--branch is of --regenerate; to continue a branch name it with --on")
	case f.on != "" && f.thread == "":
		return errors.New("--on names a branch of --thread")
	case !host.Racing(f.racing).Valid():
		return fmt.Errorf("--racing %q is none of wait, conflict and branch", f.racing)
	case f.resume != "" && f.data == "":
		return errors.New("--resume needs --data: the directory that keeps the run")
	}
	_, err := f.answers()
	return err
}

// checkQuestion refuses flags that do not go with --question or --expired.
func (f *runFlags) checkQuestion(prompt []string) error {
	switch {
	case f.resume != "" || f.question != "" && f.expired:
		return errors.New("--question, --resume and --expired all name runs: give one of them")
	case f.expired && f.given():
		return errors.New("--expired takes no answers: those of the questions are in the configuration")
	case len(prompt) > 0 || f.thread != "" || f.regenerate != "" || f.on != "" || f.branch:
		return errors.New("--question and --expired continue a run where it stopped: they take no prompt, no --thread, no --regenerate and no --on")
	case f.data == "" && f.history == "":
		return errors.New("--question and --expired need --data: the directory that keeps the run")
	}
	_, err := f.answers()
	return err
}

// add adds the flags of every command that runs a project.
func (f *runFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.thread, "thread", "", "the conversation to go on with; made if it does not exist")
	flags.StringVar(&f.data, "data", "", "directory that keeps threads")
	flags.BoolVar(&f.verify, "verify", false, "read every file of --data before it is used, and refuse it if one is damaged (always done after a crash)")
	flags.StringVar(&f.history, "history", "", "a PostgreSQL database that keeps threads instead, by its address")
	flags.StringVar(&f.model, "model", "", "a model for every agent: a configured one, or a real one by its name (needs OPENAI_API_KEY or OPENAI_BASE_URL)")
	flags.StringVar(&f.target, "target", "", "the network or agent to run (default: the project's)")
	flags.StringVar(&f.tenant, "tenant", "", cli.TenantUsage("whose run it is"))
	open.CompleteFlag(c, "target", (*project.File).Targets)
	open.CompleteFlag(c, "model", (*project.File).Models)
	open.CompleteFlag(c, "tenant", (*project.File).Tenants)
}

func runProject(ctx context.Context, t *ui.Terminal, projects *open.Projects, projectName, prompt string, talk bool, f runFlags) (err error) {
	c, err := open.ReadProject(projectName)
	if err != nil {
		return err
	}
	steered := talk && f.data != ""
	opts := f.projectOptions(projects)
	opts.Replaceable = steered
	if f.json {
		opts.Progress = nil
	}
	a, err := project.Open(ctx, c, opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	s, err := newSession(t, a, projectName, f)
	if err != nil {
		return err
	}
	if steered {
		if err := s.steerable(ctx, control.SocketPath(f.data)); err != nil {
			return err
		}
	}
	switch {
	case talk:
		return s.talk(ctx)
	case f.expired:
		return s.settleExpired(ctx)
	case f.resume != "" || f.question != "":
		err = s.resume(ctx, &f.answerFlags)
	case f.regenerate != "":
		err = s.regenerate(ctx, &f)
	default:
		err = s.turn(ctx, prompt)
	}
	if err != nil {
		return s.kept(err)
	}
	s.howToAnswer()
	if !f.json {
		s.whichBranch()
		s.whichThread(f.thread)
		s.footer()
	}
	return nil
}

// projectOptions are those of the project that the flags ask for.
func (f *runFlags) projectOptions(projects *open.Projects) *project.Options {
	opts := projects.Options()
	opts.Data, opts.Verify, opts.History, opts.Model = f.data, f.verify, f.history, f.model
	return opts
}

func newSession(t *ui.Terminal, a *project.Project, projectName string, f runFlags) (s *session, err error) {
	s = &session{term: t, app: a, project: projectName, thread: f.thread, data: f.data, tenant: f.tenant, json: f.json, durable: f.durable, name: f.target,
		branch: f.on, racing: host.Racing(f.racing)}
	s.target, err = a.Target(f.target)
	return s, err
}

// session is a conversation with one target.
type session struct {
	term    *ui.Terminal
	app     *project.Project
	target  host.Target
	name    string            // of the target; "" is the project's
	reload  *project.Reloader // nil unless plugins can be replaced
	project string
	thread  string
	data    string
	tenant  string
	json    bool
	durable bool
	branch  string // of the thread; "" is its main line
	racing  host.Racing
	asked   asked // by the last run; empty if it did not ask
}

// regenerate answers a stored message again.
func (s *session) regenerate(ctx context.Context, f *runFlags) (err error) {
	if !s.app.ExternalHistory() {
		f.regenerate, err = lookup.Message(ctx, s.app.Threads(), s.app.Tenant(s.tenant), s.thread, threads.At{Branch: f.on}, f.regenerate)
		if err != nil && host.CodeOf(err) != host.NotFound { // the run reports a missing thread itself
			return err
		}
	}
	return s.stream(ctx, &host.Request{Regenerate: f.regenerate, NewBranch: f.branch})
}

// turn runs one prompt and shows its events.
func (s *session) turn(ctx context.Context, prompt string) error {
	return s.stream(ctx, &host.Request{Text: prompt})
}

// stream runs a request and shows its events.
func (s *session) stream(ctx context.Context, req *host.Request) error {
	s.asked = asked{}
	req.Tenant = s.app.Tenant(s.tenant)
	if req.Resume == "" {
		req.Thread, req.Branch, req.Racing, req.Durable = s.thread, s.branch, s.racing, s.durable
	}
	done, err := s.inAgentThread(ctx, req)
	if err != nil {
		return err
	}
	return done(s.streamEvents(ctx, req))
}

// streamEvents runs a request that is complete.
func (s *session) streamEvents(ctx context.Context, req *host.Request) error {
	show := ui.NewPrinter(s.term)
	defer show.EndText()
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
		case *host.RunStarted:
			s.thread, s.branch = d.Thread, d.Branch
			s.term.Console().Shows(ev.Run)
		case *host.Interrupted:
			s.asked.run, s.asked.questions = ev.Run, append(s.asked.questions, d.Question)
		}
		if !s.json {
			show.Event(ev)
		} else if err := ui.PrintJSON(s.term.Out, ev); err != nil {
			return err
		}
	}
	return nil
}

// kept adds the command that continues an interrupted turn to its error, if the turn's
// messages are stored.
func (s *session) kept(err error) error {
	if s.data == "" || s.thread == "" || host.CodeOf(err) != host.Canceled {
		return err
	}
	return host.Errorf(host.Canceled, "interrupted: %w; what was finished is kept in thread %s", err, s.thread).
		WithHint("go on with: agenthost run %s --data %s%s --thread %s \"\"", termtext.ShellWord(s.project), termtext.ShellWord(s.data), s.tenantWords(), termtext.ShellWord(s.thread))
}

func (s *session) tenantWords() string {
	if s.tenant == "" {
		return ""
	}
	return " --tenant " + termtext.ShellWord(s.tenant)
}

// whichBranch prints the branch of an answer that is not on the thread's main line.
func (s *session) whichBranch() {
	if s.branch != "" {
		fmt.Fprintf(s.term.Out, "\nThis is on branch %s of thread %s; go on with: --on %s\n", s.branch, termtext.Printable(s.thread), s.branch)
	}
}

// whichThread prints the thread that a run has made, if it is stored.
func (s *session) whichThread(named string) {
	if s.thread == "" || named != "" || s.data == "" || len(s.asked.questions) > 0 {
		return
	}
	fmt.Fprintf(s.term.Out, "\nThis is thread %s; go on with:\n  %s run %s --data %s%s --thread %s \"...\"\n",
		termtext.Printable(s.thread), ui.Self(), termtext.ShellWord(s.project), termtext.ShellWord(s.data), s.tenantWords(), termtext.ShellWord(s.thread))
}

// footer reports an answer that did not come from a model.
func (s *session) footer() {
	if s.app.Scripted() {
		fmt.Fprintf(s.term.Out, scriptedFooter, ui.Self(), termtext.ShellWord(s.project))
	}
}

const scriptedFooter = `
These answers come from a script, not from an LLM. To connect a real one:
  export OPENAI_API_KEY=...            (or OPENAI_BASE_URL=http://localhost:11434/v1)
  %s run %s --model NAME "..."
`

// talk is a conversation on a terminal.
func (s *session) talk(ctx context.Context) error {
	t := s.term
	fmt.Fprintf(t.Out, "Talking to %s. An empty line or ctrl-D ends it.\n", s.target.Name())
	next := readLines(t.In)
	for {
		l := s.readLine(ctx, "> ", next)
		if l.err != nil || strings.TrimSpace(l.text) == "" {
			return s.endTalk(l.err)
		}
		err := s.turn(ctx, l.text)
		if err == nil {
			err = s.answerAll(ctx, next)
		}
		var quiet cli.QuietExit
		switch {
		case errors.As(err, &quiet), errors.Is(err, io.EOF), errors.Is(err, bufio.ErrTooLong):
			return s.endTalk(err)
		case err != nil && ctx.Err() != nil:
			return s.kept(err)
		case err != nil:
			fmt.Fprintf(t.Err, "agenthost: %s\n", ui.ErrorText(err))
		}
	}
}

// line is a line that a person typed, or the error that ended the input.
type line struct {
	text string
	err  error
}

// readLines reads a line for each receive. A read cannot be interrupted: the last one
// ends with the process.
func readLines(r io.Reader) <-chan line {
	out := make(chan line)
	go func() {
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, cli.MaxPromptBytes)
		for lines.Scan() {
			out <- line{text: lines.Text()}
		}
		out <- line{err: cmp.Or(lines.Err(), io.EOF)}
	}()
	return out
}

func (s *session) endTalk(err error) error {
	var quiet cli.QuietExit
	switch {
	case errors.As(err, &quiet):
		return err
	case errors.Is(err, bufio.ErrTooLong):
		return host.Errorf(host.ResourceExhausted, "a line is more than %d bytes", cli.MaxPromptBytes).WithHint("say it in less")
	case err != nil && err != io.EOF:
		return host.Errorf(host.FailedPrecondition, "read stdin: %w", err)
	case err == io.EOF:
		fmt.Fprintln(s.term.Out)
	}
	s.footer()
	return nil
}
