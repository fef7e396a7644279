// Package defaults fills in the fields of options that their caller left out.
package defaults

import "time"

// Set sets *v to d unless it is above 0. It is for numbers whose zero and negative
// values all mean the default; where only 0 does, cmp.Or is enough.
func Set[T int | int64 | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}
