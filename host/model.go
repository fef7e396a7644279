package host

import (
	"context"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/llm"
)

// The contracts of models and history processors are those of the package llm. The
// names that programs with agents use are names of this package too.

// Model answers a conversation: see [llm.Model].
type Model = llm.Model

// Scope says who is asking and where: every part of a run receives it.
type Scope = llm.Scope

type (
	// ModelRequest is one question to a model: see [llm.Request].
	ModelRequest = llm.Request
	// ModelResponse is a model's whole answer: see [llm.Response].
	ModelResponse = llm.Response
	// ModelChunk is one piece of a streamed answer: see [llm.Chunk].
	ModelChunk = llm.Chunk
	// ToolCallDelta is a piece of a tool call in a streamed answer.
	ToolCallDelta = llm.ToolCallDelta
	// RetryNotice tells that an attempt failed and another follows.
	RetryNotice = llm.RetryNotice
	// FallbackNotice tells that a model failed and another is asked in its place.
	FallbackNotice = llm.FallbackNotice
	// Parameters are members of a request to a model's service.
	Parameters = llm.Parameters
	// OutputSpec asks a model to answer with JSON of a schema: see [llm.OutputSpec].
	OutputSpec = llm.OutputSpec
	// ToolSpec describes a tool to a model.
	ToolSpec = llm.ToolSpec
	// ProviderTool is a tool that a model's provider runs by itself: see
	// [llm.ProviderTool].
	ProviderTool = llm.ProviderTool
)

// ToolChoice says whether a model must call a tool: see [llm.ToolChoice].
type ToolChoice = llm.ToolChoice

// The tool choices that are not a tool's name.
const (
	ToolChoiceAuto = llm.ToolChoiceAuto
	ToolChoiceAny  = llm.ToolChoiceAny
	ToolChoiceNone = llm.ToolChoiceNone
)

// FinishReason says why an answer, an agent's run or a network's run ended.
type FinishReason = chat.FinishReason

// The finish reasons: see [chat.FinishReason].
const (
	FinishStop          = chat.FinishStop
	FinishToolCalls     = chat.FinishToolCalls
	FinishLength        = chat.FinishLength
	FinishContentFilter = chat.FinishContentFilter
	FinishPaused        = chat.FinishPaused
	FinishMaxRounds     = chat.FinishMaxRounds
	FinishMaxIterations = chat.FinishMaxIterations
	FinishInterrupted   = chat.FinishInterrupted
	FinishFailed        = chat.FinishFailed
	FinishCanceled      = chat.FinishCanceled
)

// Usage counts tokens: see [chat.Usage].
type Usage = chat.Usage

// Cost is the usage of sandboxed code: see [chat.Cost].
type Cost = chat.Cost

// Processor changes the view of history that a model receives: see [llm.Processor].
type Processor = llm.Processor

// Processed is the report of a processor: see [llm.Processed].
type Processed = llm.Processed

// View is the input of a processor: see [llm.View].
type View = llm.View

// NewView returns a view outside any run, for testing processors: see [llm.NewView].
func NewView(messages []*Message, model string, counter TokenCounter) *View {
	return llm.NewView(messages, model, counter)
}

// ProcessorFunc returns a processor from a function from messages to messages: see
// [llm.ProcessorFunc].
func ProcessorFunc(name string, fn func(ctx context.Context, messages []*Message) ([]*Message, error)) Processor {
	return llm.ProcessorFunc(name, fn)
}

// Optional returns p with another answer to failure: see [llm.Optional].
func Optional(p Processor) Processor { return llm.Optional(p) }

// Process applies one processor to a view and checks the result: see [llm.Process].
func Process(ctx context.Context, p Processor, view *View) ([]*Message, *Processed, error) {
	return llm.Process(ctx, p, view)
}

// ProcessAll applies processors in their order: see [llm.ProcessAll].
func ProcessAll(ctx context.Context, list []Processor, view *View) ([]*Message, []*Processed, error) {
	return llm.ProcessAll(ctx, list, view)
}
