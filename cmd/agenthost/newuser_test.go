package main

// Scenario: a new user makes the usual mistakes on the command line and gets errors that
// name the fix.

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
)

// command runs a command line in this process.
func command(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs output
	cache := filepath.Join(t.TempDir(), "cache")
	code = run(t.Context(), args, &environment{stdin: strings.NewReader(stdin), stdout: &out, stderr: &errs,
		getenv: variables(map[string]string{"AGENTHOST_CACHE": cache})})
	return code, out.String(), errs.String()
}

func TestPromptsThatAreNotUTF8AreRefused(t *testing.T) {
	for name, args := range map[string][]string{
		"an argument": {"run", "nowhere", "caf\xe9"},
		"stdin":       {"run", "nowhere", "-"},
	} {
		code, _, stderr := command(t, "caf\xe9", args...)
		if code != 3 || !strings.Contains(stderr, "the prompt is not UTF-8\n  → convert it, as with: iconv -f latin1 -t utf-8") {
			t.Errorf("%s: exit code %d, %s", name, code, stderr)
		}
	}
	code, _, stderr := command(t, "", "thread", "edit", "t1", "0", "caf\xe9", "--data", t.TempDir())
	if code != 3 || !strings.Contains(stderr, "the text is not UTF-8") {
		t.Errorf("thread edit: exit code %d, %s", code, stderr)
	}
}

func TestWordsWithoutQuotesGetAHint(t *testing.T) {
	for want, args := range map[string][]string{
		`→ put the prompt in quotes: agenthost run shop "where is 1042"`:              {"run", "shop", "where", "is", "1042"},
		`→ put the prompt in quotes: agenthost run shop 'what is \d "$now"'`:          {"run", "shop", "what", "is", `\d`, `"$now"`},
		`→ put the text in quotes: agenthost thread edit t1 0 "no it is"`:             {"thread", "edit", "t1", "0", "no", "it", "is"},
		"1 argument given; the command is: agenthost thread edit THREAD MESSAGE TEXT": {"thread", "edit", "t1"},
	} {
		if code, _, stderr := command(t, "", args...); code != 2 || !strings.Contains(stderr, want) {
			t.Errorf("%q: exit code %d, %s\nwant %s", args, code, stderr, want)
		}
	}
}

func TestErrorsAreJSONWhereTheOutputIs(t *testing.T) {
	for name, row := range map[string]struct {
		args []string
		exit int
		code host.Code
	}{
		"a data directory that is not there":  {[]string{"thread", "list", "--data", "nowhere", "--json"}, 4, host.NotFound},
		"a command line that makes no sense":  {[]string{"thread", "show", "--json"}, 2, host.InvalidArgument},
		"a flag that there is not":            {[]string{"thread", "list", "--json", "--nosuch"}, 2, host.InvalidArgument},
		"a command that there is not":         {[]string{"thred", "--json"}, 2, host.InvalidArgument},
		"several words where one text is due": {[]string{"run", "shop", "a", "b", "--json"}, 2, host.InvalidArgument},
	} {
		code, stdout, stderr := command(t, "", row.args...)
		var failed struct{ Error *host.Error }
		if err := json.Unmarshal([]byte(stderr), &failed); err != nil || code != row.exit || failed.Error == nil || failed.Error.Code != row.code || stdout != "" {
			t.Errorf("%s: exit code %d, stdout %q, stderr %s; want %d and an error of code %s", name, code, stdout, stderr, row.exit, row.code)
		}
	}
}

func TestInitCleansItsPath(t *testing.T) {
	dir := t.TempDir()
	_, stdout, stderr := command(t, "", "init", dir+"/./x/../shop//")
	if want := "Made " + filepath.Join(dir, "shop") + ":"; !strings.Contains(stdout, want) || strings.Contains(stdout, "..") {
		t.Errorf("init prints\n%s%s\nwant %q and no ..", stdout, stderr, want)
	}
}

func TestDoctorSaysThatACacheCannotBeMade(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cache := filepath.Join(dir, "file")
	wantExit(t, variables(map[string]string{"AGENTHOST_CACHE": cache}), 3, "cannot be made: "+cache+" is not a directory", "doctor")
}

func TestProcessorsTryComplainsOfTheNameFirst(t *testing.T) {
	for _, args := range [][]string{{"builtin:nope", "--config", "{bad", "nofile"}, {"nowhere.wasm", "--config", "{bad", "nofile"}} {
		code, _, stderr := command(t, "", append([]string{"processors", "try"}, args...)...)
		if code != 4 || !strings.Contains(stderr, "there is no plugin "+args[0]) {
			t.Errorf("%q: exit code %d, %s", args, code, stderr)
		}
	}
}
