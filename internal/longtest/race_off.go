//go:build !race

package longtest

// Race reports whether the tests run under the race detector.
const Race = false
