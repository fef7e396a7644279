// Package tenantcmd has the command agenthost tenant: the records of tenants with their
// plans.
package tenantcmd
