package helpcmd

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/lineedit"
	"github.com/agenthost/agenthost/host/anthropicmodel"
	"github.com/agenthost/agenthost/host/datadir"
	"github.com/agenthost/agenthost/host/egress"
	"github.com/agenthost/agenthost/host/geminimodel"
	"github.com/agenthost/agenthost/host/openaimodel"
	"github.com/agenthost/agenthost/host/project"
)

// variableMeaning is one line of the table of environment variables. Words in
// angle brackets are placeholders.
type variableMeaning struct{ name, means string }

// variableMeanings is the table; docs/environment.md has the same.
func variableMeanings() []variableMeaning {
	return []variableMeaning{
		{"OPENAI_API_KEY", "the key of models of the providers openai and responses"},
		{"OPENAI_BASE_URL", "their server: any OpenAI-compatible one, as http://localhost:11434/v1 (default: " + openaimodel.DefaultBaseURL + ")"},
		{"ANTHROPIC_API_KEY", "the key of models of the provider anthropic"},
		{"ANTHROPIC_BASE_URL", "their server (default: " + anthropicmodel.DefaultBaseURL + ")"},
		{"GEMINI_API_KEY", "the key of models of the provider gemini"},
		{"GEMINI_BASE_URL", "their server (default: " + geminimodel.DefaultBaseURL + ")"},
		{"AWS_BEARER_TOKEN_BEDROCK", "the API key of models of the provider bedrock; without it requests are signed"},
		{"AWS_ACCESS_KEY_ID", "the name of the key that requests to Bedrock are signed with"},
		{"AWS_SECRET_ACCESS_KEY", "that key"},
		{"AWS_SESSION_TOKEN", "its token, if it is a role's"},
		{"AWS_REGION", "the region of models of the provider bedrock"},
		{"AWS_DEFAULT_REGION", "the same where AWS_REGION is not set"},
		{"AWS_BEDROCK_BASE_URL", "their server (default: the one of the region)"},
		{project.Mem0KeyVariable, "the key of memories that are kept with Mem0"},
		{egress.DefaultEnvPrefix + "<NAME>", "a secret that plugins may have sent for them, for all tenants; in capitals, with _ for - and ."},
		{egress.DefaultEnvPrefix + "<TENANT>__<NAME>", "the same for one tenant, before the one for all"},
		{datadir.Variable, "where commands without --data keep and find data: a directory, or postgres://user:password@host:5432/database"},
		{datadir.KeyFileVariable, "the file with the key that data directories are encrypted with"},
		{datadir.KeyVariable, "that key itself: 64 hexadecimal digits, or base64"},
		{"AGENTHOST_PEER_LISTEN", "host:port at which other hosts of a database reach this one (default: a free port of this machine alone)"},
		{"AGENTHOST_CACHE", "the directory of compiled and built plugins (default: agenthost in this user's cache directory)"},
		{"NOTIFY_SOCKET", "the socket of the service manager, such as systemd, that hears when a host serves and ends"},
		{"WATCHDOG_USEC", "the microseconds within which the service manager wants to hear that a host lives"},
		{"WATCHDOG_PID", "the process that it wants to hear it of"},
		{lineedit.FileVariable, "the file of the lines that are typed in conversations; off keeps none (default: agenthost/history in XDG_STATE_HOME)"},
		{"XDG_STATE_HOME", "the directory of what programs keep between runs (default: .local/state in HOME)"},
		{"HOME", "this user's directory"},
		{"NO_COLOR", "set to anything: no colour on a terminal"},
		{"TERM", "dumb: no colour, and nothing that is drawn again"},
		{"TMPDIR", "where temporary files are: of the demo, of plugins that are built, the copy of a directory that can only be read"},
		{"PATH", "where the go command is found that builds plugins"},
	}
}

const variablesRest = `A configuration may name others: key_env of a model or a memory, and address_env of
messages, say which variable holds a key or an address; --data env:NAME names the one
that holds the address of the data. A variable that is not set, or empty, is left out of
account.`

// Environment is a command without a run: cobra lists it as a topic.
func Environment() *cobra.Command {
	var b strings.Builder
	b.WriteString("These environment variables are read:\n\n")
	for _, v := range variableMeanings() {
		fmt.Fprintf(&b, "  %s\n        %s\n", v.name, v.means)
	}
	b.WriteString("\n" + variablesRest)
	return &cobra.Command{Use: "environment", Short: "The environment variables that are read", Long: b.String()}
}
