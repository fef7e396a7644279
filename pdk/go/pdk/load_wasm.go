package pdk

import "unsafe"

// load64 returns the eight bytes of s from i on, the first in the lowest bits. All
// of them must be there: nothing checks. On other machines the compiler merges
// loads of single bytes; on this one, where it matters most, it does not.
func load64(s string, i int) uint64 {
	return *(*uint64)(unsafe.Add(unsafe.Pointer(unsafe.StringData(s)), i))
}
