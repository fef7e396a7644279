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
	// Parameters are members of a request to a model's service.
	Parameters = llm.Parameters
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

// Usage counts tokens: see [chat.Usage].
type Usage = chat.Usage

// Cost is the usage of sandboxed code: see [chat.Cost].
type Cost = chat.Cost

// Processor changes the view of history that a model receives: see [llm.Processor].
type Processor = llm.Processor

// View is the input of a processor: see [llm.View].
type View = llm.View

// ProcessorFunc returns a processor from a function from messages to messages: see
// [llm.ProcessorFunc].
func ProcessorFunc(name string, fn func(ctx context.Context, messages []*Message) ([]*Message, error)) Processor {
	return llm.ProcessorFunc(name, fn)
}

// Optional returns p with another answer to failure: see [llm.Optional].
func Optional(p Processor) Processor { return llm.Optional(p) }

// ProcessAll applies processors in their order: see [llm.ProcessAll].
func ProcessAll(ctx context.Context, list []Processor, view *View) ([]*Message, []*llm.Processed, error) {
	return llm.ProcessAll(ctx, list, view)
}
