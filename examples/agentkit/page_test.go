package agentkit

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

var (
	testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Example)\w*)\(`)
	codeSpan = regexp.MustCompile("`([^`]+)`")
)

// shown returns the names of all tests, examples and transcripts of the
// repository.
func shown(t *testing.T) map[string]bool {
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

// Each row of the page's tables names what shows it, and that is there; each
// example of this directory is on the page.
func TestThePageIsTrue(t *testing.T) {
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	names := shown(t)
	rows := 0
	for line := range strings.Lines(string(page)) {
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
	if rows < 50 {
		t.Errorf("the page has %d rows; is it read as it is written?", rows)
	}
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range testFunc.FindAllStringSubmatch(string(text), -1) {
			if strings.HasPrefix(m[1], "Example") && !strings.Contains(string(page), "`"+m[1]+"`") {
				t.Errorf("%s is not on the page", m[1])
			}
		}
	}
}
