package usagereport

import (
	"math/bits"
	"time"
)

// latencyBuckets is how many buckets a histogram of times has: bucket i counts
// calls that took less than 2 to the i microseconds, the last one all from 8.4 s on.
const latencyBuckets = 25

// Latency counts calls by how long they took: element i those of at least
// 2^(i-1) and less than 2^i microseconds, the last one all that took longer.
type Latency [latencyBuckets]int64

func latencyBucket(d time.Duration) int {
	return min(bits.Len64(uint64(max(0, d.Microseconds()))), latencyBuckets-1)
}

// Count returns how many calls there are.
func (l *Latency) Count() (n int64) {
	for _, c := range l {
		n += c
	}
	return n
}

// Quantile returns a time that the share q of the calls stay under, from 0 to 1:
// the upper end of a bucket, thus at most twice too long. 0 without calls.
func (l *Latency) Quantile(q float64) time.Duration {
	rest := q * float64(l.Count())
	for i, c := range l {
		if rest -= float64(c); c > 0 && rest <= 0 {
			return LatencyBound(i)
		}
	}
	return 0
}

// LatencyBound returns the time that calls in element i of a [Latency] stay under;
// those in the last element have no bound.
func LatencyBound(i int) time.Duration { return time.Microsecond << i }
