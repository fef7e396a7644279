// Package datacmd backs up, restores, checks, encrypts and erases data directories: the command
// agenthost data, and the operations that a running host does for it.
package datacmd
