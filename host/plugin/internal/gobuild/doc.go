// Package gobuild builds plugins from their Go source. In goes a directory, out comes the
// bytes of a WebAssembly module, or an error that says how to mend the source or the machine.
//
// It promises that the same source and toolchain give the same bytes on every machine, that
// a module comes from the cache only while no file that decides its bytes has changed, and
// that a cache which cannot be written costs time and no success. It runs the Go toolchain of
// the machine, and knows no engine, no manifest and no runtime of plugins.
package gobuild
