package mcpserver

// Endpoints returns how many sets of rights have lists in memory.
func (s *Server) Endpoints() int { return len(s.list()) }
