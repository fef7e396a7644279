// Package plugintest holds a plugin to the contract that its author may forget:
// what it does with bad input, with fields it does not know, with the same
// input again, with little memory, and with many calls. It is for authors in any
// language: a test in Go reads the .wasm file and calls [TestGuest]; anything
// else asks [Check] for the same rules, one result each.
package plugintest
