package main

import "testing"

// go test ./... tests a plugin as plain Go; agenthost plugin test tests the module.
func TestMask(t *testing.T) {
	for text, want := range map[string]string{
		"hello":                       "hello",
		"I am ada@example.com.":       "I am <address>.",
		"a@b.cd, e.f+g@h-i.jk and @l": "<address>, <address> and @l",
	} {
		if got := mask(text); got != want {
			t.Errorf("mask(%q) = %q, want %q", text, got, want)
		}
	}
}
