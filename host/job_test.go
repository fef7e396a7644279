package host_test

import (
	"math"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
)

func TestRetryWait(t *testing.T) {
	const second = time.Second
	for _, row := range []struct {
		first, last time.Duration
		failures    int
		want        time.Duration // at least, and a quarter more at most
	}{
		{second, 10 * second, 1, second},
		{second, 10 * second, 2, 2 * second},
		{second, 10 * second, 4, 8 * second},
		{second, 10 * second, 5, 10 * second},
		{second, 10 * second, math.MaxInt, 10 * second},
		{second, math.MaxInt64 / 2, 1000, math.MaxInt64 / 2}, // doubling does not overflow
		{10 * second, second, 1, second},
		{0, 0, 3, 0},
	} {
		for range 20 {
			got := host.RetryWait(row.first, row.last, row.failures)
			if got < row.want || got > row.want+row.want/4 {
				t.Errorf("RetryWait(%v, %v, %d) = %v, want %v and at most a quarter more", row.first, row.last, row.failures, got, row.want)
			}
		}
	}
}
