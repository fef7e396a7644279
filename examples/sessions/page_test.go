package sessions_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each row of the page's tables names what shows it, and that is there; each
// example of this directory is on the page.
func TestThePageIsTrue(t *testing.T) {
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	function := regexp.MustCompile(`(?m)^func ((?:Test|Example)\w*)\(`)
	names := map[string]bool{}
	err = filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range function.FindAllStringSubmatch(string(text), -1) {
			names[m[1]] = true
			if here := filepath.Dir(path) == "../../examples/sessions"; here && strings.HasPrefix(m[1], "Example") && !strings.Contains(string(page), "`"+m[1]+"`") {
				t.Errorf("%s is not on the page", m[1])
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 3 || strings.HasPrefix(cells[0], "---") || strings.TrimSpace(cells[2]) == "Shown by" {
			continue
		}
		rows++
		spans := regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[2], -1)
		if len(spans) == 0 {
			t.Errorf("nothing shows the row %q", cells[0])
		}
		for _, s := range spans {
			if !names[s[1]] {
				t.Errorf("the row %q is shown by %s, which does not exist", cells[0], s[1])
			}
		}
	}
	if rows < 30 {
		t.Errorf("the page has %d rows; is it read as it is written?", rows)
	}
}
