package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/internal/termtext"
)

// UsageError makes err an error in the command line of a command: exit code 2, with a
// pointer to the command's help.
func UsageError(err error, command string) error { return usageFault{err, command} }

type usageFault struct {
	err     error
	command string
}

func (e usageFault) Error() string { return e.err.Error() }
func (e usageFault) Unwrap() error { return e.err }

// NoArgs refuses every argument: of a command with others below it, an argument is the
// name of none of them.
func NoArgs(c *cobra.Command, list []string) error {
	if len(list) == 0 {
		return nil
	}
	return UsageError(fmt.Errorf("unknown command %q for %q", list[0], c.CommandPath()), c.CommandPath())
}

// Args makes cobra's checks of positional arguments usage errors.
func Args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, list []string) error {
		err := check(c, list)
		var hinted *hintedUsage
		if err != nil && !errors.As(err, &hinted) {
			err = fmt.Errorf("%s given; the command is: %s", ui.Plural(len(list), "argument"), strings.TrimSuffix(c.UseLine(), " [flags]"))
		}
		if err != nil {
			return UsageError(err, c.CommandPath())
		}
		return nil
	}
}

// OneText wants so many arguments and a text behind them, and gives a hint if the words
// of the text are separate arguments. Only the prompt of a run may be left out.
func OneText(before int, hint string) cobra.PositionalArgs {
	return func(c *cobra.Command, list []string) error {
		switch {
		case len(list) <= before+1 && (len(list) == before+1 || len(list) == before && strings.Contains(c.Use, "[PROMPT")):
			return nil
		case len(list) <= before+1:
			return fmt.Errorf("%s", c.UseLine())
		}
		words := make([]string, 0, before+2)
		words = append(words, c.CommandPath())
		for _, w := range list[:before] {
			words = append(words, termtext.ShellWord(w))
		}
		text := strings.Join(list[before:], " ")
		return &hintedUsage{ui.Plural(len(list), "argument") + " given; the command is: " + strings.TrimSuffix(c.UseLine(), " [flags]"),
			hint + ": " + strings.Join(append(words, quotedText(text)), " ")}
	}
}

// hintedUsage is an error about the command line with a corrected command line.
type hintedUsage struct{ text, hint string }

func (e *hintedUsage) Error() string { return e.text }

// quotedText quotes a text for a shell as people do.
func quotedText(s string) string {
	if strings.ContainsAny(s, "\"\\$`!") {
		return termtext.ShellWord(s)
	}
	return `"` + ui.Clip(s) + `"`
}
