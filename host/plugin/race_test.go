//go:build race

package plugin

// Scenario: the tests run under the race detector, which scales their time and memory
// bounds.

// raceFactor is by how much the race detector may lengthen what a test bounds: it
// keeps shadows of memory, and Go code that it watches takes several times as long.
const raceFactor = 4
