// Package modeltest checks models behind HTTP: each kind of models has the same checks
// put to it, in the words of its protocol, and servers of a test's own that answer
// without a network. A check of all kinds in one table is in the tests of host/modelhttp.
package modeltest
