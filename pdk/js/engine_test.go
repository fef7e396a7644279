package js_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/agenthost/agenthost/internal/longtest"
	"github.com/agenthost/agenthost/internal/testnode"
)

func TestTheEngineIsWhatItsSourcesLink(t *testing.T) {
	longtest.Need(t, "the link takes a quarter of a minute")
	dir := testnode.Install(t, "engine", "NOTICE", "build.sh", "engine.wasm", "glue.c", "glue.wasm", "kit.js", "link.mjs", "module.js", ".gitignore", "older/1.wasm")
	out := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "sh", filepath.Join(dir, "build.sh"), out)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build.sh: %v\n%s", err, text)
	}
	for _, name := range []string{"glue.wasm", "engine.wasm"} {
		want, err := os.ReadFile(filepath.Join("engine", name))
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(out, name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what build.sh makes of the sources: run it in pdk/js/engine", name)
		}
	}
}
