// Package auditcmd has the command agenthost audit: the log of changes by administrators
// and tenants.
package auditcmd
