package ui

import "sync"

// Interrupts decides what ctrl-C ends: a piece of work that asks for it, or the whole
// command. A nil Interrupts ends nothing. It is safe for concurrent use.
type Interrupts struct {
	leave func()

	mu     sync.Mutex
	caught func() // nil: the next interrupt ends the command
}

// NewInterrupts returns interrupts that end the command with leave.
func NewInterrupts(leave func()) *Interrupts { return &Interrupts{leave: leave} }

// Catch has the next interrupt call end, which must not wait, in place of ending the
// command; the one after it ends the command. release takes that back.
func (i *Interrupts) Catch(end func()) (release func()) {
	if i == nil {
		return func() {}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.caught = end
	return func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.caught = nil
	}
}

// Interrupt is called for each ctrl-C, and reports whether it ended the command.
func (i *Interrupts) Interrupt() bool {
	i.mu.Lock()
	end := i.caught
	i.caught = nil
	i.mu.Unlock()
	if end != nil {
		end()
		return false
	}
	i.leave()
	return true
}
