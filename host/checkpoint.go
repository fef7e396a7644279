package host

import (
	"encoding/json"
	"slices"

	"github.com/agenthost/agenthost/host/internal/replay"
)

// Checkpoint is where an interrupted run stopped, of a host without a [Journal]: see
// [RunResult].Checkpoint and [Request].Checkpoint. Keep it as its JSON, and where its
// reader cannot change it: it says which calls were approved, with which arguments,
// under which idempotency key. For a client that may change it, make another with
// [Checkpoint.ForClient]. It is immutable.
type Checkpoint struct{ kept replay.Kept }

// MarshalJSON writes the checkpoint.
func (c *Checkpoint) MarshalJSON() ([]byte, error) { return json.Marshal(&c.kept) }

// UnmarshalJSON reads the output of MarshalJSON. Code invalid_argument for bytes
// that are no checkpoint, failed_precondition for one of another version.
func (c *Checkpoint) UnmarshalJSON(raw []byte) error { return c.kept.UnmarshalJSON(raw) }

// Run returns the id of the interrupted run.
func (c *Checkpoint) Run() string { return c.kept.Run }

// WithoutConversation returns a checkpoint without the messages and the states of
// context providers, for callers that keep these: they come with the request that
// resumes it.
func (c *Checkpoint) WithoutConversation() *Checkpoint {
	return &Checkpoint{*c.kept.WithoutConversation()}
}

// ForClient returns the part of the checkpoint that a client may have, and change:
// the calls that wait, and where in the run they were made. The conversation and
// the state come with the request that resumes it, and nothing in the checkpoint is
// believed that could get around a rule: tools that need an approval are refused
// it, agents used as tools cannot ask, and calls have new idempotency keys. Make it
// when the checkpoint is handed out, and again of the one that comes back: JSON
// does not say that a client had it.
func (c *Checkpoint) ForClient() *Checkpoint { return &Checkpoint{*c.kept.ForClient()} }

// checkpoint returns the checkpoint of a run that ends with questions.
func (r *run) checkpoint() *replay.Checkpoint {
	interrupted := r.conv.results[len(r.conv.results)-1]
	before := slices.Concat(r.conv.earlier, r.conv.results[:len(r.conv.results)-1])
	c := &replay.Checkpoint{
		V: replay.Version, Input: r.conv.input, Branch: r.thread.branch, State: r.state.JSON(), Instructions: r.content.instructions, Parameters: r.content.parameters,
		Results: before, Iterations: r.routes.iterations - 1, Stack: r.routes.stack,
		Tokens: r.ledger.spent.tokens.Load(), ToolCalls: r.ledger.spent.toolCalls.Load(), Executed: r.ledger.spent.instructions.Load(),
		Artifacts: r.ledger.spent.artifacts.Load(), Stored: r.ledger.spent.artifactBytes.Load(),
		Agent: interrupted.Agent, Rounds: interrupted.Rounds, Calls: r.journal.openCalls,
	}
	messages := r.conv.messages()
	c.Last = messages[len(messages)-1].ID
	if r.thread.history == nil || r.thread.history.get == nil || r.thread.history.appendResult == nil {
		c.Messages, c.Providers = messages, r.thread.providers.json(false)
	}
	return c
}
