package childcompiler

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/agenthost/agenthost/host"
)

// childFiles is how many files a child may have open: three pipes, the one it
// writes, and those of the Go runtime.
const childFiles = 32

// keepFiles keeps children from inheriting the files that this process inherited; Go
// marks the files it opens close-on-exec anyway. A kernel before 5.11 cannot do it.
func keepFiles() { _ = unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) }

// bindChild has the kernel limit this process. memory is writable memory beyond the
// present amount (RLIMIT_DATA): addresses that a Go program only reserves do not
// count. The time is that of all processors together, and bounds a child whose clock
// was stopped.
func bindChild(timeout time.Duration, memory int64) error {
	has, err := dataBytes()
	if err != nil {
		return host.Errorf(host.Internal, "limit a process that compiles: %w", err)
	}
	seconds := uint64(math.Ceil(timeout.Seconds()))*2 + 1
	for _, l := range []struct {
		resource int
		most     uint64
	}{
		{syscall.RLIMIT_DATA, has + uint64(memory)},
		{syscall.RLIMIT_CPU, seconds},
		{syscall.RLIMIT_FSIZE, uint64(memory)},
		{syscall.RLIMIT_CORE, 0},
		{syscall.RLIMIT_NOFILE, childFiles},
	} {
		hard := l.most
		if l.resource == syscall.RLIMIT_CPU {
			hard++ // a second in which to report this cause
		}
		if err := syscall.Setrlimit(l.resource, &syscall.Rlimit{Cur: l.most, Max: hard}); err != nil {
			return host.Errorf(host.Internal, "limit a process that compiles: %w", err)
		}
	}
	return nil
}

// dataBytes returns the size of this process's writable memory.
func dataBytes() (uint64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, line, ok := bytes.Cut(status, []byte("\nVmData:"))
	if !ok {
		return 0, host.Errorf(host.Internal, "the kernel does not say how large this process is")
	}
	var kilobytes uint64
	_, err = fmt.Sscan(string(line), &kilobytes)
	return kilobytes << 10, err
}
