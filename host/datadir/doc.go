// Package datadir opens data directories: a store that one process owns and other
// processes of the same user share over a socket, encrypted if a key is set, with the
// traces of runs beside it.
//
// [Open] takes a path and returns a [Dir], whose Driver is the storage of every store of
// this module; "" is memory. [OpenShared] uses the directory through the process that
// has it open; with Options.WaitLock both wait until another process has closed it.
// [OpenToRead] reads a copy where this user cannot write. [Dir.Verify]
// reads all of it, and [Dir.Erasures] deletes tenants from all of it. Errors have a
// code and name the next step in the words of the command line.
package datadir
