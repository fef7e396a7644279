package pluginkv

import "github.com/agenthost/agenthost/host/plugin"

// Waiting is how many changes stand in an owner's line.
func (s *Store) Waiting(owner plugin.Owner) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.lines[owner]; l != nil {
		return len(l.waiting)
	}
	return 0
}

// Lines is how many owners have one.
func (s *Store) Lines() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.lines)
}

// ErasePage is how many items are erased in one transaction.
const ErasePage = erasePage
