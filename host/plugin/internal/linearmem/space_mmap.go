//go:build linux || darwin

package linearmem

import "syscall"

// Space is reserved address space whose front is in use. The memory behind it faults,
// and is zero when it comes into use.
type Space struct {
	all  []byte
	open int // bytes that can be accessed
}

// Reserve reserves address space without memory behind it.
func Reserve(n int) (Space, error) {
	if n == 0 {
		return Space{all: []byte{}}, nil
	}
	b, err := syscall.Mmap(-1, 0, n, syscall.PROT_NONE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	return Space{all: b}, err
}

// Resize changes how much memory is in use and returns it, nil if the system refuses.
// Memory that goes out of use becomes zero.
func (s *Space) Resize(from, to int) []byte {
	if to > len(s.all) {
		return nil
	}
	if to > s.open {
		if syscall.Mprotect(s.all[s.open:to], syscall.PROT_READ|syscall.PROT_WRITE) != nil {
			return nil
		}
		s.open = to
	}
	if to < from {
		zero(s.all[to:from])
	}
	return s.all[:to]
}

// Free returns all memory to the system.
func (s *Space) Free() {
	if len(s.all) > 0 {
		_ = syscall.Munmap(s.all) // it was mapped by Reserve
	}
	s.all, s.open = nil, 0
}
