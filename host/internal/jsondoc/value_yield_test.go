package jsondoc

import (
	"strings"
	"testing"
)

// Reading a large value gives way to others as validating it does.
func TestLargeValuesAreReadInPieces(t *testing.T) {
	const values = 100_000
	pieces := 0
	d := decoder{rest: []byte("[" + strings.Repeat("1,", values-1) + "1" + "]"), yield: func() { pieces++ }}
	d.value()
	if d.values != values+1 || pieces != d.values/valuesPerYield {
		t.Errorf("%d values were read in %d pieces, want %d", d.values, pieces, d.values/valuesPerYield)
	}
}
