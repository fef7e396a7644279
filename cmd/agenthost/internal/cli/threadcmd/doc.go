// Package threadcmd reads, changes and moves stored conversations: the command agenthost thread.
package threadcmd
