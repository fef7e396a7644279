package talk

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/internal/termtext"
)

// Command is done when a person types its name behind a slash.
type Command struct {
	Name, Argument string // as in /NAME ARGUMENT; ARGUMENT is for /help
	About          string
	Do             func(ctx context.Context, argument string) error
	Words          func() []string // completions of the argument; nil has none
}

// commandOf splits a text that begins with a slash and a letter. A path is no command.
func commandOf(text string) (name, argument string, ok bool) {
	rest, ok := strings.CutPrefix(text, "/")
	if !ok || rest == "" || strings.Contains(text, "\n") {
		return "", "", false
	}
	name, argument, _ = strings.Cut(rest, " ")
	if strings.ContainsFunc(name, func(r rune) bool { return r < 'a' || r > 'z' }) {
		return "", "", false
	}
	return name, strings.TrimSpace(argument), true
}

func (p *Person) do(ctx context.Context, name, argument string) error {
	names := make([]string, len(p.commands))
	for i, c := range p.commands {
		if c.Name == name {
			return c.Do(ctx, argument)
		}
		names[i] = c.Name
	}
	hint := "/help lists the commands; to say this, begin with a space or another word"
	if near := termtext.Nearest(name, names); near != "" {
		hint = "is it /" + near + "? " + hint
	}
	return host.Errorf(host.InvalidArgument, "there is no command /%s", name).WithHint("%s", hint)
}

// keysHelp says what keys do, in lines of at most keysColumns where the width is not known.
const (
	keysHelp    = `Ctrl-J, or enter behind a \, begins another line. Arrow up shows earlier lines, ctrl-R searches them. Ctrl-C ends a turn, and ctrl-D the conversation.`
	keysColumns = 80
)

func (p *Person) help() Command {
	return Command{Name: "help", About: "list these commands", Do: func(context.Context, string) error {
		var list ui.Pairs
		for _, c := range p.commands {
			list.Row(strings.TrimSpace("/"+c.Name+" "+c.Argument), c.About)
		}
		if err := list.Print(p.term); err != nil || p.editor == nil {
			return err
		}
		_, err := fmt.Fprintf(p.term.Out, "\n%s\n", ui.Wrap(keysHelp, cmp.Or(p.term.Width(), keysColumns)))
		return err
	}}
}

func quit() Command {
	return Command{Name: "quit", About: "leave", Do: func(context.Context, string) error { return errLeave }}
}

// complete completes the names of commands and their arguments.
func (p *Person) complete(text string) []ui.Word {
	if !strings.HasPrefix(text, "/") || strings.Contains(text, "\n") {
		return nil
	}
	name, _, argument := strings.Cut(text[1:], " ")
	var words []ui.Word
	for _, c := range p.commands {
		switch {
		case !argument:
			words = append(words, ui.Word{Text: "/" + c.Name, About: c.About})
		case c.Name == name && c.Words != nil:
			for _, w := range c.Words() {
				words = append(words, ui.Word{Text: w})
			}
		}
	}
	return words
}
