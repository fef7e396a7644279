//go:build !unix

package datadir

import "io/fs"

// lockToRead does nothing where a store is not locked by its directory: an open file of
// the store cannot be copied there.
func lockToRead(string) (unlock func(), err error) { return func() {}, nil }

// allocatedBytes returns the size of a file: its holes are not known here.
func allocatedBytes(info fs.FileInfo) int64 { return info.Size() }
