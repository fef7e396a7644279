package main

// Scenario: an operator erases a tenant, with and without a host that serves.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/datadir"
	"github.com/agenthost/agenthost/internal/testcode"
)

// filesWith counts the files below dir that hold text, or a name that does. A host may serve
// from the directory, and remove files meanwhile.
func filesWith(t *testing.T, dir, text string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if bytes.Contains(b, []byte(text)) {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// dataProject is a project with a scripted model, and what runs commands in it.
func dataProject(t *testing.T, key string) (dir string, exits func(code int, want string, args ...string) string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "e") // short: there may be a socket in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	writeText(t, dir, "agenthost.yaml", "version: 1\nagents: {clerk: {}}\nmodels: {m: {provider: scripted, rules: rules.yaml}}\n")
	writeText(t, dir, "rules.yaml", "rules:\n  - match: {user: secret}\n    reply: {text: it is zebrafinch}\n")
	cache := testcode.Project(t)
	getenv := variables(map[string]string{"AGENTHOST_CACHE": cache, datadir.KeyVariable: key})
	return dir, func(code int, want string, args ...string) string {
		t.Helper()
		return wantExit(t, getenv, code, want, args...)
	}
}

func TestATenantIsErasedFromADataDirectory(t *testing.T) {
	for name, key := range map[string]string{"without a key": "", "with a key": strings.Repeat("5a", 32)} {
		t.Run(name, func(t *testing.T) {
			dir, exits := dataProject(t, key)
			data, backup := filepath.Join(dir, "data"), filepath.Join(dir, "b")
			for _, tenant := range []string{"acme", "globex"} {
				exits(0, "zebrafinch", "run", dir, "--data", data, "--thread", "t1", "--tenant", tenant, "the secret")
			}
			if n := len(filesWith(t, data, "zebrafinch")); (n == 0) != (key != "") {
				t.Errorf("%d files show an answer", n)
			}
			exits(0, "", "data", "backup", backup, "--data", data)
			exits(0, "Of tenant acme: ", "data", "prove", "acme", "--data", data)
			if list := exits(0, "t1", "trace", "list", "--data", data, "--tenant", "acme"); strings.Count(list, "t1") != 1 {
				t.Errorf("trace list --tenant acme:\n%s", list)
			}
			exits(2, "--yes is required", "data", "erase", "acme", "--data", data)
			exits(0, "Nothing of it is left.", "data", "erase", "acme", "--data", data, "--yes")
			out := exits(0, "", "data", "prove", "acme", "--data", data, "--json")
			var report struct {
				Gone  bool `json:"gone"`
				Store struct {
					Scanned, Found int
				} `json:"store"`
			}
			if err := json.Unmarshal([]byte(out), &report); err != nil || !report.Gone || report.Store.Scanned == 0 || report.Store.Found != 0 {
				t.Errorf("data prove --json: %v\n%s", err, out)
			}
			if list := exits(0, "", "trace", "list", "--data", data); strings.Count(list, "t1") != 1 {
				t.Errorf("trace list:\n%s", list)
			}
			exits(4, "", "thread", "show", "t1", "--data", data, "--tenant", "acme")
			exits(0, "zebrafinch", "thread", "show", "t1", "--data", data, "--tenant", "globex")
			// A restore leaves it out.
			restored := filepath.Join(dir, "restored")
			if key != "" {
				exits(3, "name the key file", "data", "restore", backup, "--data", restored)
			}
			exits(0, "of tenants that were deleted since", "data", "restore", backup, "--data", restored, "--key-file", datadir.KeyFilePath(data))
			exits(4, "", "thread", "show", "t1", "--data", restored, "--tenant", "acme")
			exits(0, "zebrafinch", "thread", "show", "t1", "--data", restored, "--tenant", "globex")
			// The other thread goes with its traces, and its bytes at the next purge.
			exits(0, "", "thread", "delete", "t1", "--data", data, "--tenant", "globex")
			exits(0, "Nothing that was deleted", "data", "purge", "--data", data)
			if files := filesWith(t, data, "zebrafinch"); len(files) != 0 {
				t.Errorf("after all was deleted, %q show an answer", files)
			}
		})
	}
}

// A host erases a tenant while it serves, and traces the turns of sessions.
func TestARunningHostErasesATenant(t *testing.T) {
	dir, exits := dataProject(t, "")
	data := filepath.Join(dir, "data")
	stdin, typed := io.Pipe()
	out := &screen{t: t, wrote: make(chan struct{}, 1)}
	done, cache := make(chan int, 1), testcode.Project(t)
	go func() {
		env := &environment{stdinTerminal: true, stdin: stdin, stdout: out, stderr: out, getenv: variables(map[string]string{"AGENTHOST_CACHE": cache})}
		done <- run(context.Background(), []string{"dev", dir, "--data", data, "--thread", "t1", "--tenant", "globex"}, env)
	}()
	out.waitFor("> ")
	exits(0, "zebrafinch", "chat", "the secret", "--session", "s1", "--data", data, "--tenant", "acme")
	detached := exits(0, "runs in the background", "chat", "the secret", "--session", "s2", "--detach", "--data", data, "--tenant", "acme")
	exits(0, "", "session", "wait", inBackground.FindStringSubmatch(detached)[1], "--data", data, "--tenant", "acme")
	list := exits(0, "", "trace", "list", "--data", data, "--tenant", "acme")
	if strings.Count(list, " s1 ") != 1 || strings.Count(list, " s2 ") != 1 {
		t.Errorf("the traces of a session's turns, one of them in the background:\n%s", list)
	}
	exits(0, "Nothing of it is left.", "data", "erase", "acme", "--data", data, "--yes")
	if files := filesWith(t, data, "zebrafinch"); len(files) != 0 {
		t.Errorf("after the tenant was erased, %q show an answer", files)
	}
	if _, err := io.WriteString(typed, "the secret\n"); err != nil {
		t.Fatal(err)
	}
	out.waitFor("zebrafinch") // it serves on
	_ = typed.Close()
	if code := <-done; code != 0 {
		t.Errorf("dev ended with exit code %d", code)
	}
}
