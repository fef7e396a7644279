package host_test

// Scenario: no code of the module branches on the text of an error.

import (
	"go/ast"
	"go/token"
	"slices"
	"testing"
)

// textOfErrors are the functions that may look into the text of an error, by directory:
// a library gives nothing else, or the text itself is their subject.
var textOfErrors = map[string]string{
	"host/egress headersTooLarge":        "net/http has no type for headers over its limit",
	"host/kv/badgerkv openError":         "Badger formats the causes of its errors into text",
	"host/kv/badgerkv readError":         "Badger formats the causes of its errors into text",
	"host/fault Masked":                  "the texts for a client and for the log are compared",
	"host/fault AsError":                 "an error that wraps another with more words is kept whole",
	"host/fault isOwnText":               "a cause whose text is repeated is no cause of its own",
	"host logWithheld":                   "the log repeats no text",
	"examples/chat fail":                 "an example logs an error whose text the client does not read",
	"host/plugin/extismsdk isPluginsOwn": "the SDK has one type for errors of the plugin and for its failures",
}

// comparing are the functions of package strings that compare parts of a text.
var comparing = []string{"Contains", "ContainsAny", "HasPrefix", "HasSuffix", "Index", "EqualFold"}

func TestNoCodeBranchesOnTheTextOfAnError(t *testing.T) {
	found := map[string]bool{}
	for dir, p := range parsePackages(t) {
		for _, file := range p.files {
			for _, decl := range file.Decls {
				f, ok := decl.(*ast.FuncDecl)
				if !ok || f.Body == nil || !comparesErrorText(f.Body) {
					continue
				}
				at := dir + " " + f.Name.Name
				found[at] = true
				if textOfErrors[at] == "" {
					t.Errorf("%s compares the text of an error; branch on its code or type, or give a library's text a function of its own with a reason in host/errortexts_test.go", at)
				}
			}
		}
	}
	for at := range textOfErrors {
		if !found[at] {
			t.Errorf("%s compares no text of an error; remove its line", at)
		}
	}
}

// comparesErrorText reports whether a function compares the result of a method Error, or
// a variable that was made of one.
func comparesErrorText(body *ast.BlockStmt) bool {
	texts := map[string]bool{}
	ast.Inspect(body, func(n ast.Node) bool {
		if a, ok := n.(*ast.AssignStmt); ok && len(a.Lhs) == len(a.Rhs) {
			for i, to := range a.Lhs {
				if v, ok := to.(*ast.Ident); ok && isErrorText(a.Rhs[i]) {
					texts[v.Name] = true
				}
			}
		}
		return true
	})
	isText := func(e ast.Expr) bool {
		v, ok := e.(*ast.Ident)
		return isErrorText(e) || ok && texts[v.Name]
	}
	found := false
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			found = found || (n.Op == token.EQL || n.Op == token.NEQ) && (isText(n.X) && !isEmptyText(n.Y) || isText(n.Y) && !isEmptyText(n.X))
		case *ast.SwitchStmt:
			found = found || n.Tag != nil && isText(n.Tag)
		case *ast.CallExpr:
			found = found || slices.ContainsFunc(n.Args, isText) && isComparing(n.Fun)
		}
		return true
	})
	return found
}

func isComparing(fun ast.Expr) bool {
	switch f := fun.(type) {
	case *ast.Ident:
		return f.Name == "containsAny"
	case *ast.SelectorExpr:
		pkg, ok := f.X.(*ast.Ident)
		return ok && pkg.Name == "strings" && slices.Contains(comparing, f.Sel.Name)
	default:
		return false
	}
}

func isErrorText(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok || len(call.Args) > 0 {
		return false
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	return ok && sel.Sel.Name == "Error"
}

func isEmptyText(e ast.Expr) bool {
	lit, ok := e.(*ast.BasicLit)
	return ok && lit.Value == `""`
}
