package bench

import (
	"math"
	"math/bits"
)

// histogram counts numbers in buckets, each at most 1/64 of its number wide, so that a
// million calls take as little room as one.
type histogram struct {
	counts        map[int]int
	n             int
	min, max, sum int64
}

// The numbers below exact have a bucket each.
const (
	exactBits = 7
	exact     = 1 << exactBits
)

func (h *histogram) add(v int64) {
	v = max(v, 0)
	if h.counts == nil {
		h.counts, h.min = map[int]int{}, v
	}
	h.counts[bucket(v)]++
	h.n++
	h.min, h.max, h.sum = min(h.min, v), max(h.max, v), h.sum+v
}

func (h *histogram) mean() int64 {
	if h.n == 0 {
		return 0
	}
	return h.sum / int64(h.n)
}

// quantile returns the number that a share q of all numbers do not exceed, to the
// width of a bucket.
func (h *histogram) quantile(q float64) int64 {
	rank := max(int(math.Ceil(q*float64(h.n))), 1)
	if h.n == 0 {
		return 0
	}
	for b := bucket(h.min); ; b++ {
		if rank -= h.counts[b]; rank <= 0 {
			return min(highest(b), h.max)
		}
	}
}

// bucket returns the bucket of a number: itself while it is small, then its
// first seven bits and how many follow.
func bucket(v int64) int {
	if v < exact {
		return int(v)
	}
	shift := bits.Len64(uint64(v)) - exactBits
	return exact/2*shift + int(v>>shift)
}

// highest returns the highest number of a bucket.
func highest(b int) int64 {
	if b < exact {
		return int64(b)
	}
	shift := b/(exact/2) - 1
	first := int64(b-exact/2*shift) << shift
	return first + 1<<shift - 1
}
