// Package projectcmd makes projects and describes their configuration: the commands
// agenthost init and agenthost schema.
package projectcmd
