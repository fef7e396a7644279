// Package mcpcmd is agenthost mcp: a project as a server of the Model Context Protocol for one
// client, on standard input and output. The commands below it show the tools of the servers
// that a project uses, and accept their definitions.
package mcpcmd
