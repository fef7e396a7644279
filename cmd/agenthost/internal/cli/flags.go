package cli

import (
	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/internal/termtext"
)

// DefaultTenant is the tenant of a command without --tenant.
const DefaultTenant = threads.DefaultTenant

// TenantOr returns the tenant that a flag names, or the default one.
func TenantOr(name string) string {
	if name == "" {
		return DefaultTenant
	}
	return name
}

// TenantUsage is the help of a --tenant flag.
func TenantUsage(whose string) string { return whose + " (default \"" + DefaultTenant + "\")" }

// JSONUsage is the help of a --json flag.
const JSONUsage = "print JSON"

// StoredFlags are the flags of a group of commands that work on stored data.
type StoredFlags struct {
	Data   DataFlag
	Tenant string
	JSON   bool
}

// AddTo adds --data, of what the commands read, and --json to a group, for all of its
// commands.
func (f *StoredFlags) AddTo(group *cobra.Command, of string) {
	group.PersistentFlags().Var(&f.Data, "data", DataUsage(of+" (required)"))
	group.PersistentFlags().BoolVar(&f.JSON, "json", false, JSONUsage)
}

// Words are the flags that name the same data and tenant on another command line, after a
// space; "" if none are needed.
func (f *StoredFlags) Words() string {
	words := f.Data.Words()
	if f.Tenant != "" {
		words += " --tenant " + termtext.ShellWord(f.Tenant)
	}
	return words
}

// AddTenantTo adds --tenant to a group, for all of its commands. usage is its help, such as
// [TenantUsage].
func (f *StoredFlags) AddTenantTo(group *cobra.Command, usage string) {
	group.PersistentFlags().StringVar(&f.Tenant, "tenant", "", usage)
}

// waits is the annotation of [Waits].
const waits = "waits"

// Waits marks a command that runs until it is stopped: how long it runs is not shown.
func Waits(c *cobra.Command) *cobra.Command {
	c.Annotations = map[string]string{waits: ""}
	return c
}

// IsWaiting reports whether a command is marked by [Waits].
func IsWaiting(c *cobra.Command) bool {
	_, is := c.Annotations[waits]
	return is
}

// CompleteWords completes a flag with some words.
func CompleteWords(c *cobra.Command, flag string, words []string) {
	CompleteBy(c, flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

// CompleteBy has the shell complete a flag of a command.
func CompleteBy(c *cobra.Command, flag string, complete func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)) {
	if err := c.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic(err) // there is no such flag
	}
}
