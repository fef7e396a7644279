// Package linearmem allocates the memory of guest instances, and counts it for flows.
// Where the system allows, the memory lies outside the Go heap, never moves, and
// returns to the system at once when it is freed. New memory is zero.
//
// It promises that all memory together, with the host's claims for instances, stays
// within one [Budget], that no flow can have more of it than is free, and that long
// ranges are read and cleared in pieces ([Range]), between which other goroutines run. An
// [Image] restores a memory in the same way.
// Only this package maps and unmaps memory.
package linearmem
