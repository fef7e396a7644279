package extism

import (
	"slices"

	"github.com/agenthost/agenthost/host"
)

// variables are as old as the instance's memory, and forgotten with it.
type variables map[string][]byte

// varWeight is what the limit counts for each variable beside its key and value.
const varWeight = 64

// variable returns the block of a variable's value, 0 for an unknown key. The key's block
// is freed.
func (s *State) variable(key uint64) uint64 {
	value, ok := s.vars[string(s.memory.read(key))]
	s.free(key)
	if !ok {
		return 0
	}
	return s.memory.put(value)
}

// setVariable sets a variable; without a value it removes the variable. Both blocks are
// freed.
func (s *State) setVariable(key, at uint64) {
	name, m := string(s.memory.read(key)), &s.memory
	s.own = true
	s.free(key)
	size := m.blocks.vars
	if old, ok := s.vars[name]; ok {
		size -= len(name) + len(old) + varWeight
		delete(s.vars, name)
	}
	if at == 0 {
		m.blocks.keepVars(size)
		return
	}
	value := slices.Clone(m.read(at))
	s.free(at)
	size += len(name) + len(value) + varWeight
	if limit := s.call.limits.VarBytes; size > limit {
		m.meter.Stop(host.Errorf(host.ResourceExhausted, "%s keeps more in variables than the limit VarBytes of %d", m.meter.Subject(), limit).
			WithHint("raise the limit, or keep less"))
	}
	if !m.blocks.keepVars(size) {
		m.stopExhausted()
	}
	if s.vars == nil {
		s.vars = variables{}
	}
	s.vars[name] = value
}
