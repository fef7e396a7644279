package open

import (
	"time"

	"github.com/spf13/pflag"
)

// addWaitLock adds --wait-lock, which every command has that opens a data directory.
func addWaitLock(flags *pflag.FlagSet, wait *time.Duration) {
	flags.DurationVar(wait, "wait-lock", 0, "wait this long, such as 30s, while another process has --data open and does not share it (default: fail at once)")
}
