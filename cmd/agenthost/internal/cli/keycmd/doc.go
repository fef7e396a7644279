// Package keycmd has the command agenthost key: the API keys of a server's tenants.
package keycmd
