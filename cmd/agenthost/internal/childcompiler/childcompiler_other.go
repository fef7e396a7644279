//go:build !linux

package childcompiler

import "time"

// keepFiles does nothing: a child inherits the files that this process inherited.
func keepFiles() {}

// bindChild does nothing: here only timeouts end a child, its own and its parent's.
// CompileMemory sets its garbage collector's goal alone.
func bindChild(time.Duration, int64) error { return nil }
