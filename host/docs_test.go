package host_test

// Scenario: the pages for readers keep to their length, their links lead to files, and
// the map of the code names what exists.

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// maxREADMELines keeps the first page a first page: details belong to docs/.
const maxREADMELines = 150

// docPages returns the pages of the module for readers, by their path.
func docPages(t *testing.T) map[string]string {
	t.Helper()
	root := moduleRoot(t)
	pages := map[string]string{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if d.Name() == "node_modules" {
				return fs.SkipDir
			}
			return skipped(root, file, d.Name())
		}
		if !strings.HasSuffix(file, ".md") {
			return nil
		}
		text, err := os.ReadFile(file)
		pages[file] = string(text)
		return err
	})
	if err != nil {
		t.Fatalf("read the pages: %v", err)
	}
	if pages[filepath.Join(root, "README.md")] == "" {
		t.Fatal("found no README.md")
	}
	return pages
}

func TestREADMEIsShort(t *testing.T) {
	text := docPages(t)[filepath.Join(moduleRoot(t), "README.md")]
	if n := strings.Count(text, "\n"); n > maxREADMELines {
		t.Errorf("README.md has %d lines; at most %d", n, maxREADMELines)
	}
}

func TestLinksBetweenPagesLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:\s]+)(#[^)\s]*)?\)`)
	found := 0
	for file, text := range docPages(t) {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			found++
			if _, err := os.Stat(filepath.Join(filepath.Dir(file), filepath.FromSlash(m[1]))); err != nil {
				t.Errorf("%s links to %s, which does not exist", file, m[1])
			}
		}
	}
	if found < 50 {
		t.Errorf("found only %d links; does the pattern still match?", found)
	}
}

// TestTheMapOfTheCodeIsTrue holds the paths that CONTRIBUTING.md names to the tree.
func TestTheMapOfTheCodeIsTrue(t *testing.T) {
	root := moduleRoot(t)
	_, table, found := strings.Cut(docPages(t)[filepath.Join(root, "CONTRIBUTING.md")], "## To change X, open Y")
	if !found {
		t.Fatal("CONTRIBUTING.md has no map of the code")
	}
	table, _, _ = strings.Cut(table, "\n## ")
	named := regexp.MustCompile("`([\\w./-]+/[\\w./-]*)`").FindAllStringSubmatch(table, -1)
	if len(named) < 20 {
		t.Errorf("the map names %d paths; at least 20 are wanted", len(named))
	}
	for _, m := range named {
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(m[1]))); err != nil {
			t.Errorf("the map names %s, which does not exist", m[1])
		}
	}
}
