package host

import "github.com/agenthost/agenthost/host/runevent"

// The events and the result of a run are those of the package runevent.

// Event is one thing that happened in a run: see [runevent.Event].
type Event = runevent.Event

// EventData is the data of an event, by its type: a pointer to one of the types below,
// to [llm.ToolCallDelta], or a type of another package. See [runevent.Data].
type EventData = runevent.Data

// RunResult is the result of a whole run: see [runevent.RunResult].
type RunResult = runevent.RunResult
