package runcmd

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/open"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/project"
)

// The demo's two turns: the second only makes sense with the first.
const (
	demoFirst  = "I have two orders, 1042 and 1043. Where is 1042? I paid with card 4111 1111 1111 1111."
	demoSecond = "And the other one?"
)

// NewDemo returns the command agenthost demo. getenv tells whether a key is set.
func NewDemo(t *ui.Terminal, projects *open.Projects, getenv func(string) string) *cobra.Command {
	data := cli.DataFlag{Own: true}
	var model string
	var json bool
	c := &cobra.Command{
		Use:   "demo",
		Short: "Run a small support network on real input; needs no key and no network",
		Args:  cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return demo(c.Context(), t, projects, data.Text(), model, json, getenv("OPENAI_API_KEY") != "")
		},
	}
	c.Flags().Var(&data, "data", "where the conversation is kept: a directory, or postgres://..., or env:NAME (default: a temporary directory)")
	projects.AddWaitLock(c.Flags())
	c.Flags().StringVar(&model, "model", "", "a real model; needs OPENAI_API_KEY or OPENAI_BASE_URL")
	c.Flags().BoolVar(&json, "json", false, "print events as JSON, one a line")
	return c
}

func demo(ctx context.Context, t *ui.Terminal, projects *open.Projects, data, model string, json, hasKey bool) (err error) {
	if data == "" {
		if data, err = os.MkdirTemp("", "agenthost-demo"); err != nil {
			return host.Errorf(host.FailedPrecondition, "make a temporary directory: %w", err).WithHint("name one with --data")
		}
		defer os.RemoveAll(data)
	}
	c, err := open.ReadProject(open.ExampleProject)
	if err != nil {
		return err
	}
	opts := projects.Options()
	opts.Data, opts.Model, opts.Progress = data, model, nil
	a, err := project.Open(ctx, c, opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	s := &conversation{term: t, steps: t.Out, app: a, project: open.ExampleProject, json: json}
	if s.target, err = a.Target(""); err != nil {
		return err
	}
	if !json {
		demoIntro(t, model, hasKey)
	}
	for _, prompt := range []string{demoFirst, demoSecond} {
		if !json {
			fmt.Fprintf(t.Out, "\n> %s\n", prompt)
		}
		if err := s.turn(ctx, prompt); err != nil {
			return err
		}
	}
	if !json {
		s.demoOutro()
	}
	return nil
}

func demoIntro(t *ui.Terminal, model string, hasKey bool) {
	fmt.Fprintln(t.Out, "A support network: a router, two agents, their tools and two history processors,")
	fmt.Fprintln(t.Out, "all but the agents WebAssembly modules in a sandbox. Two turns in one thread.")
	if model == "" && hasKey {
		fmt.Fprintln(t.Out, "OPENAI_API_KEY is set, but without --model NAME the demo stays scripted.")
	}
}

func (s *conversation) demoOutro() {
	s.footer()
	fmt.Fprintln(s.term.Out, "\nRun again, the second turn may differ by a few instructions: the messages of the first")
	fmt.Fprintln(s.term.Out, "are in its plugins' input with the time when they were stored. Equal input costs the same.")
	self := ui.Self()
	fmt.Fprintln(s.term.Out, "\nWorth trying next:")
	var list ui.Pairs
	for _, next := range []struct{ command, what string }{
		{"run " + open.ExampleProject + ` "where is order 1017?"`, "ask it yourself"},
		{"plugin inspect builtin:tokenlimiter", "look into a plugin"},
		{"init shop --template tools", "a project of your own, with a plugin in Go"},
		{"dev shop", "save that plugin, and the next turn runs it"},
		{"plugin test shop/plugins/todo", "hold it to the rules of the contract"},
	} {
		list.Row("  "+self+" "+next.command, next.what)
	}
	_ = list.Print(s.term) // as of the lines before, an error is not reported
}
