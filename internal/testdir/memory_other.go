//go:build !linux

package testdir

// memory returns "": only Linux has a file system in memory at a known place.
func memory() string { return "" }
