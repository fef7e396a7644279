//go:build !unix

package mcpclient

import "os/exec"

// ownGroup does nothing: there are no process groups.
func ownGroup(*exec.Cmd) {}

// endGroup ends the process; there is no gentler way.
func endGroup(cmd *exec.Cmd) error { return cmd.Process.Kill() }

// killGroup ends the process.
func killGroup(cmd *exec.Cmd) error { return cmd.Process.Kill() }
