package memory

import "slices"

// vectorTable is the vectors of a scope, one behind the other, to be compared with one.
type vectorTable struct {
	dimensions int
	ids        []string
	scales     []float32
	values     []int8
	index      map[string]int
}

func newVectorTable(dimensions int) *vectorTable {
	return &vectorTable{dimensions: dimensions, index: map[string]int{}}
}

// vectorBytes is about the cost of a vector in a table besides its numbers.
const vectorBytes = 128

func (t *vectorTable) bytes() int64 { return vectorTableBytes(len(t.ids), t.dimensions) }

func vectorTableBytes(n, dimensions int) int64 { return int64(n) * int64(dimensions+vectorBytes) }

// put adds or replaces a vector; one of other dimensions is left out.
func (t *vectorTable) put(id string, v vector) {
	if len(v.values) != t.dimensions {
		t.drop(id)
		return
	}
	i, ok := t.index[id]
	if !ok {
		t.index[id] = len(t.ids)
		t.ids, t.scales, t.values = append(t.ids, id), append(t.scales, v.scale), append(t.values, v.values...)
		return
	}
	t.scales[i] = v.scale
	copy(t.values[i*t.dimensions:], v.values)
}

// drop removes a vector; the last takes its place.
func (t *vectorTable) drop(id string) {
	i, ok := t.index[id]
	if !ok {
		return
	}
	last, d := len(t.ids)-1, t.dimensions
	copy(t.values[i*d:(i+1)*d], t.values[last*d:])
	t.ids[i], t.scales[i] = t.ids[last], t.scales[last]
	t.index[t.ids[i]] = i
	delete(t.index, id)
	t.ids, t.scales, t.values = t.ids[:last], t.scales[:last], t.values[:last*d]
}

// nearest returns the n vectors that are nearest to q, the nearest first and equal ones by
// their ids, of those whose cosine is at least least.
func (t *vectorTable) nearest(q vector, n int, least float32) []candidate {
	if len(q.values) != t.dimensions || n < 1 {
		return nil
	}
	type hit struct {
		at     int
		cosine float32
	}
	worse := func(a, b hit) bool {
		return a.cosine < b.cosine || a.cosine == b.cosine && t.ids[a.at] > t.ids[b.at]
	}
	best := make([]hit, 0, n) // a heap with the worst on top
	d := t.dimensions
	for i := range t.ids {
		h := hit{i, float32(product(q.values, t.values[i*d:(i+1)*d])) * q.scale * t.scales[i]}
		if h.cosine < least || len(best) == n && worse(h, best[0]) {
			continue
		}
		if len(best) < n {
			best = append(best, h)
			siftUp(best, worse)
		} else {
			best[0] = h
			siftDown(best, worse)
		}
	}
	slices.SortFunc(best, func(a, b hit) int {
		if worse(b, a) {
			return -1
		}
		return 1
	})
	out := make([]candidate, len(best))
	for i, h := range best {
		out[i] = candidate{t.ids[h.at], float64(h.cosine)}
	}
	return out
}

// siftUp moves the last element of a heap to its place.
func siftUp[T any](heap []T, before func(a, b T) bool) {
	for i := len(heap) - 1; i > 0; {
		parent := (i - 1) / 2
		if !before(heap[i], heap[parent]) {
			return
		}
		heap[i], heap[parent] = heap[parent], heap[i]
		i = parent
	}
}

// siftDown moves the first element of a heap to its place.
func siftDown[T any](heap []T, before func(a, b T) bool) {
	for i := 0; ; {
		first := i
		for _, child := range []int{2*i + 1, 2*i + 2} {
			if child < len(heap) && before(heap[child], heap[first]) {
				first = child
			}
		}
		if first == i {
			return
		}
		heap[i], heap[first] = heap[first], heap[i]
		i = first
	}
}
