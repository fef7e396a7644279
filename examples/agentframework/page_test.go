package agentframework

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each row of the page names a test or an example that exists, and each example
// of this directory is on the page.
func TestThePageIsTrue(t *testing.T) {
	raw, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	page, names, here := string(raw), map[string]bool{}, map[string]bool{}
	function := regexp.MustCompile(`(?m)^func ((?:Test|Example)\w*)\(`)
	err = filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range function.FindAllStringSubmatch(string(text), -1) {
			names[m[1]] = true
			if !strings.Contains(path, string(filepath.Separator)+"agentframework"+string(filepath.Separator)) {
				continue
			}
			here[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(page) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 3 || strings.HasPrefix(cells[0], "---") || strings.TrimSpace(cells[2]) == "Shown by" {
			continue
		}
		rows++
		spans := regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(cells[2], -1)
		if len(spans) == 0 {
			t.Errorf("nothing shows the row %q", cells[0])
		}
		for _, s := range spans {
			if !names[s[1]] {
				t.Errorf("the row %q is shown by %s, which does not exist", cells[0], s[1])
			}
		}
	}
	if rows < 20 {
		t.Errorf("the page has %d rows; is it read as it is written?", rows)
	}
	for name := range here {
		if strings.HasPrefix(name, "Example") && !strings.Contains(page, "`"+name+"`") {
			t.Errorf("%s is not on the page", name)
		}
	}
}
