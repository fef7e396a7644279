package main

import (
	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/host/threads"
)

// defaultTenant is the tenant of a command without --tenant.
const defaultTenant = threads.DefaultTenant

// tenantOr returns the tenant that a flag names, or the default one.
func tenantOr(name string) string {
	if name == "" {
		return defaultTenant
	}
	return name
}

// tenantUsage is the help of a --tenant flag.
func tenantUsage(whose string) string { return whose + " (default \"" + defaultTenant + "\")" }

// completeFlagOf completes a flag with some words.
func completeFlagOf(c *cobra.Command, flag string, words []string) {
	if err := c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // there is no such flag
	}
}
