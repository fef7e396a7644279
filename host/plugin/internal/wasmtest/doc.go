// Package wasmtest writes WebAssembly modules for tests. In goes a small text
// format ([Assemble]), out comes a module in the binary format.
//
// The assembler encodes what it is given and checks nothing: damaged and invalid
// modules are what many tests are about. It shares no code with the packages
// that read modules, so that a wrong number in one of them fails a test.
package wasmtest
