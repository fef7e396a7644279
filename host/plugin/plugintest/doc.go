// Package plugintest checks a plugin against the rules of the contract that its author
// may forget: its behaviour on bad input, unknown fields, repeated input, little memory
// and many calls. It is for authors in any language: a test in Go reads the .wasm file and
// calls [TestGuest]; other programs call [Check] for the same rules, one result each.
package plugintest
