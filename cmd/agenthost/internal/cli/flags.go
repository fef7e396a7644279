package cli

import (
	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/host/threads"
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

// CompleteWords completes a flag with some words.
func CompleteWords(c *cobra.Command, flag string, words []string) {
	if err := c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // there is no such flag
	}
}
