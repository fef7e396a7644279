package main

import "testing"

// go test tests a plugin as plain Go; agenthost plugin test tests the module.
func TestAdvice(t *testing.T) {
	if question, rest := advice("Where is it? "), advice("Bring it."); question == rest {
		t.Errorf("a question and a request are answered alike: %q", rest)
	}
}
