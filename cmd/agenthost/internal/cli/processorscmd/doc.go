// Package processorscmd shows what history processors do to a conversation: the command
// agenthost processors.
package processorscmd
