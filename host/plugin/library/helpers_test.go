package library_test

// Scenario: tests share hosts of one store, modules with digests of their choice, and plans.

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/plugin/library"
	"github.com/agenthost/agenthost/host/plugin/pluginkv"
	"github.com/agenthost/agenthost/internal/testcode"
	"github.com/agenthost/agenthost/internal/testguest"
)

// hostOf is a library with its runtime.
type hostOf struct {
	*library.Library
	rt *plugin.Runtime
}

// newHost opens a library on a store, with a runtime of its own.
func newHost(t testing.TB, d kv.Driver, opts *library.Options) *hostOf {
	t.Helper()
	rt, err := plugin.NewRuntime(t.Context(), &plugin.Options{CacheDir: testcode.Dir(), Store: pluginkv.New(kv.NewMemory(), nil),
		Limits: plugin.Limits{Timeout: time.Minute, StartTimeout: time.Minute}}) // a busy machine does not run a call for seconds
	if err != nil {
		t.Fatal(err)
	}
	l, err := library.Open(t.Context(), d, rt, opts)
	if err != nil {
		t.Fatal(err)
	}
	h := &hostOf{l, rt}
	t.Cleanup(func() { h.stop(t) })
	return h
}

func (h *hostOf) stop(t testing.TB) {
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	if err := h.rt.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

func guest(name string) []byte { return testguest.Modules()[name] }

// marked is a guest whose digest, but nothing else, is another for each mark.
func marked(name, mark string) []byte {
	return testguest.Section(slices.Clone(guest(name)), 0, append(testguest.String("mark"), mark...))
}

func upload(t testing.TB, h *hostOf, tenant, id string, wasm []byte) string {
	t.Helper()
	v, err := h.Upload(t.Context(), tenant, id, bytes.NewReader(wasm))
	if err != nil {
		t.Fatalf("Upload(%q, %q): %v", tenant, id, err)
	}
	return v.Digest
}

func activate(t testing.TB, h *hostOf, tenant, id, digest string) {
	t.Helper()
	if _, err := h.Activate(t.Context(), tenant, id, digest); err != nil {
		t.Fatalf("Activate(%q, %q): %v", tenant, id, err)
	}
}

// serving returns the digest that a host calls for a tenant; "" if none serves.
func serving(h *hostOf, tenant, id string) string {
	if s, err := h.Lookup(tenant, id); err == nil {
		if p := s.Current(); p != nil {
			return p.Digest()
		}
	}
	return ""
}

// call calls the tool of a plugin.
func call(t testing.TB, h *hostOf, tenant, id string) (string, error) {
	t.Helper()
	s, err := h.Lookup(tenant, id)
	if err != nil {
		return "", err
	}
	r, err := s.Call(t.Context(), tenant, "tool", []byte(`{"tool":"t","input":{}}`), nil)
	return string(r.Output), err
}

func wantCode(t testing.TB, doing string, err error, code fault.Code, texts ...string) {
	t.Helper()
	if got := fault.CodeOf(err); err == nil || got != code {
		t.Errorf("%s: %v (code %q), want code %q", doing, err, got, code)
		return
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v; it does not say %q", doing, err, text)
		}
	}
}

// soon waits until ok, which is promised within a second.
func soon(t testing.TB, what string, ok func() bool) {
	t.Helper()
	begun := time.Now()
	for !ok() {
		if time.Since(begun) > time.Minute { // longer than the promise, for machines that are slow
			t.Fatalf("%s: not after %s", what, time.Since(begun))
		}
		time.Sleep(2 * time.Millisecond)
	}
	t.Logf("%s after %s", what, time.Since(begun).Round(time.Millisecond))
}

// entries counts everything that a store has of the library.
func entries(t testing.TB, d kv.Driver) (keys []string) {
	t.Helper()
	for e, err := range kv.All(t.Context(), d, "agenthost/plugins", kv.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, e.Key.String())
	}
	return keys
}

// plans are the grants of tenants by "tenant/id"; a tenant that is not there has a plan that
// names no plugins.
type plans map[string]map[string]plugin.Permissions

func (p plans) PluginGrants(tenant, id string) (*plugin.Permissions, bool) {
	named, limited := p[tenant]
	if !limited {
		return nil, true
	}
	granted, has := named[id]
	return &granted, has
}
