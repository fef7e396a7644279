package main

// Scenario: a person talks to a project while its plugins are saved and steered.

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/control"
	"github.com/agenthost/agenthost/internal/testcode"
	"github.com/agenthost/agenthost/internal/testguest"
)

// output is what a command prints. What it does and what it logs are printed by goroutines of
// their own, at the same time.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// screen is the other end of a command: what it prints, and a way to wait for
// it.
type screen struct {
	t     *testing.T
	mu    sync.Mutex
	text  bytes.Buffer
	read  int // of text, by waitFor
	wrote chan struct{}
}

// Write implements io.Writer.
func (o *screen) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case o.wrote <- struct{}{}:
	default:
	}
	return o.text.Write(b)
}

// waitFor waits until something has been printed after what was waited for
// before.
func (o *screen) waitFor(want string) {
	o.t.Helper()
	timeout := time.After(patience)
	for {
		o.mu.Lock()
		rest := o.text.String()[o.read:]
		i := strings.Index(rest, want)
		if i >= 0 {
			o.read += i + len(want)
		}
		o.mu.Unlock()
		if i >= 0 {
			return
		}
		select {
		case <-o.wrote:
		case <-timeout:
			o.t.Fatalf("%q is not printed; there is:\n%s", want, rest)
		}
	}
}

// completes waits until a command line is completed by a word. A completion waits a moment for
// the host, and has none where that is busy.
func completes(t *testing.T, getenv func(string) string, want string, args ...string) {
	t.Helper()
	for limit := time.Now().Add(patience); ; {
		var b output
		code := run(t.Context(), append([]string{"__complete"}, args...), &environment{stdin: strings.NewReader(""), stdout: &b, stderr: &b, getenv: getenv})
		if code == 0 && strings.Contains(b.String(), want) {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("%q is completed with exit code %d and\n%s\nwant %q", args, code, b.String(), want)
		}
	}
}

// devProject writes a project with a processor in Go, whose word the model
// answers with.
func devProject(t *testing.T, dir string) {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	writeText(t, dir, "agenthost.yaml", `version: 1
agents:
  clerk: {processors: [{use: word}], tools: [echo/t]}
plugins:
  word: {path: word}
  echo: {path: echo.wasm}
models:
  m: {provider: scripted, rules: rules.yaml}
`)
	writeText(t, dir, "rules.yaml", `rules:
  - match: {user: one}
    reply: {text: it is the first}
  - match: {user: two}
    reply: {text: it is the second}
`)
	writeText(t, dir, "echo.wasm", string(testguest.Modules()["echo"]))
	if err := os.Mkdir(filepath.Join(dir, "word"), 0o700); err != nil {
		t.Fatal(err)
	}
	writeText(t, dir, "word/go.mod", fmt.Sprintf("module word\n\ngo 1.26.0\n\nrequire github.com/agenthost/agenthost v0.0.0\nreplace github.com/agenthost/agenthost => %s\n", root))
	writeWord(t, dir, `"one"`)
}

func writeWord(t *testing.T, dir, word string) {
	t.Helper()
	writeText(t, dir, "word/main.go", `package main

import "github.com/agenthost/agenthost/pdk/go/pdk"

func init() {
	pdk.Describe(pdk.Manifest{Name: "word"})
	pdk.Processor("word", func(p *pdk.Process) error {
		p.MapStrings(func(string) string { return `+word+` })
		return nil
	})
}

func main() {}
`)
}

// writeText writes a file as editors do: aside, and then in its place.
func writeText(t *testing.T, dir, name, text string) {
	t.Helper()
	aside := filepath.Join(dir, filepath.Dir(name), ".new")
	if err := os.WriteFile(aside, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(aside, filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

// What is saved while one talks to a project is what the next turn runs; what
// does not build is said, and the version before stays; another command can look
// at the host and go back.
func TestDevRunsWhatWasSaved(t *testing.T) {
	dir, err := os.MkdirTemp("", "d") // short: there is to be a socket in it
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	devProject(t, dir)
	data := filepath.Join(dir, "data")
	cache := testcode.Project(t)
	getenv := func(name string) string {
		if name == "AGENTHOST_CACHE" {
			return cache
		}
		return ""
	}
	stdin, typed := io.Pipe()
	out := &screen{t: t, wrote: make(chan struct{}, 1)}
	done := make(chan int, 1)
	go func() {
		env := &environment{stdinTerminal: true, stdin: stdin, stdout: out, stderr: out, getenv: getenv}
		done <- run(context.Background(), []string{"dev", dir, "--data", data}, env)
	}()
	say := func(text string) {
		t.Helper()
		if _, err := io.WriteString(typed, text+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	// other runs another command, which wants an exit code and prints something.
	other := func(code int, want string, args ...string) {
		t.Helper()
		wantExit(t, getenv, code, want, args...)
	}

	out.waitFor("> ")
	say("hello")
	out.waitFor("it is the first")

	writeWord(t, dir, `"two"`)
	say("hello")
	out.waitFor("* word: version 2 serves")
	out.waitFor("it is the second")

	writeWord(t, dir, `nonsense`)
	say("hello")
	out.waitFor("undefined: nonsense")
	out.waitFor("* word: version 2 stays")
	out.waitFor("it is the second")

	other(0, "word", "plugin", "list", "--data", data)
	other(0, `"phase":"serving"`, "plugin", "list", "--data", data, "--json")
	other(0, "asks for  nothing", "plugin", "inspect", "word", "--data", data)
	other(0, `{}`, "plugin", "inspect", "word", "--data", data, "--json")
	other(0, "PLUGIN  CALLS  CALLS/S", "plugin", "top", "--data", data)
	other(0, "PLUGIN  TENANT   EXPORT ", "plugin", "top", "--data", data, "--by-tenant", "--by-export", "--lines", "1")
	other(0, "No plugin has been called yet.", "plugin", "top", "--data", data, "--tenant", "nobody")
	other(0, `"plugin":"word"`, "plugin", "top", "--data", data, "--json")
	other(2, "--lines is 0", "plugin", "top", "--data", data, "--lines", "0")
	other(2, "--interval is 1ms", "plugin", "top", "--data", data, "--interval", "1ms")
	other(0, "Erased 0 items, 0 bytes.", "plugin", "erase", "word", "--data", data)
	other(0, `"items":0`, "plugin", "erase", "--all", "--tenant", "nobody", "--data", data, "--json")
	other(0, "word: version 1 serves", "plugin", "rollback", "word", "--data", data)
	say("hello")
	out.waitFor("it is the first")
	other(3, "keeps no earlier version", "plugin", "rollback", "word", "--data", data)
	other(3, "undefined: nonsense", "plugin", "reload", "word", "--data", data)
	other(0, "as before: the module is the same", "plugin", "reload", "echo", "--data", data)
	other(4, `did you mean "word"?`, "plugin", "reload", "wrd", "--data", data)

	other(3, `plugin "echo" has no tool "t"`, "plugin", "load", "echo", "builtin:tokenlimiter", "--data", data)
	other(0, "as before: the module is the same", "plugin", "reload", "echo", "--data", data)
	other(0, "word: unloaded", "plugin", "unload", "word", "--data", data)
	say("hello")
	out.waitFor("word")
	other(0, "unloaded", "plugin", "list", "--data", data)
	other(3, `plugin "word" is unloaded`, "chat", "hello", "--data", data)
	completes(t, getenv, "word", "plugin", "unload", "--data", data, "")
	other(3, "one process owns a data directory", "dev", dir, "--data", data)

	writeWord(t, dir, `"two"`)
	say("hello")
	out.waitFor("it is the second")
	say("/quit")
	if code := <-done; code != 0 {
		t.Errorf("dev ends with exit code %d", code)
	}
	if text := out.text.String(); strings.Contains(text, "level=") || strings.Contains(text, "<nil>") {
		t.Errorf("what somebody asked for is logged between the turns:\n%s", text)
	}
	other(3, "no host is running at", "plugin", "list", "--data", data)
	if _, err := os.Lstat(control.SocketPath(data)); !os.IsNotExist(err) {
		t.Errorf("the socket is left behind: %v", err)
	}
}
