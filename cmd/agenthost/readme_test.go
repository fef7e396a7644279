package main

// Scenario: a reader compares the README and the operators' pages with the program that
// they describe.

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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

func TestOperatorsPageHasTheTableOfExitCodes(t *testing.T) {
	page, err := os.ReadFile("../../docs/operate.md")
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	table.WriteString("| code | |\n|---|---|\n")
	for _, m := range exitMeanings() {
		fmt.Fprintf(&table, "| %d | %s |\n", m.code, m.means)
	}
	if !strings.Contains(string(page), table.String()) {
		t.Errorf("docs/operate.md lacks the table\n%s", table.String())
	}
}

func TestEveryVariableIsOnThePage(t *testing.T) {
	page, err := os.ReadFile("ENVIRONMENT.md")
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	table.WriteString("| variable | |\n|---|---|\n")
	var names []string
	for _, v := range variableMeanings() {
		fmt.Fprintf(&table, "| `%s` | %s |\n", v.name, v.means)
		names = append(names, v.name)
	}
	if !strings.Contains(string(page), table.String()) || !strings.Contains(string(page), variablesRest) {
		t.Errorf("ENVIRONMENT.md lacks the table and the text behind it\n%s\n%s", table.String(), variablesRest)
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	read := regexp.MustCompile(`getenv\("(\w+)"\)|"((?:AGENTHOST|OPENAI|ANTHROPIC|GEMINI|MEM0)_[A-Z0-9_]+)"`)
	found := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, m := range read.FindAllStringSubmatch(string(text), -1) {
			found++
			if name := m[1] + m[2]; !slices.Contains(names, name) {
				t.Errorf("%s reads %s, which the table does not have", file, name)
			}
		}
	}
	if found < len(names)/2 {
		t.Errorf("only %d variables are found in the source", found)
	}
}
