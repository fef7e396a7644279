//go:build unix

package main

// Scenario: a person at a terminal talks to a project: they edit lines, take back what they
// said, interrupt a turn, and read what fits their window.

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/internal/testcode"
	"github.com/agenthost/agenthost/internal/testguest"
)

// person is at a terminal, on which a command runs in a process of its own.
type person struct {
	t      *testing.T
	keys   *os.File // the end that is typed on; the other is the terminal
	window *screen
	ended  chan int
}

// atTerminal runs a command on a terminal that has so many columns.
func atTerminal(t *testing.T, columns uint16, env []string, args ...string) *person {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Args[0] = "agenthost" // see TestMain
	cmd.Env = append(append(os.Environ(), "TERM=xterm", "INPUTRC=/dev/null"), env...)
	keys, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: columns})
	if err != nil {
		t.Fatal(err)
	}
	p := &person{t: t, keys: keys, window: &screen{t: t, wrote: make(chan struct{}, 1)}, ended: make(chan int, 1)}
	go func() {
		_, _ = io.Copy(p.window, keys) // ends with an error when the command does
		_ = cmd.Wait()                 // the exit code tells
		p.ended <- cmd.ProcessState.ExitCode()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has ended, unless the test failed
		_ = keys.Close()
	})
	return p
}

// types types keys, and waits until the terminal shows a text.
func (p *person) types(keys, want string) {
	p.t.Helper()
	if _, err := io.WriteString(p.keys, keys); err != nil {
		p.t.Fatal(err)
	}
	p.window.waitFor(want)
}

// leaves waits for the end of the command.
func (p *person) leaves(code int) {
	p.t.Helper()
	select {
	case got := <-p.ended:
		if got != code {
			p.t.Errorf("the exit code is %d, want %d; the terminal shows\n%s", got, code, p.shown())
		}
	case <-time.After(patience):
		p.t.Fatalf("the command does not end; the terminal shows\n%s", p.shown())
	}
}

func (p *person) shown() string {
	p.window.mu.Lock()
	defer p.window.mu.Unlock()
	return p.window.text.String()
}

// The keys of a person.
const (
	enter, ctrlJ  = "\r", "\n"
	ctrlA, ctrlC  = "\x01", "\x03"
	ctrlD         = "\x04"
	up, left, tab = "\x1b[A", "\x1b[D", "\t"
	pasteBegin    = "\x1b[200~"
	pasteEnd      = "\x1b[201~"
)

// talkProject writes a project whose script knows a few words, and returns its directory
// and an environment with a state of its own.
func talkProject(t *testing.T) (dir string, env []string) {
	t.Helper()
	dir = t.TempDir()
	writeText(t, dir, "agenthost.yaml", "version: 1\nagents: {clerk: {}}\nmodels: {m: {provider: scripted, rules: rules.yaml}}\n")
	writeText(t, dir, "rules.yaml", `rules:
  - match: {user: slow}
    reply: {text: it took long, delay: 10m}
  - match: {user: brief}
    reply: {text: it took a while, delay: 900ms}
  - match: {user: one}
    reply: {text: it is the first}
  - match: {user: two}
    reply: {text: it is the second}
  - match: {user: 東京}
    reply: {text: it is far}
`)
	return dir, []string{"XDG_STATE_HOME=" + filepath.Join(dir, "state"), "AGENTHOST_CACHE=" + testcode.Project(t), "HOME=" + dir}
}

const (
	greeting = "Talking to clerk"
	prompt   = "\x1b[2C\x1b[?25h" // the editor has drawn its prompt and waits
)

func TestALineIsEditedAndRemembered(t *testing.T) {
	t.Parallel()
	dir, env := talkProject(t)
	p := atTerminal(t, 80, env, "run", dir)
	p.types("", greeting)
	p.types("", prompt)
	p.types("wo"+ctrlA+"t"+enter, "it is the second") // ctrl-A goes to the beginning
	p.types("", prompt)
	p.types("onne"+left+"\x7f"+enter, "it is the first")
	p.types("", prompt)
	p.types(up+up+enter, "it is the second")
	p.types("", prompt)
	p.types(ctrlD, "not from an LLM")
	p.leaves(0)

	file := filepath.Join(dir, "state", "agenthost", "history")
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the history has mode %v, %v; want 0600", info, err)
	}
	p = atTerminal(t, 80, env, "run", dir)
	p.types("", greeting)
	p.types("", prompt)
	p.types(up+up+enter, "it is the first")
	p.types("", prompt)
	p.types("/quit"+enter, "not from an LLM")
	p.leaves(0)
}

func TestSeveralLinesAreOneMessage(t *testing.T) {
	t.Parallel()
	for name, keys := range map[string]string{
		"pasted":                   pasteBegin + "one\rof\rmany" + pasteEnd + enter,
		"typed with ctrl-J":        "one" + ctrlJ + "of" + ctrlJ + "many" + enter,
		"typed behind backslashes": `one\` + enter + `of\` + enter + "many" + enter,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, env := talkProject(t)
			p := atTerminal(t, 80, env, "run", dir)
			p.types("", greeting)
			p.types("", prompt)
			p.types(keys, "it is the first")
			p.types("", prompt)
			saved := filepath.Join(dir, "talk.md")
			p.types("/save "+saved+enter, "Wrote the conversation")
			p.types("", prompt)
			p.types(ctrlD, "not from an LLM")
			p.leaves(0)
			text, err := os.ReadFile(saved)
			if err != nil || !strings.HasPrefix(string(text), "## user\n\none\nof\nmany\n\n## assistant clerk\n\nit is the first\n") {
				t.Errorf("the conversation is saved as\n%s%v", text, err)
			}
		})
	}
}

func TestCtrlCEndsATurnAndASecondOneLeaves(t *testing.T) {
	t.Parallel()
	dir, env := talkProject(t)
	p := atTerminal(t, 80, env, "run", dir)
	p.types("", greeting)
	p.types("", prompt)
	p.types("thrown away"+ctrlC, prompt)
	p.types("slow"+enter, "model scripted  ") // the activity: the turn runs
	p.types(ctrlC, "Interrupted; what was finished is kept.")
	p.types("", prompt)
	p.types("one"+enter, "it is the first") // the conversation continues
	p.types("", prompt)
	p.types(ctrlC, "Ctrl-C again leaves")
	p.types("", prompt)
	p.types(ctrlC, "")
	p.leaves(130)

	p = atTerminal(t, 80, env, "run", dir)
	p.types("", greeting)
	p.types("", prompt)
	p.types("slow"+enter, "model scripted  ")
	p.types(ctrlC, "Interrupted")
	p.types("", prompt)
	p.types(ctrlC, "")
	p.leaves(130)
}

func TestAConversationHasCommands(t *testing.T) {
	t.Parallel()
	dir, env := talkProject(t)
	p := atTerminal(t, 80, env, "run", dir)
	p.types("", greeting)
	p.types("", prompt)
	for _, step := range []struct{ keys, want string }{
		{"/why" + enter, "there was no turn yet"},
		{"/hlp" + enter, "is it /help?"},
		{"/he" + tab + enter, "tokens, time and instructions"},
		{"/tools" + enter, "clerk"},
		{"one" + enter, "it is the first"},
		{"/why" + enter, "model scripted"},
		{"/route" + enter, "nothing routes it"},
		{"/cost" + enter, "TOKENS OUT"},
		{"/undo" + enter, `Took back "one": the conversation has 0 messages`},
		{"two" + enter, "it is the second"},
		{"/branch" + enter, "is unchanged"},
		{"/save" + enter, "needs the name of a file"},
		{"/etc/hosts is one" + enter, "it is the first"}, // a path is no command
		{enter + "one" + enter, "it is the first"},       // an empty line ends nothing
	} {
		p.types(step.keys, step.want)
		p.types("", prompt)
	}
	p.types("/quit"+enter, "not from an LLM")
	p.leaves(0)
}

// colours are sequences that colour text; the editor resets colours by others.
var colours = regexp.MustCompile("\x1b\\[(1|2|3[0-9])m")

func TestLinesFitTheWindow(t *testing.T) {
	t.Parallel()
	dir, env := talkProject(t)
	data := filepath.Join(dir, "data")
	for _, text := range []string{"東京" + strings.Repeat("都市", 40), "one " + strings.Repeat("long ", 30)} {
		p := atTerminal(t, 80, env, "run", dir, text, "--data", data)
		p.leaves(0)
	}
	for _, columns := range []uint16{40, 80, 200} {
		for name, args := range map[string][]string{
			"a table": {"thread", "list", "--data", data},
			"a tree":  {"trace", "show", "--data", data},
			"a run":   {"run", dir, "one"},
		} {
			p := atTerminal(t, columns, append(env, "NO_COLOR=1"), args...)
			p.leaves(0)
			for line := range strings.Lines(p.shown()) {
				line = strings.TrimRight(line[strings.LastIndexByte(strings.TrimRight(line, "\r\n"), '\r')+1:], "\r\n")
				line = strings.TrimPrefix(line, "\x1b[K")
				if strings.HasPrefix(line, "  export") || strings.Contains(line, "script, not from") || strings.Contains(line, "agenthost run") {
					continue // a command to copy, and the words before it, are not cut
				}
				if n := ui.TextWidth(line); n > int(columns) {
					t.Errorf("%s in %d columns has a line of %d: %q", name, columns, n, line)
				}
			}
			if name == "a table" && columns == 200 != regexp.MustCompile(`[0-9a-f]{4}-[0-9a-f]{12}`).MatchString(p.shown()) {
				t.Errorf("in %d columns the ids are\n%s\nwant whole ones where they fit", columns, p.shown())
			}
			if colours.MatchString(p.shown()) {
				t.Errorf("%s has colours with NO_COLOR: %q", name, p.shown())
			}
		}
	}
	p := atTerminal(t, 80, env, "run", dir, "one")
	p.leaves(0)
	if !colours.MatchString(p.shown()) {
		t.Errorf("a run has no colours on a terminal: %q", p.shown())
	}
}

// on runs a command whose output is a terminal that has so many columns.
func on(t *testing.T, columns int, env []string, args ...string) (code int, shown string) {
	t.Helper()
	var out output
	code = run(t.Context(), args, &environment{stdin: strings.NewReader(""), stdout: &out, stderr: io.Discard,
		stdoutTerminal: true, columns: func() int { return columns }, getenv: func(name string) string {
			for _, v := range env {
				if value, found := strings.CutPrefix(v, name+"="); found {
					return value
				}
			}
			return ""
		}})
	return code, out.String()
}

func TestWhatIsListedFitsAnyWidth(t *testing.T) {
	t.Parallel()
	dir, env := talkProject(t)
	data := filepath.Join(dir, "data")
	for _, args := range [][]string{
		{"run", dir, "one"},
		{"tenant", "create", "acme-of-the-north", "--name", "Acme, the shop for everything"},
		{"tenant", "suspend", "acme-of-the-north", "--reason", "the invoice of March is open"},
		{"key", "create", "--name", "the browser of the shop", "--expires", "720h"},
		{"key", "create", "--admin"},
	} {
		args = append(args, "--data", data)
		if code, shown := on(t, 0, env, args...); code != 0 {
			t.Fatalf("%q: exit code %d and\n%s", args, code, shown)
		}
	}
	for want, args := range map[string][]string{
		"the browser":       {"key", "list", "--data", data},
		"all":               {"key", "list", "--admin", "--data", data},
		"acme-of-the-north": {"tenant", "list", "--data", data},
		"tenant.suspend":    {"audit", "list", "--data", data},
		"clerk":             {"usage", "bill", "--data", data},
		"TOKENS":            {"usage", "records", "--data", data},
		"stdin is no":       {"doctor", "--data", data},
		"exports":           {"plugin", "inspect", "builtin:tokenlimiter"},
		"model scripted":    {"trace", "show", "--data", data},
	} {
		for _, columns := range []int{40, 80} {
			code, shown := on(t, columns, append(env, "NO_COLOR=1"), args...)
			if code != 0 {
				t.Errorf("%q: exit code %d", args, code)
			}
			for line := range strings.Lines(shown) {
				if n := ui.TextWidth(strings.TrimSuffix(line, "\n")); n > columns {
					t.Errorf("%q in %d columns has a line of %d: %q", args, columns, n, line)
				}
			}
			if words := strings.Join(strings.Fields(shown), " "); !strings.Contains(words, want) {
				t.Errorf("%q in %d columns lacks %q:\n%s", args, columns, want, shown)
			}
		}
	}
}

func TestHelpAndWhyFitANarrowWindow(t *testing.T) {
	t.Parallel()
	const columns = 40
	dir, env := talkProject(t)
	p := atTerminal(t, columns, append(env, "NO_COLOR=1"), "run", dir)
	p.types("", greeting)
	p.types("", prompt)
	p.types("one"+enter, "it is the first")
	p.types("", prompt)
	p.types("/help"+enter, "/cost")
	for _, want := range []string{"tokens, time and", "turn and of all", "ctrl-R searches them. Ctrl-C ends"} {
		p.window.waitFor(want) // each on a line of its own
	}
	p.types("", prompt)
	p.types("/why"+enter, "run ")
	p.window.waitFor("└ agent clerk")
	p.window.waitFor("model scripted")
	p.window.waitFor("tokens")
	p.types("", prompt)
	p.types("/quit"+enter, "not from an LLM")
	p.leaves(0)
}

func TestALongWaitShowsWhatItIsFor(t *testing.T) {
	t.Parallel()
	dir, env := talkProject(t)
	model, asking := newSlowModel(t), t.TempDir()
	writeText(t, asking, "agenthost.yaml", "version: 1\nagents: {clerk: {}}\nmodels: {m: {provider: openai, name: slow, base_url: "+model.URL+"/v1}}\n")
	p := atTerminal(t, 80, env, "run", asking, "brief")
	p.window.waitFor("… model slow  ")
	close(model.open)
	p.window.waitFor("it is done")
	p.leaves(0)
	if rest := p.shown(); strings.Contains(rest[strings.Index(rest, "it is done"):], "… model") {
		t.Errorf("the wait is shown after its end: %q", rest)
	}
	cmd := exec.Command(os.Args[0], "run", dir, "brief")
	cmd.Args[0], cmd.Env = "agenthost", append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) || strings.Contains(string(out), "… model") || strings.Contains(string(out), "\x1b") {
		t.Errorf("without a terminal the command shows %q, %v; want no wait", out, err)
	}
}

// Two terminals talk to one host: the host's own, and a client's, which has a session.
func TestChatIsAConversationWithARunningHost(t *testing.T) {
	t.Parallel()
	dir, env := talkProject(t)
	short, err := os.MkdirTemp("", "d") // there is to be a socket in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(short) })
	data := filepath.Join(short, "data")
	owner := atTerminal(t, 80, env, "dev", dir, "--data", data, "--listen", "127.0.0.1:0")
	owner.types("", greeting)
	owner.types("", prompt)

	p := atTerminal(t, 80, env, "chat", "--data", data)
	p.types("", "Talking to the host at")
	p.types("", prompt)
	for _, step := range []struct{ keys, want string }{
		{"/undo" + enter, "there is nothing to take back"},
		{"one" + enter, "it is the first"},
		{"two" + enter, "it is the second"},
		{"/undo" + enter, "Took the last turn back"},
		{"/branch" + enter, "continue from it with --snapshot"},
		{"/cost" + enter, "2 turns"},
		{"one" + enter, "it is the first"},
	} {
		p.types(step.keys, step.want)
		p.types("", prompt)
	}
	p.types("slow"+enter, "model scripted  ")
	p.types(ctrlC, "Interrupted; what was finished is kept.")
	p.types("", prompt)
	p.types(ctrlD, "")
	p.leaves(0)
	owner.types(enter+"one"+enter, "it is the first") // an empty line does not end dev
	owner.types("", prompt)
	owner.types(ctrlD, "")
	owner.leaves(0)
}

// A person answers what a turn asks within the conversation, at once or later.
func TestChatAsksWithinTheConversation(t *testing.T) {
	t.Parallel()
	dir, env := talkProject(t)
	writeText(t, dir, "agenthost.yaml", `version: 1
agents: {clerk: {tools: [guest]}}
plugins: {guest: {path: echo.wasm}}
models: {m: {provider: scripted, rules: rules.yaml}}
approve: [{tool: t, reason: Refunds need a person.}]
`)
	writeText(t, dir, "rules.yaml", `rules:
  - match: {after: "*"}
    reply: {text: it is paid back}
  - match: {user: "refund (\\d+)"}
    reply: {calls: [{name: t, arguments: {amount: "${1}"}}]}
`)
	if err := os.WriteFile(filepath.Join(dir, "echo.wasm"), testguest.Modules()["open"], 0o600); err != nil {
		t.Fatal(err)
	}
	socket := "@agenthost-" + host.NewID()
	if runtime.GOOS != "linux" {
		socket = filepath.Join(t.TempDir(), "s")
	}
	owner := atTerminal(t, 80, env, "dev", dir, "--socket", socket, "--listen", "127.0.0.1:0")
	owner.types("", greeting)
	p := atTerminal(t, 80, env, "chat", "--socket", socket)
	p.types("", "Talking to the host at "+socket)
	p.types("", prompt)
	p.types("/answer"+enter, "the last turn asked nothing")
	p.types("", prompt)
	p.types("refund 5"+enter, "[y, n, or why not]")
	p.types("y"+enter, "it is paid back")
	p.types("", prompt)
	p.types("refund 6"+enter, "[y, n, or why not]")
	p.types(enter, "/answer asks again")
	p.types("", prompt)
	p.types("/answer"+enter, "[y, n, or why not]")
	p.types("not today"+enter, "it is paid back")
	p.types("", prompt)
	p.types(ctrlD, "")
	p.leaves(0)
	owner.types(ctrlD, "")
	owner.leaves(0)
}
