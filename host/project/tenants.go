package project

import (
	"cmp"

	"github.com/agenthost/agenthost/host/threads"
)

// Tenant returns the tenant that a flag or a request names, or the project's.
func (p *Project) Tenant(name string) string {
	return cmp.Or(name, p.config.Tenant, threads.DefaultTenant)
}
