package plugin_test

// Scenario: the tests' Go guests are built from source.

import (
	"cmp"
	"context"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/internal/testcode"
)

// buildGuest builds a Go guest of this module, given its directory below the
// module's root.
func buildGuest(t testing.TB, dir string) []byte {
	t.Helper()
	return testcode.Build(t, "../../"+dir)
}

// newRuntime returns a runtime that is closed with the test, with the tests' cache.
func newRuntime(t testing.TB, opts *plugin.Options) *plugin.Runtime {
	t.Helper()
	cached := plugin.Options{}
	if opts != nil {
		cached = *opts
	}
	if cached.CacheDir == "" && cached.Compiler == nil {
		cached.CacheDir = testcode.Dir()
	}
	if cached.Store == nil {
		cached.Store = newStore()
	}
	const unhurried = time.Minute // a busy machine does not run a call for seconds
	cached.Limits.Timeout = cmp.Or(cached.Limits.Timeout, unhurried)
	cached.Limits.StartTimeout = cmp.Or(cached.Limits.StartTimeout, unhurried)
	rt, err := plugin.NewRuntime(context.Background(), &cached)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Close(context.Background()); err != nil {
			t.Errorf("close runtime: %v", err)
		}
	})
	return rt
}

func load(t testing.TB, rt *plugin.Runtime, id string, wasm []byte, opts *plugin.LoadOptions) *plugin.Plugin {
	t.Helper()
	p, err := rt.Load(context.Background(), id, wasm, opts)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
