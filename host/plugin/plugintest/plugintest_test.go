package plugintest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/plugins/tokenlimiter"
	"github.com/agenthost/agenthost/plugins/toolcallfilter"
)

func TestShippedPlugins(t *testing.T) {
	t.Run("toolcallfilter", func(t *testing.T) { TestGuest(t, toolcallfilter.Wasm, nil) })
	t.Run("tokenlimiter", func(t *testing.T) {
		TestGuest(t, tokenlimiter.Wasm, &Options{Calls: []Call{
			{"process", `{"processor":"tokenlimiter","config":100,` + scope + `,"model":"m",` + outline + `}`},
			{"process", `{"processor":"tokenlimiter","config":0,` + scope + `,"model":"m",` + outline + `}`},
		}})
	})
}

// The kit finds what is wrong with a guest that is wrong on purpose.
func TestBrokenGuest(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("needs the go command to build a guest")
	}
	file := filepath.Join(t.TempDir(), "broken.wasm")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-buildmode=c-shared", "-o", file, "../testdata/guests/broken")
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the guest: %v\n%s", err, out)
	}
	wasm, err := plugin.ReadModule(file, plugin.DefaultModuleBytes)
	if err != nil {
		t.Fatal(err)
	}
	g, err := newGuest(t.Context(), wasm, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer g.close()
	var broken []string
	for _, r := range rules {
		if problems := r.check(g); len(problems) > 0 {
			broken = append(broken, r.name)
			t.Logf("%s: %v", r.name, problems[0])
		}
	}
	want := []string{"bad input is answered with an error", "unknown fields are passed over",
		"a kept instance answers like a fresh one", "memory does not grow with calls"}
	if !slices.Equal(broken, want) {
		t.Errorf("the guest breaks the rules %q, want %q", broken, want)
	}
}
