package plugincmd

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/internal/grantwords"
	"github.com/agenthost/agenthost/internal/termtext"
)

// The bounds of limits on the command line.
const (
	minTimeout = time.Millisecond
	pageBytes  = 64 << 10
	maxMemory  = 4 << 30
)

// addLimits adds the flags of a plugin's limits and grants.
func (f *callFlags) addLimits(c *cobra.Command) {
	flags := c.Flags()
	flags.DurationVar(&f.timeout, "timeout", 0, fmt.Sprintf("the limit Timeout (default %s)", plugin.DefaultTimeout))
	flags.Var(&f.memory, "memory", fmt.Sprintf("the limit MemoryBytes (default %dMiB)", plugin.DefaultMemoryBytes>>20))
	flags.Uint64Var(&f.instructions, "instructions", 0, fmt.Sprintf("the limit Instructions (default %s)", termtext.Thousands(plugin.DefaultInstructions)))
	flags.Var(&f.others, "limit", "any limit by its name in pdk/ABI.md, such as HostCalls=100 or OutputBytes=1MiB; may be given more than once")
	_ = c.RegisterFlagCompletionFunc("limit", completeLimit) // the flag is there
	flags.StringArrayVar(&f.grants, "grant", nil, "permissions: "+grantwords.Syntax+"; may be given more than once")
}

// checkLimits refuses limits that no plugin could run within.
func (f *callFlags) checkLimits(command string) error {
	if text := f.limitFault(); text != "" {
		return cli.UsageError(errors.New(text), command)
	}
	return nil
}

// limitFault describes the limit that no plugin could run within; "" if all are usable.
func (f *callFlags) limitFault() string {
	switch {
	case f.timeout < 0 || f.timeout > 0 && f.timeout < minTimeout:
		return fmt.Sprintf("--timeout is %s; starting a plugin alone takes longer: give it at least %s, as in --timeout 2s", f.timeout, minTimeout)
	case f.memory > 0 && f.memory < pageBytes:
		return "--memory is less than a page of WebAssembly memory, which is 64KiB; most plugins need 1MiB, one in Go 4MiB"
	case f.memory > maxMemory:
		return "--memory is more than 4GiB, where WebAssembly memory ends"
	case f.instructions > 1<<62:
		return fmt.Sprintf("--instructions is %d, more than any call could use", f.instructions)
	}
	return ""
}

// limits are those of --limit, overridden by the flags for single limits.
func (f *callFlags) limits() plugin.Limits {
	l := f.others.limits
	l.Timeout, l.StartTimeout = cmp.Or(f.timeout, l.Timeout), cmp.Or(l.StartTimeout, f.timeout)
	l.MemoryBytes, l.Instructions = cmp.Or(int64(f.memory), l.MemoryBytes), cmp.Or(int64(f.instructions), l.Instructions)
	return l
}

// sizeFlag is a number of bytes on the command line.
type sizeFlag int64

// String implements pflag.Value.
func (s *sizeFlag) String() string { return "" }

// Type implements pflag.Value.
func (s *sizeFlag) Type() string { return "size" }

// Set implements pflag.Value.
func (s *sizeFlag) Set(text string) error {
	v, err := termtext.ParseBytes(text)
	*s = sizeFlag(v)
	return err
}

// limitError adds the flags to blame to the error of a plugin that cannot start within
// its limits.
func (r *rawCall) limitError(err error) error {
	switch {
	case r.flags.memory > 0 && errors.Is(err, plugin.ErrInitialMemory):
		return host.Errorf(host.CodeOf(err), "--memory is too small: %w", err)
	case r.flags.timeout > 0 && host.CodeOf(err) == host.DeadlineExceeded:
		return host.Errorf(host.CodeOf(err), "--timeout is too short to start in: %w", err).WithHint("a Go plugin takes some milliseconds to start; raise --timeout")
	}
	return err
}
