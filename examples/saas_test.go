package examples_test

// Scenario: the service of examples/saas, as its own process, with two customers in their
// browsers.

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/agenthost/agenthost/internal/testcode"
)

const (
	ofACustomer   = 6 // calls of models in an hour
	password      = "correct horse battery"
	wrongPassword = "correct horse staple?"
)

// TestAServiceWithCustomers: they log in, stream and resume, have plugins and budgets of
// their own, and read their usage; after a restart one is deleted, with a proof.
func TestAServiceWithCustomers(t *testing.T) {
	program := filepath.Join(t.TempDir(), "saas")
	if out, err := exec.Command("go", "build", "-trimpath", "-ldflags=-w", "-o", program, "./saas").CombinedOutput(); err != nil {
		t.Fatalf("build the service: %v: %s", err, out)
	}
	t.Setenv("AGENTHOST_CACHE", testcode.Project(t))
	data := t.TempDir()
	base, stop := startService(t, program, data)
	acme, globex := newBrowser(t, base), newBrowser(t, base)

	acme.do("GET", "/v1/me", "", 401)
	acme.post("/signup", "acme", "ada@acme.example", password, 200)
	globex.post("/signup", "globex", "bob@globex.example", password, 200)
	globex.post("/signup", "acme", "bob@globex.example", password, 409)
	globex.post("/signup", "no name", "bob@globex.example", password, 400)
	globex.post("/login", "acme", "ada@acme.example", wrongPassword, 401)
	globex.post("/login", "acme", "bob@globex.example", password, 401)
	globex.post("/login", "agenthost/keys", "bob@globex.example", password, 401)
	for _, b := range []*browser{acme, globex} {
		if _, page := b.do("GET", "/", "", 200); !strings.Contains(page, "app.js") {
			t.Errorf("the first page is %s", page)
		}
	}

	// The stream of a run, whole, and again behind its first event: by its customer alone.
	resp, whole := acme.do("POST", "/v1/runs", `{"text":"check the IBAN DE89 3704 0044 0532 0130 00","thread":"t1"}`, 200, "Accept", "text/event-stream")
	run := resp.Header.Get("Location")
	_, rest := acme.do("GET", run+"/events", "", 200, "Last-Event-ID", "0")
	if !strings.HasPrefix(whole, "id: 0\n") || !strings.Contains(whole, "have no tool for that") || !strings.HasSuffix(whole, rest) || !strings.HasPrefix(rest, "id: 1\n") {
		t.Errorf("the stream is %s and, resumed, %s", whole, rest)
	}
	globex.do("GET", run+"/events", "", 404)
	acme.do("POST", "/v1/runs", `{"text":"hello"}`, 403, "Sec-Fetch-Site", "cross-site")

	// A plugin of one customer.
	module, err := os.ReadFile("extism/c/iban.wasm")
	if err != nil {
		t.Fatal(err)
	}
	var version struct{ Digest string }
	_, raw := acme.do("POST", "/v1/plugins/iban/versions", string(module), 201, "Content-Type", "application/wasm")
	if err := json.Unmarshal([]byte(raw), &version); err != nil {
		t.Fatal(err)
	}
	acme.do("POST", "/v1/plugins/iban/versions/"+version.Digest+"/activate", "", 200)
	globex.do("GET", "/v1/plugins/iban", "", 404)
	usesPlugin := func(b *browser) bool {
		_, answer := b.do("POST", "/v1/runs", `{"text":"check the IBAN DE89 3704 0044 0532 0130 00","thread":"t1"}`, 200)
		return strings.Contains(answer, `Your plugin says: {\"valid\":true,\"country\":\"DE\"}`)
	}
	if !usesPlugin(acme) || usesPlugin(globex) {
		t.Error("the plugin is not its owner's alone")
	}

	// The budget of the other one, and the page with what was used.
	for range ofACustomer - 1 {
		globex.do("POST", "/v1/runs", `{"text":"hello"}`, 200)
	}
	if resp, _ := globex.do("POST", "/v1/runs", `{"text":"hello"}`, 429); resp.Header.Get("Retry-After") == "" {
		t.Error("the refusal does not say when to come back")
	}
	acme.usage("2 runs, 3 calls of models, 1 calls of tools")
	globex.usage("6 runs, 6 calls of models, 0 calls of tools")
	newBrowser(t, base).do("GET", "/usage", "", 401)

	// Accounts, sessions, plugins and usage outlive the process.
	stop()
	acme.base, stop = startService(t, program, data)
	globex.base = acme.base
	acme.usage("2 runs")
	if !usesPlugin(acme) {
		t.Error("the plugin is gone after a restart")
	}

	// A customer is deleted, with a proof, and the other one is not.
	acme.post("/delete", "globex", "", "", 400)
	var proof struct{ Gone bool }
	if raw := acme.post("/delete", "acme", "", "", 200); json.Unmarshal([]byte(raw), &proof) != nil || !proof.Gone {
		t.Errorf("the proof is %s", raw)
	}
	acme.do("GET", "/v1/me", "", 401)
	acme.post("/login", "acme", "ada@acme.example", password, 401)
	globex.post("/login", "globex", "bob@globex.example", password, 200)
	globex.do("GET", "/v1/threads/t1", "", 200)
	stop()
}

// startService runs the service until stop, which ends it as a supervisor does.
func startService(t *testing.T, program, data string) (base string, stop func()) {
	t.Helper()
	service := exec.CommandContext(t.Context(), program, "-listen", "127.0.0.1:0", "-data", data, "-calls", strconv.Itoa(ofACustomer))
	output, err := service.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := service.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(output)
	line, _ := lines.ReadString('\n')
	_, address, found := strings.Cut(strings.TrimSpace(line), "http://")
	if !found {
		rest, _ := io.ReadAll(lines)
		t.Fatalf("the service says %s%s", line, rest)
	}
	return "http://" + address, func() {
		t.Helper()
		if err := service.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		rest, _ := io.ReadAll(lines)
		if err := service.Wait(); err != nil || len(rest) != 0 {
			t.Errorf("the service ended with %v: %s", err, rest)
		}
	}
}

// browser is a customer's, with its cookies.
type browser struct {
	t    *testing.T
	base string
	http *http.Client
}

func newBrowser(t *testing.T, base string) *browser {
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &browser{t: t, base: base, http: &http.Client{Jar: jar}}
}

// do sends a request that must be answered with a status.
func (b *browser) do(method, path, body string, status int, headers ...string) (*http.Response, string) {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.base+path, bytes.NewReader([]byte(body)))
	if err != nil {
		b.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := b.http.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != status {
		b.t.Fatalf("%s %s = %d %s, %v; want %d", method, path, resp.StatusCode, raw, err, status)
	}
	return resp, string(raw)
}

// post sends a form of the service.
func (b *browser) post(path, customer, email, password string, status int) string {
	b.t.Helper()
	form := url.Values{"customer": {customer}, "email": {email}, "password": {password}}
	_, raw := b.do("POST", path, form.Encode(), status, "Content-Type", "application/x-www-form-urlencoded")
	return raw
}

// usage reads the page of the customer's usage.
func (b *browser) usage(want string) {
	b.t.Helper()
	if _, page := b.do("GET", "/usage", "", 200); !strings.Contains(page, want) {
		b.t.Errorf("the page of the usage lacks %q: %s", want, page)
	}
}
