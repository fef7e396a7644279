//go:build !unix

package osprocess

import "os/exec"

// OwnGroup does nothing: there are no process groups.
func OwnGroup(*exec.Cmd) {}

// EndGroup ends the process; there is no gentler way.
func EndGroup(cmd *exec.Cmd) error { return cmd.Process.Kill() }

// KillGroup ends the process.
func KillGroup(cmd *exec.Cmd) error { return cmd.Process.Kill() }
