//go:build !linux && !darwin

package linearmem

// Space is memory on the Go heap, where this system is not known well enough.
type Space struct{ all []byte }

// Reserve reserves nothing: memory comes from the heap as it is used.
func Reserve(int) (Space, error) { return Space{}, nil }

// Resize changes how much is in use and returns it. What goes out of use becomes
// zero.
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

// Free gives all memory back.
func (s *Space) Free() { s.all = nil }
