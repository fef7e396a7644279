package conformance

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/internal/testcode"
	"github.com/agenthost/agenthost/pdk/js"
)

// Scenario: every kit writes attributes behind the text of a line in its log alike.

func TestEveryKitWritesAttributesOfLogsAlike(t *testing.T) {
	const want = `late order=1042 who=Ann note="say \"hi\"" empty="" eq="a=b" path="a\\b" paid=true days=2.5`
	for language, build := range guests {
		t.Run(language, func(t *testing.T) {
			var lines []plugin.LogLine
			runtime, err := plugin.NewRuntime(t.Context(), &plugin.Options{CacheDir: testcode.Dir(), Interpreters: js.Engines(),
				Limits: plugin.Limits{Timeout: time.Minute, StartTimeout: time.Minute}, // on a busy machine
				Log:    func(l plugin.LogLine) { lines = append(lines, l) }})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = runtime.Close(t.Context()) })
			p, err := runtime.Load(t.Context(), "conformance", build(t), &plugin.LoadOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := p.Call(t.Context(), "acme", "tool", []byte(`{"tool":"log","arguments":{}}`), nil); err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(lines, func(l plugin.LogLine) bool { return l.Level == slog.LevelWarn && l.Text == want }) {
				t.Errorf("the log has %+v, want a warning %s", lines, want)
			}
		})
	}
}
