//go:build race

package plugin

// raceFactor is by how much the race detector may lengthen what a test bounds: it
// keeps shadows of memory, and Go code that it watches takes several times as long.
const raceFactor = 4
