//go:build !linux && !darwin

package datadir

// freeBytes is not known on this system.
func freeBytes(string) (free uint64, known bool) { return 0, false }
