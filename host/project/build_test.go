package project

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/internal/testcode"
	"github.com/agenthost/agenthost/internal/testguest"
)

// builtProject is a project whose plugin's source is a module that its command copies.
func builtProject(t *testing.T, run string) string {
	t.Helper()
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("needs a shell")
	}
	dir := t.TempDir()
	writeProjectFile(t, dir, "agenthost.yaml", fmt.Sprintf(`version: 1
agents: {clerk: {tools: [guest/t]}}
plugins: {guest: {path: guest/guest.wasm, build: {run: [%s]}}}
models: {m: {provider: scripted, rules: rules.yaml}}
`, run))
	writeProjectFile(t, dir, "rules.yaml", "rules: [{match: {}, reply: {text: hi}}]\n")
	if err := os.Mkdir(filepath.Join(dir, "guest"), 0o700); err != nil {
		t.Fatal(err)
	}
	writeProjectFile(t, dir, "guest/source", string(testguest.Modules()["echo"]))
	return dir
}

func openBuilt(t *testing.T, dir string, commands bool) (*Project, error) {
	t.Helper()
	cache := testcode.Project(t)
	getenv := func(name string) string {
		if name == "AGENTHOST_CACHE" {
			return cache
		}
		return ""
	}
	p, err := Load(t.Context(), dir, &Options{Replaceable: true, Getenv: getenv, Modules: NewModules(&ModulesOptions{Getenv: getenv, Commands: commands})})
	if err == nil {
		t.Cleanup(func() { _ = p.Close() })
	}
	return p, err
}

const copySource = "cp, source, guest.wasm"

func TestASavedSourceIsBuiltAndServes(t *testing.T) {
	dir := builtProject(t, copySource)
	p, err := openBuilt(t, dir, true)
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	r := NewReloader(p, func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) })
	r.Watch()
	r.Refresh(t.Context())
	if len(said) > 0 {
		t.Errorf("nothing was saved, and it says %q", said)
	}

	const note = "\x00\x0b\x04notesecond" // a custom section
	writeProjectFile(t, dir, "guest/source", string(testguest.Modules()["echo"])+note)
	r.Refresh(t.Context())
	if want := "guest: version 2 serves"; len(said) != 2 || said[0] != "build plugin guest: cp source guest.wasm ..." || said[1] != want {
		t.Errorf("it says %q, want a build and then %q", said, want)
	}
	said = nil
	r.Refresh(t.Context())
	if len(said) > 0 {
		t.Errorf("the command's own output is taken for a change: %q", said)
	}

	if err := os.Remove(filepath.Join(dir, "guest", "source")); err != nil {
		t.Fatal(err)
	}
	r.Refresh(t.Context())
	if text := strings.Join(said, "\n"); !strings.Contains(text, "cp source guest.wasm: exit status 1") || !strings.Contains(text, "guest: version 2 stays") {
		t.Errorf("a command that fails: %s", text)
	}
}

// builtByScript is a reloader that watches a project whose plugin is built by a script, which
// has run once.
func builtByScript(t *testing.T, script string) (r *Reloader, dir string, said *[]string) {
	t.Helper()
	dir = builtProject(t, "sh, build.sh")
	writeProjectFile(t, dir, "guest/build.sh", script)
	p, err := openBuilt(t, dir, true)
	if err != nil {
		t.Fatal(err)
	}
	said = new([]string)
	r = NewReloader(p, func(format string, args ...any) { *said = append(*said, fmt.Sprintf(format, args...)) })
	r.Watch()
	return r, dir, said
}

// Each script saves the source while it runs, once: after it has read it, and where it fails.
func TestWhatIsSavedDuringABuildIsBuilt(t *testing.T) {
	const save = "if [ -e ../next ]; then mv ../next source; "
	for name, script := range map[string]string{
		"one that succeeds": "cp source guest.wasm; " + save + "fi",
		"one that fails":    save + "exit 1; fi; cp source guest.wasm",
	} {
		t.Run(name, func(t *testing.T) {
			r, dir, said := builtByScript(t, script)
			second := append(testguest.Modules()["echo"], "\x00\x0b\x04notesecond"...)
			writeProjectFile(t, dir, "next", string(second))
			writeProjectFile(t, dir, "guest/notes", "a save that is built")
			r.Refresh(t.Context())
			if len(*said) != 3 || (*said)[2] != "guest: version 2 serves" {
				t.Errorf("it says %q, want two builds and the second version", *said)
			}
			if module, err := os.ReadFile(filepath.Join(dir, "guest", "guest.wasm")); err != nil || string(module) != string(second) {
				t.Errorf("the module is not of what was saved: %v", err)
			}
			*said = nil
			if r.Refresh(t.Context()); len(*said) > 0 {
				t.Errorf("what was built is taken for a change: %q", *said)
			}
		})
	}
}

func TestABuildThatWritesItsSourceEnds(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		builds int
	}{
		"the same each time":      {"cp source guest.wasm; cp source copy", 2},
		"something new each time": {"cp source guest.wasm; echo >> copy", maxBuilds + 1}, // and what it says of it
	} {
		t.Run(name, func(t *testing.T) {
			r, dir, said := builtByScript(t, c.script)
			writeProjectFile(t, dir, "guest/notes", "a save that is built")
			if r.Refresh(t.Context()); len(*said) != c.builds {
				t.Errorf("it says %q, want %d lines", *said, c.builds)
			}
			*said = nil
			if r.Refresh(t.Context()); len(*said) > 0 {
				t.Errorf("what the command writes is taken for a change: %q", *said)
			}
		})
	}
}

func TestWhatAFailedBuildHasWrittenIsBuiltAgain(t *testing.T) {
	dir := builtProject(t, "sh, build.sh")
	writeProjectFile(t, dir, "guest/build.sh", "echo half > guest.wasm; if [ -e ../broken ]; then exit 1; fi; cp source guest.wasm")
	writeProjectFile(t, dir, "broken", "")
	if _, err := openBuilt(t, dir, true); host.CodeOf(err) != host.InvalidArgument {
		t.Fatalf("a build that fails: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "broken")); err != nil {
		t.Fatal(err)
	}
	if _, err := openBuilt(t, dir, true); err != nil {
		t.Errorf("after the fault is gone: %v", err)
	}
}

func TestAModuleIsBuiltWhereItIsOlderThanItsSource(t *testing.T) {
	dir := builtProject(t, copySource)
	module := filepath.Join(dir, "guest", "guest.wasm")
	if _, err := openBuilt(t, dir, true); err != nil {
		t.Fatal(err)
	}
	first := time.Now().Add(-time.Hour)
	if err := os.Chtimes(module, first, first); err != nil {
		t.Fatal(err)
	}
	if _, err := openBuilt(t, dir, true); err != nil {
		t.Fatal(err)
	}
	built, err := os.Stat(module)
	if err != nil || !built.ModTime().After(first) {
		t.Errorf("the module is of %v, %v; want one that was built again", built.ModTime(), err)
	}
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(module, later, later); err != nil {
		t.Fatal(err)
	}
	if _, err := openBuilt(t, dir, true); err != nil {
		t.Fatal(err)
	}
	if kept, err := os.Stat(module); err != nil || !kept.ModTime().Equal(later) {
		t.Errorf("a module that is younger than its source was built again: %v", err)
	}
}

// A program that embeds a project does not run what a configuration names.
func TestCommandsRunOnlyWhereTheProgramAllowsThem(t *testing.T) {
	dir := builtProject(t, copySource)
	_, err := openBuilt(t, dir, false)
	if host.CodeOf(err) != host.FailedPrecondition || !strings.Contains(err.Error(), "runs no commands of configurations") {
		t.Errorf("without the option: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "guest", "guest.wasm")); err == nil {
		t.Error("the command was run")
	}
	writeProjectFile(t, dir, "guest/guest.wasm", string(testguest.Modules()["echo"]))
	if _, err := openBuilt(t, dir, false); err != nil {
		t.Errorf("a module that is there is not read: %v", err)
	}
}

func TestBuildsThatFailSayWhy(t *testing.T) {
	for name, c := range map[string]struct {
		run, want, hint string
		code            host.Code
	}{
		"no such program": {"no-such-compiler, x", "no-such-compiler", "install no-such-compiler", host.FailedPrecondition},
		"fails":           {"sh, -c, 'echo line 3: no >&2; exit 2'", "line 3: no", "fix what the command says", host.InvalidArgument},
		"makes nothing":   {"'true'", "has not made", "name in path what the command makes", host.InvalidArgument},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := openBuilt(t, builtProject(t, c.run), true)
			if err == nil || host.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.want) || !strings.Contains(fault.AsError(err).Hint, c.hint) {
				t.Errorf("got %v, want code %s with %q and the hint %q", err, c.code, c.want, c.hint)
			}
		})
	}
	for name, c := range map[string]struct{ plugin, want string }{
		"without a command":       {"{path: guest/guest.wasm, build: {in: guest}}", "has no build command"},
		"with a variable's value": {"{path: guest/guest.wasm, build: {run: [make], env: ['TOKEN=x']}}", "not a list of names"},
		"of no module":            {"{path: guest, build: {run: [make], in: guest}}", "is no module"},
		"of the whole project":    {"{path: guest.wasm, build: {run: [make]}}", "would be the whole project"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			writeProjectFile(t, dir, "agenthost.yaml", "version: 1\nagents: {a: {}}\nplugins: {guest: "+c.plugin+"}\n")
			if _, err := openBuilt(t, dir, true); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

func TestABuildSeesNoSecretsOfTheHost(t *testing.T) {
	for name, value := range map[string]string{
		"OPENAI_API_KEY": "secret", "AGENTHOST_SECRET_TOKEN": "secret", "CARGO_REGISTRY_TOKEN": "secret", "npm_config__auth": "secret", "CARGO_OF_THE_MODEL": "secret",
		"CARGO_TARGET_DIR": "target", "GOPROXY": "off", "FOR_THE_BUILD": "named",
	} {
		t.Setenv(name, value)
	}
	dir := builtProject(t, "sh, -c, 'env > ../seen; cp source guest.wasm'")
	text, err := os.ReadFile(filepath.Join(dir, "agenthost.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	named := strings.Replace(string(text), "build: {", "build: {env: [FOR_THE_BUILD], ", 1)
	named = strings.Replace(named, "models: {", "models: {other: {provider: openai, name: gpt, key_env: CARGO_OF_THE_MODEL}, ", 1)
	writeProjectFile(t, dir, "agenthost.yaml", named)
	_, openErr := openBuilt(t, dir, true) // a model may be refused for its key; the plugin is built before
	seen, err := os.ReadFile(filepath.Join(dir, "seen"))
	if err != nil {
		t.Fatal(err, openErr)
	}
	if strings.Contains(string(seen), "secret") {
		t.Errorf("a build sees a secret:\n%s", seen)
	}
	for _, want := range []string{"PATH=", "CARGO_TARGET_DIR=target", "GOPROXY=off", "FOR_THE_BUILD=named"} {
		if !strings.Contains("\n"+string(seen), "\n"+want) {
			t.Errorf("a build does not see %s", want)
		}
	}
}
