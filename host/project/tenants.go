package project

import (
	"cmp"

	"github.com/agenthost/agenthost/host/threads"
)

// Tenant returns the tenant that a flag or a request names, or the project's.
func (a *Project) Tenant(name string) string {
	return cmp.Or(name, a.config.Tenant, threads.DefaultTenant)
}
