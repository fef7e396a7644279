//go:build !race

package plugin

// Scenario: the tests run without the race detector, so time and memory bounds are
// unscaled.

// raceFactor is 1 without the race detector.
const raceFactor = 1
