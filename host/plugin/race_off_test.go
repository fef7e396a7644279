//go:build !race

package plugin

// raceFactor is 1 without the race detector.
const raceFactor = 1
