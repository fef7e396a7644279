package helpcmd

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestEveryVariableIsOnThePage(t *testing.T) {
	page, err := os.ReadFile("../../../../../docs/environment.md")
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
		t.Errorf("docs/environment.md lacks the table and the text behind it\n%s\n%s", table.String(), variablesRest)
	}
	read := regexp.MustCompile(`getenv\("(\w+)"\)|"((?:AGENTHOST|OPENAI|ANTHROPIC|GEMINI|MEM0)_[A-Z0-9_]+)"`)
	found := 0
	err = filepath.WalkDir("../../..", func(file string, d fs.DirEntry, err error) error { // all of the command
		if err != nil || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return err
		}
		text, err := os.ReadFile(file)
		for _, m := range read.FindAllStringSubmatch(string(text), -1) {
			found++
			if name := m[1] + m[2]; !slices.Contains(names, name) {
				t.Errorf("%s reads %s, which the table does not have", file, name)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < len(names)/2 {
		t.Errorf("only %d variables are found in the source", found)
	}
}
