//go:build unix && !linux

package mcpclient

import (
	"os/exec"
	"syscall"
)

// ownGroup gives a command a process group. The kernel does not end it with a host that is
// killed; its input is closed then.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// endGroup asks the processes of a command's group to end.
func endGroup(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }

// killGroup ends them.
func killGroup(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
