package plugin

import (
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/internal/wasmmeter"
)

// ErrInitialMemory is in the chain of the error for a module whose memory begins with
// more than [Limits].MemoryBytes.
var ErrInitialMemory = wasmmeter.ErrInitialMemory

// refuse returns the error for a module that is malformed or beyond a limit: the
// fault found and the value allowed. WithHint adds the remedy. Its code is
// invalid_argument, also for limits: no waiting and no quota makes the same
// file acceptable, which resource_exhausted would promise.
func refuse(format string, args ...any) *host.Error {
	return host.Errorf(host.InvalidArgument, format, args...)
}

// tooLarge refuses a module that has more bytes than a limit allows.
func tooLarge(n, limit int) error {
	return refuse("the module has %d bytes, and the limit is %d", n, limit).
		WithHint("make the module smaller (strip it, drop what it does not use), or raise the limit if you trust its author")
}

// unsupported returns the error for a module that is in order, but for another
// host: a component, a later WebAssembly, another ABI.
func unsupported(format string, args ...any) *host.Error {
	return host.Errorf(host.FailedPrecondition, format, args...)
}
