package host_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The limits of private words. Comments, error texts and help name their subject and
// use the field's words, so that a reader needs no dictionary of this project.
const (
	maxIdiomsPerThousand = 5  // in all comments and error texts, per 1,000 comment lines
	maxIdiomsOfPackage   = 20 // the same in one package that has more than a few
	fewIdioms            = 4  // a small package may have these
	maxUnnamedTestFiles  = 20 // test files named after neither a source file nor a scenario
)

// idioms matches the turns of phrase that hide the subject of a sentence.
var idioms = regexp.MustCompile(`(?i)\b(` + strings.Join([]string{
	`what (is|are|was|were|has|have|had)`,
	`whoever|nobody|somebody|anybody|everybody`,
	`go(es|ing)? on`,
	`there (is|are|was|were) none`,
	`as (it|they) (is|are|was|were)`,
	`(is|are|was|were) told`,
	`anew`,
}, "|") + `)\b`)

func TestCommentsAndTextsUsePlainWords(t *testing.T) {
	total, totalLines := 0, 0
	for dir, p := range parsePackages(t) {
		n, lines, first := 0, 0, ""
		count := func(text string) {
			hits := idioms.FindAllStringIndex(text, -1)
			n += len(hits)
			if len(hits) > 0 && first == "" {
				first = strings.Join(strings.Fields(text), " ")
			}
		}
		for _, file := range p.files {
			for _, group := range file.Comments {
				for _, c := range group.List {
					lines += 1 + strings.Count(c.Text, "\n")
				}
				count(group.Text())
			}
			ast.Inspect(file, func(node ast.Node) bool {
				if call, ok := node.(*ast.CallExpr); ok && errorCall.MatchString(calledName(call)) {
					for _, text := range textsIn(call.Args) {
						count(text)
					}
				}
				return true
			})
		}
		total, totalLines = total+n, totalLines+lines
		if n > fewIdioms && n*1000 > maxIdiomsOfPackage*lines {
			t.Errorf("%s: %d idioms in %d comment lines; at most %d per 1,000. The first is in: %s",
				dir, n, lines, maxIdiomsOfPackage, first)
		}
	}
	if total*1000 > maxIdiomsPerThousand*totalLines {
		t.Errorf("%d idioms in %d comment lines; at most %d per 1,000", total, totalLines, maxIdiomsPerThousand)
	}
	t.Logf("%d idioms in %d comment lines: %.1f per 1,000", total, totalLines, float64(total)*1000/float64(totalLines))
}

// errorCall matches the functions that make errors, their hints and help.
var errorCall = regexp.MustCompile(`(?i)err|fault|fail|refus|hint|invalid|deny|help`)

func calledName(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		if x, ok := f.X.(*ast.Ident); ok {
			return x.Name + "." + f.Sel.Name
		}
		return f.Sel.Name
	default:
		return ""
	}
}

func textsIn(args []ast.Expr) (texts []string) {
	for _, arg := range args {
		if lit, ok := arg.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if text, err := strconv.Unquote(lit.Value); err == nil {
				texts = append(texts, text)
			}
		}
	}
	return texts
}

// scenario begins the comment at the top of a test file that plays a scenario of
// several source files.
const scenario = "// Scenario: "

func TestTestFilesAreNamedAfterWhatTheyTest(t *testing.T) {
	root := moduleRoot(t)
	var unnamed []string
	files := 0
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
		files++
		named, err := namedAfterSource(file)
		if err == nil && !named {
			rel, _ := filepath.Rel(root, file)
			unnamed = append(unnamed, filepath.ToSlash(rel))
		}
		return err
	})
	if err != nil {
		t.Fatalf("read the tree: %v", err)
	}
	if len(unnamed) > maxUnnamedTestFiles {
		t.Errorf("%d of %d test files, at most %d, are named after no source file and do not begin with %q:\n%s",
			len(unnamed), files, maxUnnamedTestFiles, scenario, strings.Join(unnamed, "\n"))
	}
}

// namedAfterSource reports whether the name of a test file is that of a source file
// beside it or of its directory, perhaps with more words behind it, or of Go's own
// conventions, or whether the file begins by naming its scenario.
func namedAfterSource(file string) (bool, error) {
	dir := filepath.Dir(file)
	name := strings.TrimSuffix(filepath.Base(file), "_test.go")
	words := strings.Split(name, "_")
	if slices.Contains([]string{"bench", "example", "export", "fuzz", "helpers", "main", path.Base(filepath.ToSlash(dir))}, words[0]) {
		return true, nil
	}
	for n := len(words); n > 0; n-- {
		if _, err := os.Stat(filepath.Join(dir, strings.Join(words[:n], "_")+".go")); err == nil {
			return true, nil
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return false, fmt.Errorf("read a test file: %w", err)
	}
	return strings.Contains(string(text[:min(len(text), 2000)]), "\n"+scenario) || strings.HasPrefix(string(text), scenario), nil
}
