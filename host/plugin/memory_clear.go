//go:build !linux

package plugin

// zero sets memory to zero. Only Linux promises zeroes for pages that are given
// back.
func zero(b []byte) { clear(b) }
