package main

// Scenario: a reader compares the README and the operators' pages with the program that
// they describe.

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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

// otherPrograms are flags on the pages that are not of agenthost.
func otherPrograms() []string {
	return []string{"--data-binary", "--unix-socket", "--now", "--chown", "--from", "--start-period", "--transport", "--header", "--bundle", "--with-default-services"}
}

var (
	shownCommand = regexp.MustCompile(`\bagenthost ((?:[a-z][a-z-]*)(?:[^\S\n]+[^\n|;` + "`" + `#]*)?)`)
	shownFlag    = regexp.MustCompile(`--[a-z][a-z-]+`)
)

// Each command line on the pages is one that the program takes, as far as the names of
// commands and flags say.
func TestPagesNameCommandsAndFlagsThatExist(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(pages) < 8 {
		t.Fatalf("found %d pages, %v", len(pages), err)
	}
	root := newRoot(&environment{stdin: strings.NewReader(""), getenv: func(string) string { return "" }})
	known := append(otherPrograms(), "--help", "--version")
	var collect func(*cobra.Command)
	collect = func(c *cobra.Command) {
		add := func(f *pflag.Flag) { known = append(known, "--"+f.Name) }
		c.Flags().VisitAll(add)
		c.PersistentFlags().VisitAll(add)
		for _, child := range c.Commands() {
			collect(child)
		}
	}
	collect(root)
	found := 0
	for _, page := range append(pages, "../../README.md", "../../SECURITY.md", "../../BENCHMARKS.md") {
		raw, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(raw), "\\\n", " ")
		for _, flag := range shownFlag.FindAllString(text, -1) {
			if !slices.Contains(known, flag) {
				t.Errorf("%s names %s, which no command has", page, flag)
			}
		}
		for _, m := range shownCommand.FindAllStringSubmatch(text, -1) {
			words := strings.Fields(m[1])
			c, rest, err := root.Find(words)
			if err != nil || c == root {
				continue // a word of a sentence, such as "agenthost runs"
			}
			found++
			if c.HasSubCommands() && !strings.Contains(c.Use, " ") && len(rest) > 0 && regexp.MustCompile(`^[a-z][a-z-]*$`).MatchString(rest[0]) && strings.Contains(string(raw), "`agenthost "+c.Name()+" "+rest[0]) {
				t.Errorf("%s has the command %q, and %q has no %s", page, m[0], c.CommandPath(), rest[0])
			}
			for _, flag := range shownFlag.FindAllString(m[1], -1) {
				if flag != "--help" && c.Flag(strings.TrimPrefix(flag, "--")) == nil && !slices.Contains(otherPrograms(), flag) {
					t.Errorf("%s has the command %q, and %q has no %s", page, m[0], c.CommandPath(), flag)
				}
			}
		}
	}
	if found < 50 {
		t.Errorf("found %d commands on the pages, want most of them", found)
	}
}
