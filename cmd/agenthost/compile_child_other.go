//go:build !linux

package main

import "time"

// keepFiles does nothing: a child gets the files that this process was started
// with and did not ask for.
func keepFiles() {}

// bindChild does nothing: here only time ends a child, its own clock and its
// parent's. CompileMemory is what its garbage collector aims at.
func bindChild(time.Duration, int64) error { return nil }
