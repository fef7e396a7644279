// Package sessioncmd says something in a session of a running host, and follows turns in
// the background: the commands agenthost chat and agenthost session, and the operations
// that a running host does for them.
package sessioncmd
