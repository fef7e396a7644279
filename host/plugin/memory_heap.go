//go:build !linux && !darwin

package plugin

// space is memory on the Go heap, where this system is not known well enough.
type space struct{ all []byte }

func reserve(int) (space, error) { return space{}, nil }

// resize changes how much is in use and returns it. What goes out of use becomes
// zero.
func (s *space) resize(from, to int) []byte {
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

func (s *space) free() { s.all = nil }
