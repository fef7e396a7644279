package egress_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/host/egress"
	"github.com/agenthost/agenthost/host/fault"
)

const key = `sk-4"f9/a+b&<c>=`

func TestSecretsDoNotPrint(t *testing.T) {
	s := egress.NewSecret(key)
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "s", s, "p", &s, "in", struct{ S egress.Secret }{s})
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "s", s, "in", map[string]any{"s": s, "l": []egress.Secret{s}})
	raw, err := json.Marshal(map[string]any{"s": s, "p": &s, "l": []egress.Secret{s}})
	if err != nil {
		t.Fatal(err)
	}
	out := log.String() + string(raw) + s.String()
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T %[1]v", "%20.3s", "%p"} {
		for _, v := range []any{s, &s, struct{ S egress.Secret }{s}, []egress.Secret{s}, map[string]egress.Secret{"k": s}} {
			out += fmt.Sprintf(verb, v)
		}
	}
	if strings.Contains(out, "sk-4") || strings.Contains(strings.ToLower(out), hex.EncodeToString([]byte("sk-4"))) {
		t.Errorf("the secret is in %s", out)
	}
	if s.Reveal() != key || (egress.Secret{}).Reveal() != "" {
		t.Errorf("Reveal = %q", s.Reveal())
	}
}

// echoing starts a server that says what it was sent, and a client with the
// secret KEY.
func echoing(t *testing.T, handler http.HandlerFunc) (*egress.Client, *egress.Policy, int) {
	t.Helper()
	port := serve(t, handler)
	c := newClient(t, &egress.Options{Resolver: dns(threeHosts), Secrets: egress.StaticSecrets{
		"KEY": egress.NewSecret(key), "LINES": egress.NewSecret("a\r\nX-Injected: 1"), "EMPTY": egress.NewSecret("")}})
	p := policy(t, egress.Grants{HTTP: localRules(port, "a.test", "b.test"), Secrets: []egress.SecretRule{
		{Name: "KEY", Hosts: []string{"http://a.test"}}, {Name: "LINES", Hosts: []string{"http://a.test"}},
		{Name: "EMPTY", Hosts: []string{"http://a.test"}}, {Name: "MISSING", Hosts: []string{"http://a.test"}}}})
	return c, p, port
}

func TestSecretsGoWhereTheyAreBound(t *testing.T) {
	var got http.Header
	c, p, port := echoing(t, func(_ http.ResponseWriter, r *http.Request) { got = r.Header })
	send := func(name, secret string) (*egress.Response, error) {
		got = nil
		return c.Fetch(t.Context(), &egress.Request{Tenant: "acme", Policy: p, URL: at(name, port, "/"),
			Headers: []egress.Header{{Name: "Authorization", Prefix: "Bearer ", Secret: secret}}})
	}
	resp, err := send("a.test", "KEY")
	if err != nil || got.Get("Authorization") != "Bearer "+key || !resp.Secrets {
		t.Fatalf("Fetch = %+v, %v; the server saw %v", resp, err, got)
	}
	for _, row := range []struct {
		name, secret string
		code         fault.Code
		says         string
	}{
		{"b.test", "KEY", fault.PermissionDenied, fmt.Sprintf(`grant secret=KEY@http://b.test:%d`, port)},
		{"a.test", "OTHER", fault.PermissionDenied, `"OTHER"`},
		{"a.test", "MISSING", fault.NotFound, `"MISSING" does not exist`},
		{"a.test", "LINES", fault.FailedPrecondition, "several lines"},
		{"a.test", "EMPTY", fault.FailedPrecondition, "empty"},
	} {
		_, err := send(row.name, row.secret)
		wantError(t, err, row.code, row.says)
		if got != nil {
			t.Errorf("secret %s towards %s: a request was sent", row.secret, row.name)
		}
	}
	for _, h := range []egress.Header{{Name: "X", Value: "v", Secret: "KEY"}, {Name: "X", Prefix: "p"}, {Name: "X", Prefix: "a\r\nb", Secret: "KEY"}} {
		_, err := c.Fetch(t.Context(), &egress.Request{Policy: p, URL: at("a.test", port, "/"), Headers: []egress.Header{h}})
		wantError(t, err, fault.InvalidArgument)
	}
}

// A secret that is bound to a host goes there in the clear only if that is said.
func TestSecretsWantTLS(t *testing.T) {
	c, _, port := echoing(t, func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") })
	for _, bound := range []string{"a.test", "*.sub.test", "https://a.test", fmt.Sprintf("https://a.test:%d", port), "http://a.test:1", "http://b.test"} {
		p := policy(t, egress.Grants{HTTP: localRules(port, "a.test"), Secrets: []egress.SecretRule{{Name: "KEY", Hosts: []string{bound}}}})
		_, err := c.Fetch(t.Context(), &egress.Request{Policy: p, URL: at("a.test", port, "/"), Headers: []egress.Header{{Name: "X", Secret: "KEY"}}})
		wantError(t, err, fault.PermissionDenied, "KEY")
	}
}

func TestSecretsAreTakenOutOfResponses(t *testing.T) {
	spellings := map[string]string{
		"as it is": key, "query": url.QueryEscape(key), "path": url.PathEscape(key), "lower escapes": strings.ToLower("%2F") + url.QueryEscape(key),
		"hex": hex.EncodeToString([]byte(key)), "HEX": strings.ToUpper(hex.EncodeToString([]byte(key))),
		"base64": base64.StdEncoding.EncodeToString([]byte(key)), "base64 of a user and it": base64.StdEncoding.EncodeToString([]byte("user:" + key)),
		"url base64": base64.RawURLEncoding.EncodeToString([]byte("me:" + key + "\n")),
		"html":       `sk-4&#34;f9/a+b&amp;&lt;c&gt;=`,
	}
	for name, spelled := range spellings {
		for _, quoted := range []bool{false, true} {
			text := "before " + spelled + " after"
			if quoted {
				raw, _ := json.Marshal(text)
				text = string(raw)
			}
			c, p, port := echoing(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("X-Echo", text)
				w.Header().Set("Content-Encoding", "gzip")
				z := gzip.NewWriter(w)
				io.WriteString(z, text)
				z.Close()
			})
			resp, err := c.Fetch(t.Context(), &egress.Request{Policy: p, URL: at("a.test", port, "/"), Headers: []egress.Header{{Name: "X", Secret: "KEY"}}})
			if err != nil {
				t.Fatal(err)
			}
			for place, got := range map[string]string{"body": string(resp.Body), "header": header(resp, "x-echo")} {
				if !strings.Contains(got, "[redacted]") || strings.Contains(got, "sk-4") || !strings.Contains(got, "before") {
					t.Errorf("%s (in JSON: %t), %s: %q", name, quoted, place, got)
				}
			}
		}
	}
}

func TestSecretsAreTakenOutOfURLsAndErrors(t *testing.T) {
	c, p, port := echoing(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			http.Redirect(w, r, "/next?k="+url.QueryEscape(r.Header.Get("X")), http.StatusFound)
		case "/out":
			http.Redirect(w, r, "http://"+hex.EncodeToString([]byte(r.Header.Get("X")))+".test/", http.StatusFound)
		}
	})
	get := func(path string) (*egress.Response, error) {
		return c.Fetch(t.Context(), &egress.Request{Policy: p, URL: at("a.test", port, path), Headers: []egress.Header{{Name: "X", Secret: "KEY"}}})
	}
	resp, err := get("/")
	if err != nil || !strings.HasSuffix(resp.URL, "/next?k=[redacted]") {
		t.Errorf("Fetch = %+v, %v", resp, err)
	}
	_, err = get("/out")
	wantError(t, err, fault.PermissionDenied, "http://[redacted].test")
	if s := fmt.Sprintf("%#v %v", err, errors.Unwrap(err)); strings.Contains(s, hex.EncodeToString([]byte(key))) {
		t.Errorf("the error holds the secret: %s", s)
	}
}

// A server can keep what it was sent and hand it out later, to a request that
// holds no secret.
func TestSecretsAreTakenOutOfLaterResponses(t *testing.T) {
	var kept string
	c, p, port := echoing(t, func(w http.ResponseWriter, r *http.Request) {
		if k := r.Header.Get("X-Meta-Keep"); k != "" {
			kept = k
			return
		}
		io.WriteString(w, "kept: "+kept)
	})
	for _, headers := range [][]egress.Header{{{Name: "X-Meta-Keep", Secret: "KEY"}}, nil} {
		resp, err := c.Fetch(t.Context(), &egress.Request{Policy: p, URL: at("a.test", port, "/"), Headers: headers})
		if err != nil || !resp.Secrets || headers == nil && string(resp.Body) != "kept: [redacted]" {
			t.Errorf("Fetch = %+v, %v", resp, err)
		}
	}
	if kept != key {
		t.Errorf("the server kept %q", kept)
	}
}

// What can't be read can't be searched.
func TestSecretsAndUnknownEncodings(t *testing.T) {
	c, p, port := echoing(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", r.URL.Query().Get("e"))
		io.WriteString(w, "?")
	})
	for _, encoding := range []string{"br", "gzip,br", "zstd"} {
		u := at("a.test", port, "/?e=") + encoding
		_, err := c.Fetch(t.Context(), &egress.Request{Policy: p, URL: u, Headers: []egress.Header{{Name: "X", Secret: "KEY"}}})
		wantError(t, err, fault.Unavailable, "encoding")
		if resp, err := c.Fetch(t.Context(), &egress.Request{Policy: local(t, port, "a.test"), URL: u}); err != nil || header(resp, "content-encoding") != encoding {
			t.Errorf("%s without a secret: %+v, %v", encoding, resp, err)
		}
	}
}

// Whatever the secret and what surrounds it, its base64 is found.
func TestRedactorFindsBase64Anywhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.StringMatching(`[!-~]{12,60}`).Draw(t, "secret")
		before, after := rapid.String().Draw(t, "before"), rapid.String().Draw(t, "after")
		r := egress.NewRedactor(egress.NewSecret(secret))
		for _, e := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding} {
			if got := r.RedactString(e.EncodeToString([]byte(before + secret + after))); !strings.Contains(got, "[redacted]") {
				t.Fatalf("not found in %s", got)
			}
		}
		if got := string(r.Redact([]byte(before + secret + after))); strings.Contains(got, secret) {
			t.Fatalf("%q is left in %q", secret, got)
		}
	})
}

func TestRedactorLeavesTheRest(t *testing.T) {
	r := egress.NewRedactor(egress.NewSecret("abc"), egress.NewSecret("long-enough"))
	if got := r.RedactString("abc and abcd"); got != "abc and abcd" {
		t.Errorf("a secret that is too short to search for: %q", got)
	}
	b := []byte("nothing here")
	if got := r.Redact(b); &got[0] != &b[0] {
		t.Error("bytes without a secret are copied")
	}
	if (&egress.Redactor{}).RedactString("x") != "x" || !(&egress.Redactor{}).Empty() {
		t.Error("the zero Redactor is not empty")
	}
}

func TestEnvSecrets(t *testing.T) {
	env := map[string]string{"AGENTHOST_SECRET_API_KEY": "all", "AGENTHOST_SECRET_ACME_INC__API_KEY": "acme's", "OTHER": "x"}
	s := egress.EnvSecrets{Lookup: func(n string) (string, bool) { v, ok := env[n]; return v, ok }}
	for _, row := range []struct{ tenant, name, want string }{
		{"", "api-key", "all"}, {"acme-inc", "API_KEY", "acme's"}, {"globex", "api_key", "all"},
		// Names that would read alike.
		{"acme.inc", "api_key", "all"}, {"acme_inc", "api_key", "all"}, {"Acme-Inc", "api_key", "all"},
	} {
		if got, err := s.Secret(t.Context(), row.tenant, row.name); err != nil || got.Reveal() != row.want {
			t.Errorf("Secret(%q, %q) = %q, %v; want %q", row.tenant, row.name, got.Reveal(), err, row.want)
		}
	}
	for _, name := range []string{"acme-inc__api_key", "ACME_INC__API_KEY", "acme.inc..api.key", "_api_key", "api_key_", "", "../x", "a b"} {
		if got, err := s.Secret(t.Context(), "globex", name); fault.CodeOf(err) != fault.NotFound {
			t.Errorf("Secret of globex called %q = %q, %v; want not_found", name, got.Reveal(), err)
		}
	}
	_, err := s.Secret(t.Context(), "acme", "other")
	wantError(t, err, fault.NotFound, "AGENTHOST_SECRET_OTHER")
	if hint := fault.AsError(err).Hint; hint != "set the environment variable AGENTHOST_SECRET_OTHER, or AGENTHOST_SECRET_ACME__OTHER for this tenant alone" {
		t.Errorf("the hint is %q", hint)
	}
}

func TestFileSecrets(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"KEY": "all\n", "acme/KEY": "acme's\r\n", "outside": "x", ".hidden": "x"} {
		path := filepath.Join(dir, "in", name)
		if name == "outside" {
			path = filepath.Join(dir, name)
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := egress.FileSecrets{FS: os.DirFS(filepath.Join(dir, "in"))}
	for _, row := range []struct{ tenant, want string }{{"", "all"}, {"acme", "acme's"}, {"globex", "all"}} {
		if got, err := s.Secret(t.Context(), row.tenant, "KEY"); err != nil || got.Reveal() != row.want {
			t.Errorf("Secret(%q) = %q, %v; want %q", row.tenant, got.Reveal(), err, row.want)
		}
	}
	for _, row := range [][2]string{{"", "../outside"}, {"..", "outside"}, {"", "acme/KEY"}, {"globex", "acme/KEY"}, {"", ".hidden"}, {"", ""}, {"", "acme"}, {"../in", "KEY"}} {
		if got, err := s.Secret(t.Context(), row[0], row[1]); fault.CodeOf(err) != fault.NotFound {
			t.Errorf("Secret(%q, %q) = %q, %v; want not_found", row[0], row[1], got.Reveal(), err)
		}
	}
}
