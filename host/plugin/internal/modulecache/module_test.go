package modulecache

import (
	"bytes"
	"crypto/sha256"
	"os"
	"path/filepath"
	"testing"

	"github.com/agenthost/agenthost/host/plugin/internal/wasmmeter"
	"github.com/agenthost/agenthost/host/plugin/internal/wasmtest"
)

func TestModuleIsWhatWasAdded(t *testing.T) {
	c := open(t, t.TempDir(), 0)
	limits := &wasmmeter.Limits{}
	wasm := wasmtest.Assemble(t, "memory 1\nexport memory memory 0\nfunc $f f -> i32\n i32.const 7")
	want, err := wasmmeter.Prepare(wasm, limits)
	if err != nil {
		t.Fatal(err)
	}
	var received [][sha256.Size]byte
	find := func(l *wasmmeter.Limits) *wasmmeter.Metered {
		received = nil
		return c.Module(want.Module, l, func(sum [sha256.Size]byte) { received = append(received, sum) })
	}
	if got := find(limits); got != nil || received != nil {
		t.Errorf("an empty cache has %+v, after %d calls of ahead", got, len(received))
	}
	if err := c.AddModule(want, limits); err != nil {
		t.Fatal(err)
	}
	got := find(limits)
	if got == nil || !bytes.Equal(got.Wasm, want.Wasm) || got.Key != want.Key || got.Restorable != want.Restorable || got.Module != want.Module {
		t.Errorf("Module = %+v, want the one that was added", got)
	}
	if len(received) != 1 || received[0] != want.Key {
		t.Errorf("ahead has received %x, want %x", received, want.Key)
	}
	if find(&wasmmeter.Limits{CallDepth: 50}) != nil {
		t.Error("with another limit there is a module")
	}
	files, _ := filepath.Glob(filepath.Join(c.dir, "*", moduleDir, "*.wasm"))
	if len(files) != 1 {
		t.Fatalf("there are %d files of modules, want 1", len(files))
	}
	if err := os.Truncate(files[0], 10); err != nil {
		t.Fatal(err)
	}
	if find(limits) != nil {
		t.Error("a damaged module is taken")
	}
	if find(limits) != nil || received != nil {
		t.Error("the entry of a damaged module is not removed")
	}
}
