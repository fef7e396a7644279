package examples_test

// Scenario: each row of the examples' pages names a test or example that exists.

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Example)\w*)\(`)
	codeSpan = regexp.MustCompile("`([^`]+)`")
)

// TestThePagesAreTrue: each row of the pages that say where another system's
// documentation is found here names what shows it, and that is there; each example
// of the page's directory is on the page.
func TestThePagesAreTrue(t *testing.T) {
	names := shown(t, "..")
	for dir, atLeast := range map[string]int{"agentkit": 50, "agentframework": 20, "sessions": 30} {
		t.Run(dir, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join(dir, "README.md"))
			if err != nil {
				t.Fatal(err)
			}
			page := string(text)
			if n := checkRows(t, page, names); n < atLeast {
				t.Errorf("the page has %d rows; is it read as it is written?", n)
			}
			for name := range shown(t, dir) {
				if strings.HasPrefix(name, "Example") && !strings.Contains(page, "`"+name+"`") {
					t.Errorf("%s is not on the page", name)
				}
			}
		})
	}
}

// shown returns the names of all tests, examples and transcripts under root.
func shown(t *testing.T, root string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case strings.HasSuffix(path, ".txtar") && strings.Contains(path, filepath.Join("testdata", "transcripts")):
			names[strings.TrimSuffix(d.Name(), ".txtar")] = true
		case strings.HasSuffix(path, "_test.go"):
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, m := range testFunc.FindAllStringSubmatch(string(text), -1) {
				names[m[1]] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// checkRows looks at the last cell of each row of three and returns how many there
// are.
func checkRows(t *testing.T, page string, names map[string]bool) (rows int) {
	t.Helper()
	for line := range strings.Lines(page) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 3 || strings.HasPrefix(cells[0], "---") || strings.TrimSpace(cells[2]) == "Shown by" {
			continue
		}
		rows++
		spans := codeSpan.FindAllStringSubmatch(cells[2], -1)
		if len(spans) == 0 {
			t.Errorf("nothing shows the row %q", cells[0])
		}
		for _, s := range spans {
			if !names[s[1]] {
				t.Errorf("the row %q is shown by %s, which does not exist", cells[0], s[1])
			}
		}
	}
	return rows
}

// TestThePageOfTheServiceShowsItsCode: each piece of Go on the page is in the service, and
// all of its Go is as short as the page says.
func TestThePageOfTheServiceShowsItsCode(t *testing.T) {
	names, err := filepath.Glob("saas/*.go")
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		code.Write(text)
	}
	if n := strings.Count(code.String(), "\n"); n > 300 || len(names) != 2 {
		t.Errorf("the service has %d lines in %v", n, names)
	}
	pieces := goBlocks(t, "../docs/saas.md")
	if len(pieces) < 5 {
		t.Errorf("there are %d pieces of code; is the page read as it is written?", len(pieces))
	}
	for _, piece := range pieces {
		if !strings.Contains(code.String(), piece.text) {
			t.Errorf("the service does not have this code of its page:\n%s", piece.text)
		}
	}
}
