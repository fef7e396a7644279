// Package llm is what a model is asked and what it answers, for code that provides
// models, history processors or token tables and for code that uses them.
//
// A [Model] takes a [Request] and streams [Chunk] values; the last one holds the
// [Response]. A caller that reads no deltas says so in Request.Whole. [Normalize] puts an
// answer into the one form that a history can hold. Before a model is asked, each [Processor] changes the [View] of history that the
// model receives; [Process] applies one and checks that its result is no worse formed
// than the view.
//
// Errors are of package fault. The package knows nothing of agents, networks and runs.
// Package host has the names that programs with agents use as aliases.
package llm
