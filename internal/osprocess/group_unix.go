//go:build unix && !linux

package osprocess

import (
	"os/exec"
	"syscall"
)

// OwnGroup gives a command a process group. The kernel does not end it with a host that is
// killed; its input is closed then.
func OwnGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// EndGroup asks the processes of a command's group to end.
func EndGroup(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }

// KillGroup ends them.
func KillGroup(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
