package ui

import "testing"

func TestTheSecondInterruptLeaves(t *testing.T) {
	left, ended := 0, 0
	i := NewInterrupts(func() { left++ })
	release := i.Catch(func() { ended++ })
	if i.Interrupt() || ended != 1 || left != 0 {
		t.Errorf("the first interrupt ended %d turns and left %d times, want the turn only", ended, left)
	}
	if !i.Interrupt() || ended != 1 || left != 1 {
		t.Errorf("the second interrupt ended %d turns and left %d times, want to leave", ended, left)
	}
	release()
	i.Catch(func() { ended++ })()
	if !i.Interrupt() || ended != 1 || left != 2 {
		t.Error("an interrupt after the turn ended the turn, want to leave")
	}
	var none *Interrupts
	none.Catch(func() {})()
}
