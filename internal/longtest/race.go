//go:build race

package longtest

// Race reports whether the tests run under the race detector. It watches goroutines; work
// that one goroutine does alone takes it five to twenty times as long and shows it nothing
// new after the first rounds.
const Race = true
