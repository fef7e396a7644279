package plugin

import (
	"github.com/agenthost/agenthost/host/plugin/internal/refusal"
	"github.com/agenthost/agenthost/host/plugin/internal/wasmmeter"
)

// ErrInitialMemory is in the chain of the error for a module whose memory begins with
// more than [Limits].MemoryBytes.
var ErrInitialMemory = wasmmeter.ErrInitialMemory

// tooLarge refuses a module that has more bytes than a limit allows.
func tooLarge(n, limit int) error {
	return refusal.Invalid("the module has %d bytes, and the limit is %d", n, limit).
		WithHint("make the module smaller (strip it, drop what it does not use), or raise the limit if you trust its author")
}
