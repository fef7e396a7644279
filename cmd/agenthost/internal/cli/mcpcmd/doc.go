// Package mcpcmd is agenthost mcp: a project as a server of the Model Context Protocol for one
// client, on standard input and output.
package mcpcmd
