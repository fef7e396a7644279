package open

import (
	"time"

	"github.com/spf13/pflag"
)

// DefaultWaitLock is how long a command waits for another one to close a data directory.
// Most commands are shorter; a host that is longer shares the directory.
const DefaultWaitLock = 10 * time.Second

// addWaitLock adds --wait-lock, which every command has that opens a data directory.
func addWaitLock(flags *pflag.FlagSet, wait *time.Duration) {
	flags.DurationVar(wait, "wait-lock", DefaultWaitLock, "wait this long, such as 1m, while another process has --data open and does not share it; 0s fails at once")
}
