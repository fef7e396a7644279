// Package defaults fills in the fields of options that their caller left out.
package defaults

import "time"

// Set sets *v to d unless it is above 0. It is for numbers of which neither 0 nor a
// negative one means anything else than the default; where 0 alone does, cmp.Or is
// enough.
func Set[T int | int64 | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}
