// Package tracecmd shows the recorded runs of a data directory: the command agenthost trace.
package tracecmd
