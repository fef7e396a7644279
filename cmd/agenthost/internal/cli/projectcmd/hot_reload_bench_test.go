package projectcmd

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/project"
)

// reloadConfig is a project with one plugin, whose model calls the plugin's tool, and then
// says what the tool did.
const reloadConfig = `version: 1
models:
  script: {provider: scripted, rules: rules.yaml}
agents:
  counter: {model: script, tools: [weather]}
plugins:
  weather: {%s}
`

const reloadRules = `rules:
- match: {after: count_words}
  reply: {text: done}
- match: {}
  reply: {calls: [{name: count_words, arguments: {text: " "}}]}
`

// BenchmarkHotReload measures the time from the saving of a plugin's source, of the template
// for tools of each language, to the first answer of the new version, in a project whose files
// are watched as by agenthost serve. Compilers have run before, as during work.
func BenchmarkHotReload(b *testing.B) {
	for _, lang := range pluginLanguages() {
		b.Run(lang.name, func(b *testing.B) { benchmarkReload(b, lang) })
	}
}

func benchmarkReload(b *testing.B, lang pluginLanguage) {
	dir := b.TempDir()
	files, err := lang.files(filepath.Join(dir, "plugins", "weather"), "weather", pluginKinds()[0])
	if err != nil {
		b.Fatal(err)
	}
	source := ""
	for name, text := range files {
		path := filepath.Join(dir, "plugins", "weather", name)
		if err := writeNew(path, text); err != nil {
			b.Fatal(err)
		}
		if bytes.Contains(text, []byte("Ask for one.")) && !strings.HasSuffix(name, "_test.go") {
			source = path
		}
	}
	setCompilers(b)
	entry := strings.ReplaceAll(lang.entry("plugins/weather", "weather"), "path: .", "path: ./")
	for name, text := range map[string]string{project.FileName: fmt.Sprintf(reloadConfig, entry), "rules.yaml": reloadRules} {
		if err := writeNew(filepath.Join(dir, name), []byte(text)); err != nil {
			b.Fatal(err)
		}
	}
	p, err := project.Load(b.Context(), dir, &project.Options{Replaceable: true, Modules: project.NewModules(&project.ModulesOptions{Commands: true})})
	if host.CodeOf(err) == host.FailedPrecondition {
		b.Skipf("run .ci/toolchains.sh: %v", err)
	}
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	var last atomic.Value // what the reloader has said last
	r := project.NewReloader(p, func(format string, args ...any) { last.Store(fmt.Sprintf(format, args...)) })
	r.Watch()
	stop := r.Poll(b.Context())
	defer stop()
	text, err := os.ReadFile(source)
	if err != nil {
		b.Fatal(err)
	}
	n := 0
	for b.Loop() {
		n++
		answer := fmt.Sprintf("Ask for %d.", n)
		if err := os.WriteFile(source, bytes.ReplaceAll(text, []byte("Ask for one."), []byte(answer)), 0o600); err != nil {
			b.Fatal(err)
		}
		for began := time.Now(); ; time.Sleep(time.Millisecond) {
			result, err := p.Run(b.Context(), &host.Request{Text: "count"})
			if err != nil {
				b.Fatal(err)
			}
			said := toolSaid(result)
			if strings.Contains(said, answer) {
				break
			}
			if time.Since(began) > time.Minute {
				b.Fatalf("version %d does not serve, the tool says %q: %v", n, said, last.Load())
			}
		}
	}
}

// toolSaid returns the texts of a run's tool results.
func toolSaid(result *host.RunResult) (text string) {
	for _, r := range result.Results {
		for _, m := range r.Messages {
			for _, t := range m.ToolResults() {
				text += t.ContentText()
			}
		}
	}
	return text
}

// setCompilers has the kits' build scripts find the compilers that .ci/toolchains.sh installs.
func setCompilers(b *testing.B) {
	for variable, program := range installedCompilers() {
		b.Setenv(variable, program)
	}
}
