// Package builtin makes the history processors that agenthost ships from Go, in a
// line each, so that a program needs neither a module's bytes nor JSON:
//
//	quiet, err := builtin.NewToolCallFilter(&builtin.ToolCallFilterOptions{Exclude: []string{"debug_tool"}})
//	short, err := builtin.NewTokenLimiter(16000, &builtin.TokenLimiterOptions{Encoding: "cl100k_base"})
//	agent, err := host.NewAgent("clerk", &host.AgentOptions{Processors: []host.Processor{quiet, short}})
//
// Their documentation is in the packages plugins/toolcallfilter, plugins/tokenlimiter
// and plugins/summarizer. A configuration is checked when the processor is made, and
// an error has the same words as for agenthost.yaml.
//
// They run natively: as Go functions, without a sandbox and its meter. With the option
// Sandbox they run as plugins, and their instructions are metered; the effect on a
// conversation is the same. The summarizer asks a model and stores the summaries, which
// a plugin does through its host, so it always has a sandbox; package host/reduce
// summarizes natively.
package builtin
