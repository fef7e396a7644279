package plugin_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin"
)

const ibanFile = "../../examples/extism/c/iban.wasm"

func TestExtismManifestsBecomeOptions(t *testing.T) {
	wasm := must[[]byte](t)(os.ReadFile(ibanFile))
	raw := fmt.Sprintf(`{"wasm":[{"path":"iban.wasm","hash":"%X","name":"iban"}],
		"memory":{"max_pages":32,"max_http_response_bytes":4096,"max_var_bytes":0},
		"config":{"k":"v"},"allowed_hosts":["api.example.com","*.example.org","*"],"timeout_ms":25000}`, sha256.Sum256(wasm))
	m, err := plugin.ReadExtismManifest([]byte(raw), filepath.Dir(ibanFile), 0)
	if err != nil {
		t.Fatal(err)
	}
	want := &plugin.ExtismManifest{Wasm: wasm, Name: "iban", Options: plugin.LoadOptions{
		Limits: plugin.Limits{MemoryBytes: 2 << 20, BlockBytes: 2 << 20, VarBytes: 1, Timeout: 25 * time.Second},
		Granted: plugin.Permissions{HTTP: []plugin.HTTPAccess{
			{Scheme: "https", Host: "api.example.com"}, {Scheme: "https", Host: "*.example.org"}, {Scheme: "https", Host: "*"}}},
		Extism: plugin.ExtismOptions{Config: map[string]string{"k": "v"}, HTTPBytes: 4096},
	}}
	if diff := cmp.Diff(want, m); diff != "" {
		t.Error(diff)
	}
	p := load(t, newRuntime(t, nil), "iban", m.Wasm, &m.Options)
	if r, err := p.Call(t.Context(), "acme", "iban", []byte("DE89370400440532013000"), nil); err != nil || string(r.Output) != `{"valid":true,"country":"DE"}` {
		t.Errorf("call: %s, %v", r.Output, err)
	}

	inline := fmt.Sprintf(`{"wasm":[{"data":%q}],"memory":{"max_http_response_bytes":0},"allowed_hosts":["api.example.com"]}`, base64.StdEncoding.EncodeToString(wasm))
	if m, err = plugin.ReadExtismManifest([]byte(inline), "nowhere", 0); err != nil || string(m.Wasm) != string(wasm) || len(m.Options.Granted.HTTP) > 0 {
		t.Errorf("a module in the manifest: %v", err)
	}
}

func TestExtismManifestsAreReadStrictly(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "x.wasm"), []byte("\x00asm\x01\x00\x00\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/zero", filepath.Join(dir, "zero.wasm")); err != nil {
		t.Fatal(err)
	}
	with := func(more string) string { return `{"wasm":[{"path":"x.wasm"}],` + more + `}` }
	for _, c := range []struct {
		raw  string
		want host.Code
		says string
	}{
		{``, host.InvalidArgument, "EOF"},
		{`{"wasm":[]}`, host.InvalidArgument, "names no module"},
		{`{"wasm":[{"path":"x.wasm"}]} {}`, host.InvalidArgument, "follows"},
		{with(`"wasmer":1`), host.InvalidArgument, `unknown field "wasmer"`},
		{with(`"memory":{"pages":1}`), host.InvalidArgument, `unknown field "pages"`},
		{with(`"config":{"a":1}`), host.InvalidArgument, "config"},
		{with(`"timeout_ms":-1`), host.InvalidArgument, "timeout_ms is -1"},
		{with(`"timeout_ms":9223372036854775807`), host.InvalidArgument, "timeout_ms"},
		{with(`"memory":{"max_pages":65537}`), host.InvalidArgument, "max_pages"},
		{with(`"memory":{"max_var_bytes":-1}`), host.InvalidArgument, "max_var_bytes"},
		{with(`"allowed_paths":{"/etc":"/etc"}`), host.FailedPrecondition, "allows paths"},
		{with(`"allowed_hosts":["https://example.com"]`), host.FailedPrecondition, "allows the hosts"},
		{with(`"allowed_hosts":["ex*mple.com"]`), host.FailedPrecondition, "allows the hosts"},
		{with(`"allowed_hosts":[""]`), host.FailedPrecondition, "allows the hosts"},
		{with(`"config":{"a":"` + strings.Repeat("x", 1<<20) + `"}`), host.InvalidArgument, "more than"},
		{`{"wasm":[{"path":"x.wasm"},{"path":"x.wasm","name":"main"}]}`, host.FailedPrecondition, "links 2 modules"},
		{`{"wasm":[{"url":"https://example.com/x.wasm"}]}`, host.FailedPrecondition, "fetches no code"},
		{`{"wasm":[{}]}`, host.InvalidArgument, "neither data nor a path"},
		{`{"wasm":[{"path":"x.wasm","data":"AA=="}]}`, host.InvalidArgument, "both"},
		{`{"wasm":[{"data":"AGFzbQEAAAA=","hash":"00"}]}`, host.InvalidArgument, "SHA-256"},
		{`{"wasm":[{"path":"y.wasm"}]}`, host.InvalidArgument, "cannot be read"},
		{`{"wasm":[{"path":"../x.wasm"}]}`, host.InvalidArgument, "cannot be read"},
		{`{"wasm":[{"path":"/etc/passwd"}]}`, host.InvalidArgument, "cannot be read"},
		{`{"wasm":[{"path":"zero.wasm"}]}`, host.InvalidArgument, "cannot be read"},
		{`{"wasm":[{"path":"."}]}`, host.InvalidArgument, "not a file"},
	} {
		_, err := plugin.ReadExtismManifest([]byte(c.raw), dir, 0)
		if host.CodeOf(err) != c.want || !strings.Contains(fmt.Sprint(err), c.says) {
			t.Errorf("%.80s: %v, want %s and %q", c.raw, err, c.want, c.says)
		}
	}
	if _, err := plugin.ReadExtismManifest([]byte(with(`"config":{}`)), dir, 4); !strings.Contains(fmt.Sprint(err), "ModuleBytes of 4") {
		t.Errorf("a module that is too large: %v", err)
	}
}

// Whatever is read is within what a runtime takes.
func FuzzExtismManifest(f *testing.F) {
	for _, s := range []string{`{}`, `{"wasm":[{"data":"AGFzbQEAAAA="}],"memory":{"max_pages":1},"allowed_hosts":["*"],"timeout_ms":1}`,
		`{"wasm":[{"data":"AA=="}],"config":{"a":"b"},"memory":{"max_var_bytes":0,"max_http_response_bytes":1}}`} {
		f.Add([]byte(s))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := plugin.ReadExtismManifest(raw, dir, 1<<16)
		if err != nil {
			if code := host.CodeOf(err); code != host.InvalidArgument && code != host.FailedPrecondition {
				t.Errorf("%v", err)
			}
			return
		}
		o := m.Options
		if len(m.Wasm) == 0 || len(m.Wasm) > 1<<16 || o.Limits.Timeout < 0 || o.Limits.MemoryBytes < 0 || o.Limits.BlockBytes < 0 {
			t.Errorf("%q is read as %+v", raw, o)
		}
		for _, h := range o.Granted.HTTP {
			if h.Scheme != "https" || h.Host == "" || strings.ContainsAny(h.Host, "/: ") {
				t.Errorf("%q grants %+v", raw, h)
			}
		}
		if !json.Valid(raw) {
			t.Errorf("%q is not JSON, and is read", raw)
		}
	})
}
