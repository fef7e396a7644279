package helpcmd

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/host"
)

// ExitCodes is a command without a run: cobra lists it as a topic.
func ExitCodes() *cobra.Command {
	var b strings.Builder
	b.WriteString("Every command ends with one of these:\n\n")
	for _, m := range exitMeanings() {
		fmt.Fprintf(&b, "  %3d  %s\n", m.code, m.means)
	}
	b.WriteString("\nThe reason is on stderr, and what to do about it behind an arrow.")
	return &cobra.Command{Use: "exit-codes", Short: "What a command's exit code says", Long: b.String()}
}

// exitMeaning is one line of the table of exit codes.
type exitMeaning struct {
	code  int
	means string
}

// exitMeanings is the table; docs/operate.md has the same.
func exitMeanings() []exitMeaning {
	return []exitMeaning{
		{cli.ExitOK, "done"},
		{host.Internal.ExitCode(), "failed: a plugin's own error, a broken rule, a bug, damaged data"},
		{cli.ExitUsage, "the command line makes no sense"},
		{host.InvalidArgument.ExitCode(), "the configuration, the plugin or the data directory is not fit"},
		{host.NotFound.ExitCode(), "what was named does not exist"},
		{host.PermissionDenied.ExitCode(), "denied: a key that is missing or refused, a right that was not granted"},
		{host.ResourceExhausted.ExitCode(), "a limit, a budget or the time ran out"},
		{host.Unavailable.ExitCode(), "a model or the network did not answer as it should"},
		{cli.ExitWaiting, "waiting for an answer: a run asks a person"},
		{host.Canceled.ExitCode(), "interrupted; what was finished is kept"},
		{cli.ExitPipe, "nobody reads the output any more"},
	}
}
