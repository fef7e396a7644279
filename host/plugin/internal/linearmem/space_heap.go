//go:build !linux && !darwin

package linearmem

// Space is memory on the Go heap, on systems without tested support for mapping memory.
type Space struct{ all []byte }

// Reserve reserves nothing: Resize allocates memory on the heap.
func Reserve(int) (Space, error) { return Space{}, nil }

// Resize changes how much memory is in use and returns it. Memory that goes out of use
// becomes zero.
func (s *Space) Resize(from, to int) []byte {
	if to > cap(s.all) {
		b := make([]byte, to, to+to/4)
		copy(b, s.all)
		s.all = b
	}
	if to < from {
		zero(s.all[to:from])
	}
	s.all = s.all[:to]
	return s.all
}

// Free releases all memory.
func (s *Space) Free() { s.all = nil }
