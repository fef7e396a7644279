package runcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/control"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/lookup"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/open"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/datadir"
	"github.com/agenthost/agenthost/host/project"
	"github.com/agenthost/agenthost/host/threads"
)

// runFlags are the flags of run; dev has those of [runFlags.add].
type runFlags struct {
	data                                   cli.DataFlag
	thread, history, model, target, tenant string
	verify                                 bool

	regenerate, on, racing string
	json, quiet            bool
	durable, branch        bool
	answer                 answerFlags
}

// NewRun returns the command agenthost run.
func NewRun(t *ui.Terminal, projects *open.Projects, dirs *open.Data) *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:   "run PROJECT [PROMPT|-]",
		Short: "Run a project's network once, or talk to it",
		Long: `Run the network of a project: a directory with an agenthost.yaml, such a file, or
builtin:orderdesk, the example that every binary has. With a prompt it answers once; with - the prompt is read from stdin; with
neither, on a terminal, it is a conversation.

The answer is on stdout. The steps that led to it, questions and hints are on stderr;
--quiet leaves out all but questions. A run that asks a person ends with exit code 8.

Threads live as long as the command unless --data says where they are kept. A
conversation with --data can be steered from elsewhere: see agenthost plugin
list. With --thread an empty prompt ("") goes on from what is there: it repeats a turn that
failed or was interrupted.

A tool may ask a person, and the configuration may want one to agree to calls. In a
conversation that is asked at once; otherwise the run ends, and another command
goes on with --resume. With --durable, or a network that says so, that also goes
on with a run whose process was killed.`,
		Example: `  agenthost run builtin:orderdesk "where is order 1042?"
  agenthost run builtin:orderdesk --thread t1 --data ./data "and 1043?" --json
  answer=$(agenthost run builtin:orderdesk --quiet "where is order 1042?")`,
		Args: cli.Args(cli.OneText(1, "put the prompt in quotes")),
		RunE: func(c *cobra.Command, list []string) error {
			if err := f.check(list[1:]); err != nil {
				return cli.UsageError(err, c.CommandPath())
			}
			if f.answer.resume != "" || f.answer.question != "" || f.answer.expired {
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
	f.add(c, projects, dirs)
	flags := c.Flags()
	flags.BoolVar(&f.json, "json", false, "print events as JSON, one a line")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "print the answer only, and errors")
	flags.BoolVar(&f.durable, "durable", false, "write each step down, so that --resume can go on if the process ends")
	flags.StringVar(&f.regenerate, "regenerate", "", "answer a stored message of --thread again, by its id or its number in thread show, in the place of what came after it")
	flags.BoolVar(&f.branch, "branch", false, "with --regenerate: answer on a branch of the thread, and leave the thread as it is")
	flags.StringVar(&f.on, "on", "", "the branch of --thread to go on with: see thread branches")
	flags.StringVar(&f.racing, "racing", "", "while another turn runs on the thread: wait, conflict or branch (default: the project's)")
	flags.StringVar(&f.answer.resume, "resume", "", "go on with a run that asked something, with the answers of the flags below, or with one whose process ended: see thread runs")
	cli.CompleteBy(c, "resume", dirs.Stored(&f.data, f.completeRun))
	flags.StringVar(&f.answer.question, "question", "", "go on with the run that asks the question of this key, as --resume does: see key under approve in the configuration")
	flags.BoolVar(&f.answer.expired, "expired", false, "go on with the runs of the target whose questions have expired, with their defaults, and end those without one")
	flags.StringArrayVar(&f.answer.approve, "approve", nil, "let a call run: QUESTION is the id of the question or of the call, or its tool")
	flags.StringArrayVar(&f.answer.deny, "deny", nil, "do not let a call run: QUESTION, or QUESTION=REASON")
	flags.StringArrayVar(&f.answer.reply, "reply", nil, "answer a tool's question, or give a call's result: QUESTION=JSON")
	return c
}

// check refuses flags that do not go together.
func (f *runFlags) check(prompt []string) error {
	switch {
	case f.history != "":
		return f.checkHistory()
	case f.answer.question != "" || f.answer.expired:
		return f.checkQuestion(prompt)
	case f.answer.resume == "" && f.answer.given():
		return errors.New("--approve, --deny and --reply answer a run: name it with --resume")
	case f.answer.resume != "" && (len(prompt) > 0 || f.thread != ""):
		return errors.New("--resume continues a run: it takes no prompt and no --thread")
	case f.answer.resume != "" && (f.regenerate != "" || f.on != ""):
		return errors.New("--resume continues a run where it stopped: it takes no --regenerate and no --on")
	case f.regenerate != "" && (len(prompt) > 0 || f.thread == ""):
		return errors.New("--regenerate answers a message of --thread: it takes no prompt")
	case f.branch && f.regenerate == "":
		return errors.New("--branch is of --regenerate; to continue a branch name it with --on")
	case f.on != "" && f.thread == "":
		return errors.New("--on names a branch of --thread")
	case !host.Racing(f.racing).Valid():
		return fmt.Errorf("--racing %q is none of wait, conflict and branch", f.racing)
	case f.answer.resume != "" && !f.data.Given():
		return errors.New("--resume needs --data: where the run is kept")
	}
	_, err := f.answer.answers()
	return err
}

// checkQuestion refuses flags that do not go with --question or --expired.
func (f *runFlags) checkQuestion(prompt []string) error {
	switch {
	case f.answer.resume != "" || f.answer.question != "" && f.answer.expired:
		return errors.New("--question, --resume and --expired all name runs: give one of them")
	case f.answer.expired && f.answer.given():
		return errors.New("--expired takes no answers: those of the questions are in the configuration")
	case len(prompt) > 0 || f.thread != "" || f.regenerate != "" || f.on != "" || f.branch:
		return errors.New("--question and --expired continue a run where it stopped: they take no prompt, no --thread, no --regenerate and no --on")
	case !f.data.Given():
		return errors.New("--question and --expired need --data: where the run is kept")
	}
	_, err := f.answer.answers()
	return err
}

// add adds the flags of every command that runs a project.
func (f *runFlags) add(c *cobra.Command, projects *open.Projects, dirs *open.Data) {
	flags := c.Flags()
	flags.StringVar(&f.thread, "thread", "", "the conversation to go on with; made if it does not exist")
	flags.Var(&f.data, "data", cli.DataUsage("where threads and all else are kept"))
	flags.BoolVar(&f.verify, "verify", false, "read every file of --data before it is used, and refuse it if one is damaged (always done after a crash)")
	projects.AddWaitLock(flags)
	flags.StringVar(&f.history, "history", "", "")
	if err := flags.MarkHidden("history"); err != nil {
		panic(err) // there is no such flag
	}
	flags.StringVar(&f.model, "model", "", "a model for every agent: a configured one, or a real one by its name (needs OPENAI_API_KEY or OPENAI_BASE_URL)")
	flags.StringVar(&f.target, "target", "", "the network or agent to run (default: the project's)")
	flags.StringVar(&f.tenant, "tenant", "", cli.TenantUsage("whose run it is"))
	open.CompleteFlag(c, "target", (*project.File).Targets)
	open.CompleteFlag(c, "model", (*project.File).Models)
	open.CompleteFlag(c, "tenant", (*project.File).Tenants)
	cli.CompleteBy(c, "thread", dirs.Stored(&f.data, f.completeThread))
}

// completeThread and completeRun complete the ids of threads, and of runs that wait.
func (f *runFlags) completeThread(ctx context.Context, dir *datadir.Dir) ([]string, error) {
	return lookup.ThreadIDs(ctx, threads.New(dir.Driver, nil), f.tenant)
}

func (f *runFlags) completeRun(ctx context.Context, dir *datadir.Dir) ([]string, error) {
	return lookup.RunIDs(ctx, threads.New(dir.Driver, nil), f.tenant)
}

func runProject(ctx context.Context, t *ui.Terminal, projects *open.Projects, projectName, prompt string, talk bool, f runFlags) (err error) {
	c, err := open.ReadProject(projectName)
	if err != nil {
		return err
	}
	served := talk && f.data.LocalDir() != ""
	opts := f.projectOptions(projects)
	opts.Replaceable = served
	if f.json || f.quiet {
		opts.Progress = nil
	}
	a, err := project.Open(ctx, c, opts)
	if err != nil {
		return err
	}
	defer func() { err = cli.JoinClose(err, a.Close()) }()
	s, err := newConversation(t, a, projectName, f)
	if err != nil {
		return err
	}
	if served {
		socket := control.SocketPath(f.data.LocalDir())
		if f.data.At().IsDatabase() && control.Listens(socket) {
			s.term.Say("another host on this machine takes the commands for this database: they do not steer this conversation")
		} else if err := s.serveCommands(ctx, socket); err != nil {
			return err
		}
	}
	if !served && f.data.LocalDir() != "" {
		if err := shareData(a, &f.data, t.Say); err != nil {
			return err
		}
	}
	switch {
	case talk:
		return cmp.Or(s.talk(ctx), s.waitingExit())
	case f.answer.expired:
		return s.settleExpired(ctx)
	case f.answer.resume != "" || f.answer.question != "":
		err = s.resume(ctx, &f.answer)
	case f.regenerate != "":
		err = s.regenerate(ctx, &f)
	default:
		err = s.turn(ctx, prompt)
	}
	if err != nil {
		return s.withResumeCommand(err)
	}
	s.printAnswerCommand()
	if !f.json {
		s.printBranch()
		s.printThread(f.thread)
		s.footer()
	}
	return s.waitingExit()
}

// steps returns where all is printed but answers: see conversation.
func (f *runFlags) steps(t *ui.Terminal) io.Writer {
	if f.quiet {
		return io.Discard
	}
	return t.Err
}

// checkHistory refuses the flag --history, which earlier versions had. Its error does not
// quote the address, which may have a password.
func (f *runFlags) checkHistory() error {
	if f.history == "" {
		return nil
	}
	return errors.New("there is no --history any more: --data takes the address of a database, postgres://...; " +
		"agenthost data copy --history moves the tables that --history has made")
}

// projectOptions are those of the project that the flags ask for.
func (f *runFlags) projectOptions(projects *open.Projects) *project.Options {
	opts := projects.Options()
	opts.Data, opts.Verify, opts.Model = f.data.Text(), f.verify, f.model
	if opts.WaitLock == open.DefaultWaitLock && f.hasHost() {
		opts.WaitLock = 0 // a host does not end by itself
	}
	return opts
}

// hasHost reports whether a host that serves until it is stopped has the directory open.
func (f *runFlags) hasHost() bool {
	dir := f.data.LocalDir()
	return dir != "" && !f.data.At().IsDatabase() && control.Listens(control.SocketPath(dir))
}
