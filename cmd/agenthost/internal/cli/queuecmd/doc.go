// Package queuecmd lists jobs that wait or were given up, and changes those: the command agenthost
// queue.
package queuecmd
