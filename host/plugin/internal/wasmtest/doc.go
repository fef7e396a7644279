// Package wasmtest assembles WebAssembly modules for tests from a small text format
// ([Assemble]).
//
// The assembler checks nothing, because many tests need damaged and invalid modules. It
// shares no code with the packages that read modules, so that a wrong number in one of
// them fails a test.
package wasmtest
