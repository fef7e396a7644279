package main

import (
	"fmt"
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

func TestREADMEHasTheTableOfExitCodes(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	table.WriteString("| code | |\n|---|---|\n")
	for _, m := range exitMeanings() {
		fmt.Fprintf(&table, "| %d | %s |\n", m.code, m.means)
	}
	if !strings.Contains(string(readme), table.String()) {
		t.Errorf("README.md lacks the table\n%s", table.String())
	}
}
