// Package linearmem gives instances of guests their memory, and counts it. In go
// sizes and flows, out comes memory outside the Go heap (where the system allows)
// that never moves, is zero where it is new, and is given back at once.
//
// It promises that all memory together, with what the host claims for instances
// beside it, stays within one [Budget], that no flow can have more of it than is
// free, and that long stretches are read and cleared in pieces ([Range]), between
// which others run. Only this package maps and unmaps memory.
package linearmem
