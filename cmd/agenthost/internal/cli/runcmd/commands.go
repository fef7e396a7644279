package runcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/files"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/talk"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/threads/transfer"
	"github.com/agenthost/agenthost/internal/termtext"
)

// commands are those of a conversation, beside /help and /quit.
func (s *conversation) commands() []talk.Command {
	own := []talk.Command{
		{Name: "tools", About: "list the agents and their tools", Do: s.listTools},
		{Name: "undo", About: "take the last message and its answer back", Do: s.undo},
		{Name: "branch", About: "go on in a copy of the conversation, and leave this one as it is", Do: s.fork},
		{Name: "save", Argument: "FILE", About: "write the conversation to a file: .md, .json or .jsonl", Do: s.saveFile},
	}
	return append(own, s.record.Commands(s.term)...)
}

func (s *conversation) listTools(context.Context, string) error {
	table := ui.NewTable(s.term, "AGENT", "TOOLS", "")
	for _, a := range s.agents() {
		table.Row(a.Name, strings.Join(a.Tools, ", "), ui.OneLine(a.Description))
	}
	return table.Print()
}

// agents returns the agents of the target.
func (s *conversation) agents() []host.AgentInfo {
	switch t := s.target.(type) {
	case *host.Agent:
		return []host.AgentInfo{t.Info()}
	case *host.Network:
		return t.Agents()
	}
	return nil
}

// stored returns the stored thread of the conversation. Its error names the command that
// needs one.
func (s *conversation) stored(command string) (*threads.Tenant, error) {
	switch {
	case s.thread == "":
		return nil, host.Errorf(host.NotFound, "there is no conversation yet").WithHint("say something first")
	case s.app.KeepsMessages(s.target.Name()):
		return nil, host.Errorf(host.Unimplemented, "the messages of agent %q are in a store of its own: %s does not reach them", s.target.Name(), command)
	}
	return s.app.Threads().For(s.app.Tenant(s.tenant)), nil
}

func (s *conversation) undo(ctx context.Context, _ string) error {
	store, err := s.stored("/undo")
	if err != nil {
		return err
	}
	if s.branch != "" {
		return host.Errorf(host.FailedPrecondition, "/undo works on the main line of a thread, and this is branch %s", s.branch).
			WithHint("continue in a copy with /branch")
	}
	var last *host.Message
	for m, err := range store.Messages(ctx, s.thread, threads.At{}) {
		if err != nil {
			return err
		}
		if m.Role == host.User {
			last = m
		}
	}
	if last == nil {
		return host.Errorf(host.NotFound, "there is nothing to take back")
	}
	t, err := store.Rewind(ctx, s.thread, threads.At{Message: last.ID, Before: true}, nil)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.term.Out, "Took back %q: the conversation has %s.\n", ui.Clip(last.Text()), ui.Plural(t.Messages, "message"))
	return nil
}

func (s *conversation) fork(ctx context.Context, _ string) error {
	store, err := s.stored("/branch")
	if err != nil {
		return err
	}
	t, err := store.Fork(ctx, s.thread, &threads.ForkOptions{At: threads.At{Branch: s.branch}})
	if err != nil {
		return err
	}
	fmt.Fprintf(s.term.Out, "This is thread %s from here on; %s is unchanged.\n", termtext.Printable(t.ID), termtext.Printable(s.thread))
	s.thread, s.branch = t.ID, ""
	return nil
}

func (s *conversation) saveFile(ctx context.Context, name string) error {
	store, err := s.stored("/save")
	if err != nil {
		return err
	}
	if name == "" {
		return host.Errorf(host.InvalidArgument, "/save needs the name of a file").WithHint("/save talk.md, or talk.json for everything that is stored")
	}
	if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		return host.Errorf(host.AlreadyExists, "%s is there already", termtext.Printable(name)).WithHint("name another file")
	}
	err = files.Stream(name, func(w io.Writer) error {
		switch filepath.Ext(name) {
		case ".json":
			return transfer.Export(ctx, store, s.thread, transfer.FormatThread, w)
		case ".jsonl":
			return transfer.Export(ctx, store, s.thread, transfer.FormatOpenAILines, w)
		}
		return s.writeMarkdown(ctx, store, w)
	})
	if err == nil {
		fmt.Fprintf(s.term.Out, "Wrote the conversation to %s.\n", termtext.Printable(name))
	}
	return err
}

// writeMarkdown writes the messages as people read them.
func (s *conversation) writeMarkdown(ctx context.Context, store *threads.Tenant, w io.Writer) error {
	for m, err := range store.Messages(ctx, s.thread, threads.At{Branch: s.branch}) {
		if err != nil {
			return err
		}
		who := string(m.Role)
		if m.Agent != "" {
			who += " " + m.Agent
		}
		parts := make([]string, len(m.Parts))
		for i, p := range m.Parts {
			parts[i] = ui.PartText(p)
		}
		if _, err := fmt.Fprintf(w, "## %s\n\n%s\n\n", termtext.Printable(who), strings.Join(parts, "\n\n")); err != nil {
			return err
		}
	}
	return nil
}
