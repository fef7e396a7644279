package main

// Scenario: a person pages through stored rows, and has the shell complete their ids.

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// storedOfAcme has two of each thing that commands list.
func storedOfAcme(t *testing.T) (data string, env []string) {
	t.Helper()
	dir, env := talkProject(t)
	data = filepath.Join(dir, "data")
	for _, args := range [][]string{
		{"run", dir, "one", "--tenant", "acme", "--thread", "t1"}, {"run", dir, "two", "--tenant", "acme", "--thread", "t2"},
		{"tenant", "create", "acme", "--name", "Acme Ltd."}, {"tenant", "create", "beta"},
		{"key", "create", "--tenant", "acme", "--name", "shop"}, {"key", "create", "--tenant", "acme", "--name", "shop"},
	} {
		if code, shown := on(t, 0, env, append(args, "--data", data)...); code != 0 {
			t.Fatalf("%q: exit code %d and\n%s", args, code, shown)
		}
	}
	return data, env
}

func TestEveryListContinuesAtItsCursor(t *testing.T) {
	t.Parallel()
	data, env := storedOfAcme(t)
	for _, args := range [][]string{
		{"thread", "list", "--tenant", "acme"},
		{"tenant", "list"},
		{"key", "list", "--tenant", "acme"},
		{"usage", "records", "--tenant", "acme"},
		{"audit", "list"},
	} {
		args = append(args, "--data", data, "--json", "--limit", "1")
		var pages []string
		cursor := ""
		for range 2 {
			code, shown := on(t, 0, env, append(args, "--cursor", cursor)...)
			var page struct {
				Items []json.RawMessage
				Next  string
			}
			if err := json.Unmarshal([]byte(shown), &page); code != 0 || err != nil || len(page.Items) != 1 {
				t.Fatalf("%q from %q: exit code %d, %v and\n%s", args, cursor, code, err, shown)
			}
			pages, cursor = append(pages, string(page.Items[0])), page.Next
		}
		if pages[0] == pages[1] {
			t.Errorf("%q: the second page is the first\n%s", args, pages[0])
		}
	}
	for _, args := range [][]string{
		{"audit", "list", "--cursor", "x"}, {"usage", "records", "--cursor", "-1"}, {"queue", "dead", "--limit", "0"}, {"key", "list", "--limit", "all"},
	} {
		if code, shown := on(t, 0, env, append(args, "--data", data)...); code != 2 {
			t.Errorf("%q: exit code %d and\n%s", args, code, shown)
		}
	}
}

// It is not parallel: a process that another test starts has this one's files, and with them the
// lock of the data, until its program is loaded, and completing does not wait for a lock.
func TestShellsCompleteStoredIDs(t *testing.T) {
	data, env := storedOfAcme(t)
	env = append(env, "AGENTHOST_DATA="+data)
	for want, args := range map[string][]string{
		`^t2\t.*\nt1\t`:                {"thread", "show", "--tenant", "acme"},
		`^t2\t.*\nt1\t.*\n:4`:          {"thread", "delete", "--tenant", "acme"},
		`^acme\tAcme Ltd\.\nbeta\t?\n`: {"tenant", "show"},
		`^:4\n`:                        {"tenant", "create"},
		`^[a-z0-9]{8}\tshop\n`:         {"key", "revoke", "--tenant", "acme"},
		`^last\n[0-9a-f-]{36}\tclerk`:  {"trace", "show"},
		`^acme\tAcme`:                  {"usage", "bill", "--tenant"},
		`^acme\tAcme Ltd`:              {"audit", "list", "--tenant"},
		`^t2\t`:                        {"run", ".", "--tenant", "acme", "--thread"},
		`^:4`:                          {"run", ".", "--tenant", "acme", "--resume"},
	} {
		_, shown := on(t, 0, env, append(append([]string{"__complete"}, args...), "")...)
		if !regexp.MustCompile(want).MatchString(strings.ReplaceAll(shown, "\r", "")) {
			t.Errorf("%q completes with\n%s\nwant %s", args, shown, want)
		}
	}
}

func TestWhatIsMissingIsLookedFor(t *testing.T) {
	t.Parallel()
	data, _ := storedOfAcme(t)
	for want, args := range map[string][]string{
		"there is no thread \"zzz\"\n  → agenthost thread list --data " + data + " --tenant acme names": {"thread", "show", "zzz", "--tenant", "acme"},
		"\n  → agenthost key list --data " + data + " --tenant acme names the keys\n":                   {"key", "revoke", "aaaa2345", "--tenant", "acme"},
		"\n  → agenthost key list --data " + data + " --admin names the keys\n":                         {"key", "show", "aaaa2345", "--admin"},
		"there is no scope \"all\"\n  → the scopes are runs:read, ":                                     {"key", "create", "--scope", "all"},
	} {
		code, stdout, stderr := command(t, "", append(args, "--data", data)...)
		if code == 0 || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%q: exit code %d, %s%s\nwant %q", args, code, stdout, stderr, want)
		}
	}
	if code, stdout, _ := command(t, "", "key", "list", "--tenant", "acme", "--data", data); code != 0 || !regexp.MustCompile(`  shop  all  +20`).MatchString(stdout) {
		t.Errorf("key list shows\n%s", stdout)
	}
}
