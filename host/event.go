package host

import "github.com/agenthost/agenthost/host/runevent"

// The events and the result of a run are those of the package runevent.

// Event is one thing that happened in a run: see [runevent.Event].
type Event = runevent.Event

// EventData is the data of an event, by its type: a pointer to one of the types below,
// to [ToolCallDelta], or a type of another package. See [runevent.Data].
type EventData = runevent.Data

// ClientEvent is an event of another package that holds errors: see
// [runevent.ClientData].
type ClientEvent = runevent.ClientData

// UnknownEvent is an event of a type that this version does not know.
type UnknownEvent = runevent.UnknownEvent

// The events.
type (
	// RunStarted opens every run.
	RunStarted = runevent.RunStarted
	// RouteChosen tells the router's decision.
	RouteChosen = runevent.RouteChosen
	// ThreadDecided tells which of two keeps the messages of an agent thread: its message
	// store or the model's service.
	ThreadDecided = runevent.ThreadDecided
	// AgentStarted opens one agent's run.
	AgentStarted = runevent.AgentStarted
	// ProcessorRan tells a processor's changes to the view of history.
	ProcessorRan = runevent.ProcessorRan
	// ProviderRan tells the additions of a context provider.
	ProviderRan = runevent.ProviderRan
	// ModelCalled tells that a model is asked.
	ModelCalled = runevent.ModelCalled
	// ModelThrottled tells that a model was not asked at once, since the tenant asked too often.
	ModelThrottled = runevent.ModelThrottled
	// ModelRetried tells that a model did not answer and is asked again.
	ModelRetried = runevent.ModelRetried
	// ModelFellBack tells that a model does not answer and another is asked in its place.
	ModelFellBack = runevent.ModelFellBack
	// TextDelta is a piece of an answer's text.
	TextDelta = runevent.TextDelta
	// ReasoningDelta is a piece of a model's reasoning.
	ReasoningDelta = runevent.ReasoningDelta
	// MessageDone carries a whole message that joined the conversation.
	MessageDone = runevent.MessageDone
	// ToolStarted tells that a tool runs.
	ToolStarted = runevent.ToolStarted
	// ToolProgress is an event that a running tool emits.
	ToolProgress = runevent.ToolProgress
	// ToolRetried tells that an attempt of a tool failed and another follows.
	ToolRetried = runevent.ToolRetried
	// ToolFinished carries a tool's result.
	ToolFinished = runevent.ToolFinished
	// StatePatched tells how the state changed.
	StatePatched = runevent.StatePatched
	// ArtifactMade carries an artifact, when it is made.
	ArtifactMade = runevent.ArtifactMade
	// Interrupted tells that the run will end with a question.
	Interrupted = runevent.Interrupted
	// AgentFinished closes one agent's run.
	AgentFinished = runevent.AgentFinished
	// RunFinished closes every run, after its results are stored.
	RunFinished = runevent.RunFinished
)

// RunResult is the result of a whole run: see [runevent.RunResult].
type RunResult = runevent.RunResult

// Checkpoint is where an interrupted run stopped, of a host without a [Journal]: see
// [runevent.Checkpoint].
type Checkpoint = runevent.Checkpoint

// RunStateAs returns the state that a run has ended with as a T: see
// [runevent.StateAs].
func RunStateAs[T any](r *RunResult) (T, error) { return runevent.StateAs[T](r) }
