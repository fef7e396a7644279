// Package modeltest is what the tests of the models behind HTTP share: a question
// and what came of it, and servers of a test's own that answer without a network.
// It promises that a test of one protocol says the same as that of another.
package modeltest
