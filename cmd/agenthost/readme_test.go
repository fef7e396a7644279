package main

// Scenario: a reader compares the README and the operators' pages with the program that
// they describe.

import (
	"os"
	"strings"
	"testing"
)

// The README shows the example, not a copy that has drifted from it.
func TestREADMEShowsTheHelloPlugin(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("../../examples/hello/main.go")
	if err != nil {
		t.Fatal(err)
	}
	_, program, found := strings.Cut(string(source), "package main\n")
	if !found {
		t.Fatal("examples/hello/main.go has no package clause")
	}
	if !strings.Contains(string(readme), "```go\npackage main\n"+program+"```\n") {
		t.Error("README.md does not show examples/hello/main.go as it is")
	}
}
