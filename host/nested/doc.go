// Package nested has the calls that a tool makes of other tools.
//
// A tool that may call others (host.ToolOptions.Calls, or the permission tools of a
// plugin) makes a list of calls at a time by host.Call.CallTools, or by the operation
// tool.call of the plugin contract. A [Call] goes in, an [Answer] comes out. A [Deadline]
// is the time of a tool that makes calls: their time is not its own.
//
// Calls are known by their position among all that their caller makes: when a run is
// resumed the caller starts again from its beginning, and the calls that had completed
// are answered from the journal. A tool that makes other calls then fails with code
// conflict.
package nested
