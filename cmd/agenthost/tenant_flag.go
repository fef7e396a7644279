package main

import "github.com/agenthost/agenthost/host/threads"

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
