package nested

import (
	"encoding/json"
	"errors"
	"slices"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
)

// The bounds of nested calls. A run also has the limits of its host: MaxToolCalls counts
// every call, and ParallelTools bounds the calls at one time at each depth.
const (
	MaxDepth    = 4        // of calls within each other, but for those of agents used as tools
	MaxCalls    = 1024     // of one list
	MaxRunCalls = 10_000   // that a run keeps answers of
	MaxRunBytes = 32 << 20 // of the arguments and answers that a run keeps
	EveryTool   = "*"      // in a list of names: each tool of the agent
)

// Call is a call of a tool, by the name under which the agent has the tool.
type Call struct {
	Name      string
	Arguments json.RawMessage // absent: an empty object
}

// Kind is the kind of an [Answer].
type Kind string

// The kinds of answers.
const (
	Result      Kind = "result"
	Error       Kind = "error"       // the content is a sentence, as a model reads it
	Interrupted Kind = "interrupted" // the call waits for a person, and its caller must end
)

// Answer is the answer to a [Call].
type Answer struct {
	Kind    Kind
	Content json.RawMessage
	Code    fault.Code // of an error
	Media   []*chat.Media
}

// Allows reports whether a list of names has a tool, or says that it has every one.
func Allows(names []string, tool string) bool {
	return slices.Contains(names, tool) || slices.Contains(names, EveryTool)
}

// ErrInterrupted says that a call waits for a person: the caller must end, and is called
// again when there is an answer. It starts again from its beginning then, and the calls
// that had completed are answered at once.
var ErrInterrupted = errors.New("a call waits for a person, so its caller has to end and is called again with the answer")
