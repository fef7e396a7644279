package plugintest

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
)

const answersOfTools = `{
	"look": [{"arguments": {"order": 1}, "content": {"n": 9007199254740993}}, {"arguments": {"order": 2.0}, "error": {"code": "unavailable", "message": "The shop is \"closed\"."}}],
	"plan": {"content": null, "media": [{"type": "media", "media_type": "image/png", "data": "aGk="}]}}`

func TestToolsAnswerWhatTheCallsAskFor(t *testing.T) {
	tools, err := ReadTools([]byte(answersOfTools))
	if err != nil {
		t.Fatal(err)
	}
	outside := host.Errorf(host.FailedPrecondition, "outside of a run")
	next := func(err error) func(context.Context, string, []byte) ([]byte, error) {
		return func(context.Context, string, []byte) ([]byte, error) { return []byte("next"), err }
	}
	request := `{"calls":[{"name":"look","arguments":{"order":2.0}},{"name":"look","arguments":{"order":1}},{"name":"plan"},{"name":"pay","arguments":{"sum":3}}]}`
	got, err := tools.Operate(t.Context(), "tool.call", []byte(request), next(outside))
	want := `{"results":[{"kind":"error","content":"The shop is \"closed\".","is_error":true,"code":"unavailable"},
		{"kind":"result","content":{"n":9007199254740993}},
		{"kind":"result","content":null,"media":[{"type":"media","media_type":"image/png","data":"aGk="}]},
		{"kind":"error","content":"There is no answer of the tool \"pay\" to {\"sum\":3}.","is_error":true,"code":"not_found"}]}`
	if diff := diffJSON(json.RawMessage(want), got); err != nil || diff != nil {
		t.Errorf("the calls are answered with %s, %v: %q", got, err, diff)
	}
	denied := host.Errorf(host.PermissionDenied, "look is not granted")
	if _, err := tools.Operate(t.Context(), "tool.call", []byte(request), next(denied)); host.CodeOf(err) != host.PermissionDenied {
		t.Errorf("a tool that is not granted: %v", err)
	}
	if got, err := tools.Operate(t.Context(), "kv.get", []byte(`{}`), next(nil)); string(got) != "next" || err != nil {
		t.Errorf("another operation: %s, %v", got, err)
	}
}

func TestACaseTellsWhichToolsWereNotCalledAsItSays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.txtar")
	if err := os.WriteFile(path, []byte("-- tool.json --\n{}\n-- tools.json --\n"+answersOfTools+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	archive, err := readArchive(path)
	if err != nil {
		t.Fatal(err)
	}
	c, err := newCase(path, archive)
	if err != nil {
		t.Fatal(err)
	}
	for claim, test := range map[string]struct {
		request string
		want    []string
	}{
		"all, in another order":       {`[{"name":"plan"},{"name":"look","arguments":{"order":2.0}},{"name":"look","arguments":{"order":1}}]`, nil},
		"one twice":                   {`[{"name":"plan"},{"name":"plan"},{"name":"look","arguments":{"order":2.0}},{"name":"look","arguments":{"order":1}}]`, nil},
		"other arguments":             {`[{"name":"plan"},{"name":"look","arguments":{"order":2}},{"name":"look","arguments":{"order":1}}]`, []string{`no answer of the tool "look" to {"order":2}`, `not asked for: no call has the arguments {"order": 2.0}`}},
		"one that the case lacks":     {`[{"name":"plan"},{"name":"look","arguments":{"order":2.0}},{"name":"look","arguments":{"order":1}},{"name":"pay"}]`, []string{`no answer of the tool "pay"`}},
		"one that is not called":      {`[{"name":"look","arguments":{"order":2.0}},{"name":"look","arguments":{"order":1}}]`, []string{`answer of the tool "plan" is not asked for`}},
		"a request that is no object": {`7`, []string{"look", "look", "plan"}},
	} {
		r := newReplay(c)
		if _, err := r.answer(t.Context(), "tool.call", []byte(`{"calls":`+test.request+`}`), nil); err != nil && test.request != "7" {
			t.Errorf("%s: %v", claim, err)
		}
		r.end()
		if len(r.problems) != len(test.want) || slices.ContainsFunc(test.want, func(want string) bool { return !strings.Contains(strings.Join(r.problems, "\n"), want) }) {
			t.Errorf("%s: problems %q, want %q", claim, r.problems, test.want)
		}
	}
}

func TestAnswersOfToolsThatAreNoneAreRefused(t *testing.T) {
	for raw, says := range map[string]string{
		`[]`:                      "read the answers of tools",
		`{"look":7}`:              `of the tool "look"`,
		`{"look":[]}`:             "it has none",
		`{"look":[null]}`:         "a content or an error",
		`{"look":{}}`:             "a content or an error",
		`{"look":{"contents":1}}`: "contents",
		`{"look":{"content":1,"error":{"code":"internal"}}}`: "a content or an error",
	} {
		if _, err := ReadTools([]byte(raw)); host.CodeOf(err) != host.InvalidArgument || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", raw, err, says)
		}
	}
}

func TestACaseAnswersAnotherProgramsCalls(t *testing.T) {
	dir := t.TempDir()
	writeCase(t, dir, "a.txtar", "-- tool.json --\n{\"tool\":\"t\"}\n-- operations.json --\n[{\"op\":\"kv.get\",\"request\":{\"key\":\"k\"},\"response\":{\"value\":\"\"}}]\n")
	c, err := ReadCase(filepath.Join(dir, "a.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	if c.Export != "tool" || c.Input != `{"tool":"t"}` {
		t.Errorf("the case is a call of %s with %s", c.Export, c.Input)
	}
	for range 2 { // each call begins with the first operation
		operate := c.Operate()
		if got, err := operate(t.Context(), "kv.get", []byte(`{"key":"k"}`), nil); string(got) != `{"value":""}` || err != nil {
			t.Errorf("the operation of the case: %s, %v", got, err)
		}
		if _, err := operate(t.Context(), "kv.get", []byte(`{"key":"k"}`), nil); host.CodeOf(err) != host.FailedPrecondition || !strings.Contains(err.Error(), "the case has 1") {
			t.Errorf("one more operation: %v", err)
		}
	}
	if _, err := ReadCase(filepath.Join(dir, "none")); host.CodeOf(err) != host.NotFound {
		t.Errorf("no case: %v", err)
	}
	writeCase(t, dir, "b.txtar", "-- tool.json --\n{}\n-- tools.json --\n[]\n")
	if _, err := ReadCase(filepath.Join(dir, "b.txtar")); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("a case without tools in their section: %v", err)
	}
}
