package host_test

// Scenario: each promise of SECURITY.md names a test that exists.

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// SECURITY.md says of each promise what keeps it. A promise whose test is gone is
// none.
func TestPromisesAreKeptByTests(t *testing.T) {
	root := moduleRoot(t)
	page, err := os.ReadFile(filepath.Join(root, "SECURITY.md"))
	if err != nil {
		t.Fatal(err)
	}
	there := testNames(t, root)
	named := regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Z]\\w*)`").FindAllStringSubmatch(string(page), -1)
	if len(named) < 50 {
		t.Errorf("SECURITY.md names %d tests; is it still read rightly?", len(named))
	}
	for _, n := range named {
		if n[1] != "TestX" && !there[n[1]] {
			t.Errorf("SECURITY.md names %s, which is in no test file", n[1])
		}
	}
	for i, line := range strings.Split(string(page), "\n") {
		if strings.HasPrefix(line, "| ") && strings.Count(line, "|") == 3 && !strings.HasPrefix(line, "| promise") && !strings.Contains(line, "`") {
			t.Errorf("SECURITY.md:%d: a promise that nothing keeps: %s", i+1, line)
		}
	}
}

// testNames returns the tests, fuzz targets and benchmarks of all packages.
func testNames(t *testing.T, root string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)[A-Z]\w*)\(`)
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return skipped(root, file, d.Name())
		}
		if !strings.HasSuffix(file, "_test.go") {
			return nil
		}
		b, err := os.ReadFile(file)
		for _, m := range declared.FindAllSubmatch(b, -1) {
			names[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
