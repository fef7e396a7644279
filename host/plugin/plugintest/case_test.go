package plugintest

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/internal/testcode"
	"github.com/agenthost/agenthost/plugins/toolcallfilter"
)

// everything is what the guest with one of everything may do.
var everything = plugin.Permissions{State: plugin.Write, Messages: true}

// writeCase writes a case into a directory.
func writeCase(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// checkCases returns the problems of each case.
func checkCases(t *testing.T, wasm []byte, dir string, update bool) map[string][]string {
	t.Helper()
	g, first := load(t.Context(), wasm, &Options{Runtime: cached(), Granted: everything, Cases: dir, Update: update})
	if g == nil {
		return map[string][]string{"": first.Problems}
	}
	defer g.sandbox.close()
	found := map[string][]string{}
	for _, r := range g.caseRules() {
		found[strings.TrimPrefix(r.name, "case ")] = r.result(g).Problems
	}
	return found
}

func TestCasesAreRecordedAndReplayed(t *testing.T) {
	wasm := testcode.Build(t, "../../../pdk/go/pdk/testdata/everything")
	dir := t.TempDir()
	writeCase(t, dir, "echo.txtar", "Says it again.\n-- tool.json --\n"+`{"tool":"echo","arguments":{"n":1.0},`+scope+`}`+"\n")
	writeCase(t, dir, "remember.txtar", "Asks its host twice.\n-- tool.json --\n"+`{"tool":"remember","arguments":{"value":7},`+scope+`}`+"\n")
	writeCase(t, dir, "fail.txtar", "Fails.\n-- tool.json --\n"+`{"tool":"fail","arguments":{"code":"not_found","message":"gone"},`+scope+`}`+"\n")
	if err := os.Mkdir(filepath.Join(dir, "inadirectory"), 0o755); err != nil {
		t.Fatal(err)
	}
	writeCase(t, dir, "inadirectory/tool.json", `{"tool":"remember","arguments":{"value":8},`+scope+`}`)

	for name, problems := range checkCases(t, wasm, dir, false) {
		if len(problems) == 0 || !strings.Contains(strings.Join(problems, ""), "neither") && name == "echo" {
			t.Errorf("case %s, which wants nothing yet: %q", name, problems)
		}
	}
	for name, problems := range checkCases(t, wasm, dir, true) {
		if len(problems) > 0 {
			t.Errorf("case %s is not recorded: %q", name, problems)
		}
	}
	got := checkCases(t, wasm, dir, false)
	if len(got) != 4 {
		t.Errorf("%d cases, want 4", len(got))
	}
	for name, problems := range got {
		if len(problems) > 0 {
			t.Errorf("case %s, recorded, is not replayed: %q", name, problems)
		}
	}
	recorded, err := os.ReadFile(filepath.Join(dir, "remember.txtar"))
	if err != nil || !strings.Contains(string(recorded), "state.patch") || !strings.HasPrefix(string(recorded), "Asks its host twice.") {
		t.Errorf("the recording is\n%s\n%v", recorded, err)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "inadirectory", "*"))
	if len(files) != 3 {
		t.Errorf("the case in a directory has the files %q, want its input, output and operations", files)
	}

	for _, c := range []struct{ name, old, new, says string }{
		{"echo", `1.0`, `1`, "/content/n: 1.0, want 1"},
		{"remember", `"op": "state.patch"`, `"op": "state.get"`, "operation 1 is state.patch"},
		{"remember", `"value": 7`, `"value": 6`, "request of operation 1, state.patch, differs"},
		{"remember", "-- operations.json --\n", "-- operations.json --\n[]\n-- output.json --\nnull\n-- tool.json --\n", "is not a case"},
		{"fail", `"gone"`, `"here"`, "/message"},
	} {
		t.Run(c.name+" "+c.says, func(t *testing.T) {
			tampered := t.TempDir()
			b, err := os.ReadFile(filepath.Join(dir, c.name+".txtar"))
			if err != nil {
				t.Fatal(err)
			}
			head, rest, _ := strings.Cut(string(b), "}}\n") // the input stays
			text := head + "}}\n" + strings.ReplaceAll(rest, c.old, c.new)
			writeCase(t, tampered, c.name+".txtar", text)
			problems := strings.Join(checkCases(t, wasm, tampered, false)[c.name], "\n")
			if c.says == "is not a case" {
				problems = strings.Join(checkCases(t, wasm, tampered, false)[""], "\n")
				c.says = "has an input already"
			}
			if !strings.Contains(problems, c.says) {
				t.Errorf("problems %q, want %q", problems, c.says)
			}
		})
	}
}

func TestRequestsThatACaseDoesNotKnow(t *testing.T) {
	wasm := testcode.Build(t, "../../../pdk/go/pdk/testdata/everything")
	dir := t.TempDir()
	input := "-- tool.json --\n" + `{"tool":"remember","arguments":{"value":7},` + scope + `}` + "\n"
	writeCase(t, dir, "none.txtar", input+"-- operations.json --\n[]\n-- error.json --\n{\"code\":\"failed_precondition\"}\n")
	writeCase(t, dir, "more.txtar", "-- tool.json --\n"+`{"tool":"echo","arguments":{},`+scope+`}`+"\n"+
		"-- operations.json --\n[{\"op\":\"state.get\",\"request\":{},\"response\":{}}]\n-- output.json --\n{\"content\":{}}\n")
	got := checkCases(t, wasm, dir, false)
	if p := strings.Join(got["none"], "\n"); !strings.Contains(p, "operation 1 is state.patch") || !strings.Contains(p, "the case has 0") {
		t.Errorf("a request that is not in the case: %q", p)
	}
	if p := strings.Join(got["more"], "\n"); !strings.Contains(p, "1 of 1 operations are not asked for, the first of them state.get") {
		t.Errorf("a request that is not made: %q", p)
	}
}

func TestCasesWantAnswersOfTheContract(t *testing.T) {
	wasm := testcode.Build(t, "../testdata/guests/broken")
	dir := t.TempDir()
	writeCase(t, dir, "bends.txtar", "-- tool.json --\n"+`{"tool":"bends","arguments":{},`+scope+`}`+"\n-- output.json --\n"+`{"content":"not an object"}`+"\n")
	if p := strings.Join(checkCases(t, wasm, dir, false)["bends"], "\n"); !strings.Contains(p, "does not fit its schema") {
		t.Errorf("an answer that is what the case wants, and not what the manifest says: %q", p)
	}
}

// What is recorded is how a case ends, and not that nobody waited for it.
func TestAnInterruptedUpdateLeavesTheCase(t *testing.T) {
	dir := t.TempDir()
	const text = "-- process.json --\n{}\n-- output.json --\n{}\n"
	writeCase(t, dir, "a.txtar", text)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	g, first := load(ctx, toolcallfilter.Wasm, &Options{Runtime: cached(), Cases: dir, Update: true})
	if g == nil {
		t.Fatal(first.Problems)
	}
	defer g.sandbox.close()
	cancel()
	if p := g.caseRules()[0].result(g).Problems; len(p) != 1 || !strings.Contains(p[0], "canceled") {
		t.Errorf("problems %q, want that it was canceled", p)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "a.txtar")); err != nil || string(b) != text {
		t.Errorf("the case is now %q, %v", b, err)
	}
}

// A request that is no JSON is recorded as a string.
func TestRequestsThatAreNoJSONAreReplayed(t *testing.T) {
	for request, recorded := range map[string]string{"": `""`, "{": `"{"`, "{}": "{}"} {
		r := newReplay(&goldenCase{ops: []operation{{Op: "kv.get", Request: json.RawMessage(recorded), Response: json.RawMessage("{}")}}})
		if _, err := r.answer(t.Context(), "kv.get", []byte(request), nil); err != nil || r.problems != nil {
			t.Errorf("the request %q, recorded as %s: %v, %q", request, recorded, err, r.problems)
		}
	}
}

func TestWhatIsNoCaseIsToldBefore(t *testing.T) {
	for _, c := range []struct{ name, text, says string }{
		{"a.txtar", "no section", "has no input"},
		{"a.txtar", "-- tool.json --\n{}\n-- notes.txt --\n", "no such section"},
		{"a.txtar", "-- tool.json --\n{}\n-- output.json --\n1\n-- error.json --\n{\"code\":\"internal\"}\n", "both output.json and error.json"},
		{"a.txtar", "-- tool.json --\n{}\n-- operations.json --\n{}\n", "operations.json"},
		{"a.txtar", "-- tool.json --\n{}\n-- operations.json --\n[{\"op\":\"kv.get\",\"request\":{},\"respnse\":{}}]\n", "respnse"},
		{"a.txtar", "-- tool.json --\n{}\n-- operations.json --\n[{\"op\":\"kv.get\",\"request\":{}}]\n", "operation 1 needs"},
		{"a.txtar", "-- tool.json --\n{}\n-- error.json --\n{}\n", "has a code"},
		{"a.txtar", "-- tool.json --\n{}\n-- error.json --\n{\"code\":\"gone\"}\n", "has a code"},
		{"readme.md", "", "there is no case in"},
	} {
		dir := t.TempDir()
		writeCase(t, dir, c.name, c.text)
		if _, err := readCases(dir); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("cases of %q: %v, want %q", c.text, err, c.says)
		}
	}
	if _, err := readCases(filepath.Join(t.TempDir(), "nowhere")); err == nil || !strings.Contains(err.Error(), "there is no directory") {
		t.Errorf("cases of no directory: %v", err)
	}
}
