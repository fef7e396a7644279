package runevent

import (
	"encoding/json"

	"github.com/agenthost/agenthost/host/internal/replay"
)

// Checkpoint is where an interrupted run stopped, of a host without a journal. Keep it as its JSON, and where its
// reader cannot change it: it says which calls were approved, with which arguments,
// under which idempotency key. For a client that may change it, make another with
// [Checkpoint.ForClient]. It is immutable.
type Checkpoint struct{ kept replay.Kept }

// NewCheckpoint returns the checkpoint of kept steps.
func NewCheckpoint(kept replay.Kept) *Checkpoint { return &Checkpoint{kept} }

// Kept returns the steps that the checkpoint keeps, for the host that resumes them.
func (c *Checkpoint) Kept() *replay.Kept { return &c.kept }

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
