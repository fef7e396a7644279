package main

import "testing"

// go test tests a plugin as plain Go; agenthost plugin test tests the module.
func TestTidy(t *testing.T) {
	for text, want := range map[string]string{"": "", "one two": "one two", " one \n  two ": "one two"} {
		if got := tidy(text); got != want {
			t.Errorf("tidy(%q) = %q, want %q", text, got, want)
		}
	}
}
