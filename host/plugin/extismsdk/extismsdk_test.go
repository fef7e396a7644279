package extismsdk_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/plugin/extismsdk"
	"github.com/agenthost/agenthost/internal/longtest"
	"github.com/agenthost/agenthost/internal/testcode"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func loadProbe(t *testing.T, rt *plugin.Runtime, opts plugin.LoadOptions) *plugin.Plugin {
	t.Helper()
	opts.Engine = extismsdk.Name
	p, err := rt.Load(t.Context(), "probe", testcode.Build(t, "./testdata/guests/probe"), &opts)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func newRuntime(t *testing.T, opts *extismsdk.Options, more plugin.Options) *plugin.Runtime {
	t.Helper()
	more.Limits = plugin.Limits{Timeout: time.Minute, StartTimeout: time.Minute} // a busy machine does not run a call for seconds
	more.Engines = map[string]plugin.NewEngine{extismsdk.Name: extismsdk.New(opts)}
	rt, err := plugin.NewRuntime(context.Background(), &more)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return rt
}

func call(t *testing.T, p *plugin.Plugin, tenant, function, input string) (string, error) {
	t.Helper()
	r, err := p.Call(t.Context(), tenant, function, []byte(input), nil)
	if err == nil && r.GuestError {
		t.Fatalf("%s: %s", function, r.Output)
	}
	return string(r.Output), err
}

func mustCall(t *testing.T, p *plugin.Plugin, tenant, function, input string) string {
	t.Helper()
	out, err := call(t, p, tenant, function, input)
	if err != nil {
		t.Fatalf("%s: %v", function, err)
	}
	return out
}

// One load, for compiling the probe takes seconds, and what each call finds and
// is held to.
func TestEngine(t *testing.T) {
	longtest.Need(t, "compiling the probe takes seconds")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "note.txt"), []byte("remember the milk"), 0o600); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) }))
	defer server.Close()
	defer http.DefaultClient.CloseIdleConnections() // the SDK's
	rt := newRuntime(t, &extismsdk.Options{AllowedPaths: map[string]string{"ro:" + dir: "/notes"}}, plugin.Options{Tenants: map[string]*plugin.Tenant{
		"poor":  {Grants: map[string]plugin.Permissions{"probe": {}}},
		"hasty": {Limits: plugin.Limits{Timeout: 100 * time.Millisecond}},
	}})
	p := loadProbe(t, rt, plugin.LoadOptions{Granted: plugin.Permissions{KV: plugin.Write, HTTP: []plugin.HTTPAccess{{Host: "127.0.0.1"}}},
		Limits: plugin.Limits{OutputBytes: 1 << 16, HostCalls: 1, MemoryBytes: 64 << 20, Timeout: time.Minute}})

	t.Run("keeps a tenant's instance to itself", func(t *testing.T) {
		for _, c := range []struct{ tenant, want string }{{"acme", "1"}, {"acme", "2"}, {"umbrella", "1"}, {"acme", "3"}} {
			if got := mustCall(t, p, c.tenant, "count", ""); got != c.want {
				t.Errorf("count of %s is %s, want %s", c.tenant, got, c.want)
			}
		}
	})
	t.Run("bills what can be measured", func(t *testing.T) {
		r, err := p.Call(t.Context(), "acme", "count", nil, nil)
		if err != nil || r.Cost == nil || r.Cost.DurationUS <= 0 || r.Cost.Instructions != 0 || r.Cost.Plugin != "probe" {
			t.Errorf("cost %+v, error %v", r.Cost, err)
		}
	})
	for _, c := range []struct {
		name, function, input string
		code                  host.Code
		words                 string
	}{
		{"an output that is too large", "repeat", "65537", host.ResourceExhausted, "limit OutputBytes of 65536"},
		{"memory beyond the limit", "grow", "", host.Internal, ""},
		{"a trap", "break_down", "", host.Internal, "break_down"},
		{"a failure without words", "sulk", "", host.Internal, "returned 3 and set no error"},
		{"a host that is not granted", "fetch", "http://localhost:1/", host.Internal, "not allowed"},
	} {
		t.Run("ends with "+c.name, func(t *testing.T) {
			_, err := call(t, p, "acme", c.function, c.input)
			if host.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.words) {
				t.Errorf("error %v (%s), want code %s and %q", err, host.CodeOf(err), c.code, c.words)
			}
			if got := mustCall(t, p, "acme", "count", ""); got != "1" && c.code == host.Internal {
				t.Errorf("the next call counts %s, so the failed instance was used again", got)
			}
		})
	}
	t.Run("ends with the deadline", func(t *testing.T) {
		if _, err := call(t, p, "hasty", "spin", ""); host.CodeOf(err) != host.DeadlineExceeded {
			t.Errorf("a call that never ends: %v (%s)", err, host.CodeOf(err))
		}
	})
	t.Run("runs host operations as in the sandbox", func(t *testing.T) {
		for _, c := range []struct{ input, want string }{
			{`{"op":"kv.get","request":"{\"key\":\"a\"}"}`, `"code":"permission_denied"`},
			{`{"op":"emit","request":"{\"kind\":\"note\",\"data\":1}"}`, `{"ok":{}}`},
			{`{"op":"no.such","request":"{}"}`, `"code":"unimplemented"`},
		} {
			if got := mustCall(t, p, "acme", "operate", c.input); !strings.Contains(got, c.want) {
				t.Errorf("%s: %s, want %s", c.input, got, c.want)
			}
		}
	})
	t.Run("reaches the hosts that are granted for the tenant", func(t *testing.T) {
		if got := mustCall(t, p, "acme", "fetch", server.URL); got != "200 hello" {
			t.Errorf("fetched %q", got)
		}
		if _, err := call(t, p, "poor", "fetch", server.URL); err == nil || !strings.Contains(err.Error(), "not allowed") {
			t.Errorf("a tenant that is granted nothing: %v", err)
		}
	})
	t.Run("has the files that are allowed", func(t *testing.T) {
		if got := mustCall(t, p, "acme", "read", "/notes/note.txt"); got != "remember the milk" {
			t.Errorf("read %q", got)
		}
	})
	t.Run("has no other files", func(t *testing.T) {
		r, err := p.Call(t.Context(), "acme", "read", []byte("/etc/hostname"), nil)
		if err != nil || !r.GuestError || !strings.Contains(string(r.Output), `"internal"`) {
			t.Errorf("%s, %v", r.Output, err)
		}
	})
}

// Idle instances are bounded over all tenants.
func TestManyTenants(t *testing.T) {
	wasm, err := os.ReadFile("../../../examples/extism/c/iban.wasm")
	if err != nil {
		t.Fatal(err)
	}
	rt := newRuntime(t, nil, plugin.Options{})
	p, err := rt.Load(t.Context(), "iban", wasm, &plugin.LoadOptions{Engine: extismsdk.Name})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for n := range 100 {
		wg.Go(func() {
			r, err := p.Call(t.Context(), fmt.Sprint("tenant", n), "iban", []byte("DE89370400440532013000"), nil)
			if err != nil || string(r.Output) != `{"valid":true,"country":"DE"}` {
				t.Errorf("tenant %d: %s, %v", n, r.Output, err)
			}
		})
	}
	wg.Wait()
}

func TestLoadIsRefused(t *testing.T) {
	wasm, err := os.ReadFile("../../../examples/extism/c/iban.wasm")
	if err != nil {
		t.Fatal(err)
	}
	rt := newRuntime(t, nil, plugin.Options{})
	for _, c := range []struct {
		name, engine string
		wasm         []byte
		code         host.Code
		hint         string
	}{
		{"an engine that is not there", "extism", wasm, host.InvalidArgument, "extismsdk"},
		{"what is no module", extismsdk.Name, []byte("{}"), host.InvalidArgument, ""},
		{"a plugin that is not Extism's", extismsdk.Name, []byte("\x00asm\x01\x00\x00\x00"), host.FailedPrecondition, "leave the engine out"},
	} {
		_, err := rt.Load(t.Context(), "x", c.wasm, &plugin.LoadOptions{Engine: c.engine})
		if host.CodeOf(err) != c.code || !strings.Contains(fault.AsError(err).Hint, c.hint) {
			t.Errorf("%s: %v (%s, hint %q)", c.name, err, host.CodeOf(err), fault.AsError(err).Hint)
		}
		if problems := rt.Check(t.Context(), "x", c.wasm, &plugin.LoadOptions{Engine: c.engine}); len(problems) != 1 {
			t.Errorf("%s: Check finds %v", c.name, problems)
		}
	}
	if problems := rt.Check(t.Context(), "x", wasm, &plugin.LoadOptions{Engine: extismsdk.Name}); len(problems) != 0 {
		t.Errorf("Check of a good plugin: %v", problems)
	}
}

// A plugin of the SDK can be replaced while it serves, like any other.
func TestSlot(t *testing.T) {
	wasm, err := os.ReadFile("../../../examples/extism/c/iban.wasm")
	if err != nil {
		t.Fatal(err)
	}
	rt := newRuntime(t, nil, plugin.Options{})
	s, err := rt.NewSlot(t.Context(), "iban", wasm, &plugin.SlotOptions{LoadOptions: plugin.LoadOptions{Engine: extismsdk.Name}})
	if err != nil {
		t.Fatal(err)
	}
	// A custom section with any name changes the digest and nothing else.
	v, err := s.Replace(t.Context(), append(wasm[:len(wasm):len(wasm)], 0, 3, 1, 'x', 0))
	if err != nil || v.Number != 2 || v.Phase != plugin.Serving {
		t.Fatalf("%+v, %v", v, err)
	}
	r, err := s.Current().Call(t.Context(), "acme", "iban", []byte("GB82WEST12345698765432"), nil)
	if err != nil || string(r.Output) != `{"valid":true,"country":"GB"}` {
		t.Errorf("%+v, %v", r, err)
	}
}
