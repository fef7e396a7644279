// Package runcmd runs a project's network, once or in a conversation: the commands
// agenthost run, dev and demo. A conversation with a data directory is a host that other
// commands steer over its control socket.
package runcmd
