package main

// Scenario: an operator serves a project, gives two tenants keys, and ends the server
// while a client reads.

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
)

// served is a process of agenthost serve.
type served struct {
	t   *testing.T
	url string
	c   *exec.Cmd
	err bytes.Buffer
}

func (m machine) serveHTTP(t *testing.T, args ...string) *served {
	t.Helper()
	return m.serveCommand(t, append([]string{"serve"}, args...)...)
}

// serveCommand starts a command that serves HTTP, and waits for its address.
func (m machine) serveCommand(t *testing.T, args ...string) *served {
	t.Helper()
	s := &served{t: t, c: m.command(args...)}
	s.c.Stderr = &s.err
	out, err := s.c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.c.Process.Kill(); _ = s.c.Wait() }) // unless end has
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if _, url, ok := strings.Cut(lines.Text(), " at http"); ok {
			s.url = "http" + strings.Fields(url)[0]
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return s
		}
	}
	_ = s.c.Wait()
	t.Fatalf("agenthost %q does not serve:\n%s", args, &s.err)
	return nil
}

// end sends SIGTERM, and wants the process to end well.
func (s *served) end() {
	s.t.Helper()
	if err := s.c.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
	if err := s.c.Wait(); err != nil {
		s.t.Errorf("agenthost serve ends with %v:\n%s", err, &s.err)
	}
}

// ask sends a request and returns the status and the body of its answer.
func (s *served) ask(key, method, path, body string, headers ...string) (status int, answer string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(key))
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}

// wants sends a request and wants a status and a text in the answer, which it returns.
func (s *served) wants(status int, text, key, method, path, body string, headers ...string) string {
	s.t.Helper()
	got, answer := s.ask(key, method, path, body, headers...)
	if got != status || !strings.Contains(answer, text) {
		s.t.Fatalf("%s %s answers %d\n%s\nwant %d and %q\n%s", method, path, got, answer, status, text, &s.err)
	}
	return answer
}

// becomes is wants of an answer that comes in some time: the server reads records now and then.
func (s *served) becomes(status int, text, key, method, path, body string) {
	s.t.Helper()
	for limit := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		got, answer := s.ask(key, method, path, body)
		switch {
		case got == status && strings.Contains(answer, text):
			return
		case time.Now().After(limit):
			s.t.Fatalf("%s %s answers %d\n%s\nwant %d and %q", method, path, got, answer, status, text)
		}
	}
}

func TestTwoTenantsCallAServer(t *testing.T) {
	dir, _ := dataProject(t, "")
	data := filepath.Join(dir, "data")
	m := newMachine(t, data)
	s := m.serveHTTP(t, dir, "--listen", "127.0.0.1:0", "--metrics")
	defer http.DefaultClient.CloseIdleConnections()
	s.wants(200, "", "", "GET", "/ready", "")
	s.wants(401, "unauthenticated", "", "POST", "/v1/runs", `{"text":"the secret"}`)

	// Another process makes keys while the server runs. It prints the key alone on stdout.
	create := m.command("key", "create", "--tenant", "acme", "--name", "shop")
	out, err := create.Output()
	if err != nil || !strings.HasPrefix(string(out), "ah_live_") || strings.Count(string(out), "\n") != 1 {
		t.Fatalf("key create prints %q, %v", out, err)
	}
	acme := string(out)
	var made struct {
		Credential string
		Key        struct{ ID string }
	}
	if err := json.Unmarshal([]byte(m.run(t, cli.ExitOK, "key", "create", "--tenant", "globex", "--scope", "runs:write,runs:read,threads:read", "--json")), &made); err != nil {
		t.Fatal(err)
	}
	globex := made.Credential

	var run struct{ ID string }
	if err := json.Unmarshal([]byte(s.wants(200, "it is zebrafinch", acme, "POST", "/v1/runs", `{"text":"the secret","thread":"t1"}`)), &run); err != nil {
		t.Fatal(err)
	}
	s.wants(200, "it is zebrafinch", acme, "GET", "/v1/threads/t1/messages", "")
	s.wants(404, "not_found", globex, "GET", "/v1/threads/t1", "")
	s.wants(404, "not_found", globex, "GET", "/v1/runs/"+run.ID, "")
	s.wants(403, "threads:write", globex, "DELETE", "/v1/threads/t1", "")
	s.wants(200, "event: ", globex, "POST", "/v1/runs", `{"text":"the secret"}`, "Accept", "text/event-stream")
	s.wants(200, "agenthost_", "", "GET", "/metrics", "")

	// The commands of a host work on this one, and see what the API has stored.
	if out := m.run(t, cli.ExitOK, "thread", "show", "t1", "--tenant", "acme"); !strings.Contains(out, "zebrafinch") {
		t.Errorf("thread show says\n%s", out)
	}
	if out := m.run(t, cli.ExitOK, "key", "list", "--tenant", "globex"); !strings.Contains(out, made.Key.ID) || strings.Contains(out, globex) {
		t.Errorf("key list says\n%s", out)
	}
	m.run(t, cli.ExitOK, "key", "revoke", made.Key.ID, "--tenant", "globex")
	s.becomes(401, "unauthenticated", globex, "GET", "/v1/me", "") // within a second, on a machine that is not busy
	s.end()

	// The next server has the threads and the keys. Erasing a tenant removes its keys.
	s = m.serveHTTP(t, dir, "--listen", "127.0.0.1:0")
	s.wants(200, "t1", acme, "GET", "/v1/threads", "")
	s.wants(404, "", "", "GET", "/metrics", "")
	s.end()
	m.run(t, cli.ExitOK, "data", "erase", "acme", "--yes")
	if out := m.run(t, cli.ExitOK, "key", "list", "--tenant", "acme"); !strings.Contains(out, "no key") {
		t.Errorf("after the erasure key list says\n%s", out)
	}
}

func TestPlansAreServedAndSuspended(t *testing.T) {
	dir, _ := dataProject(t, "")
	data := filepath.Join(dir, "data")
	m := newMachine(t, data)
	s := m.serveHTTP(t, dir, "--listen", "127.0.0.1:0")
	defer http.DefaultClient.CloseIdleConnections()
	acme := m.key(t)
	becomes := func(status int, text string) {
		t.Helper()
		s.becomes(status, text, acme, "POST", "/v1/runs", `{"text":"the secret"}`)
	}
	becomes(200, "zebrafinch") // as the configuration says: the tenant has no record
	m.run(t, cli.ExitOK, "tenant", "create", "acme", "--name", "Acme Ltd.", "--plan", `{"targets":[]}`)
	becomes(404, "not_found")
	m.run(t, cli.ExitOK, "tenant", "change", "acme", "--plan", `{"models":[]}`)
	becomes(403, "the plan does not have model")
	m.run(t, cli.ExitOK, "tenant", "change", "acme", "--plan", `{}`)
	becomes(200, "zebrafinch")
	m.run(t, cli.ExitOK, "tenant", "suspend", "acme", "--reason", "the invoice of March is open")
	becomes(403, "permission_denied")
	if out := m.run(t, cli.ExitOK, "tenant", "list"); !strings.Contains(out, "Acme Ltd.") || !strings.Contains(out, "suspended") || !strings.Contains(out, "March") {
		t.Errorf("tenant list says\n%s", out)
	}
	m.run(t, cli.ExitOK, "tenant", "activate", "acme")
	becomes(200, "zebrafinch")
	m.run(t, cli.ExitOK, "data", "erase", "acme", "--yes") // by the server
	becomes(401, "unauthenticated")
	if out := m.run(t, cli.ExitOK, "tenant", "list", "--json"); strings.Contains(out, "acme") {
		t.Errorf("after the erasure tenant list says\n%s", out)
	}
	s.end()
}

func TestTenantCommandsRefuse(t *testing.T) {
	dir, exits := dataProject(t, "")
	data := filepath.Join(dir, "data")
	exits(cli.ExitOK, "", "run", dir, "--data", data, "--thread", "t1", "the secret")
	exits(cli.ExitOK, "No tenant has a record", "tenant", "list", "--data", data)
	exits(cli.ExitOK, "is made", "tenant", "create", "acme", "--data", data)
	for _, tt := range []struct {
		code int
		want string
		args []string
	}{
		{cli.ExitUsage, "is not JSON", []string{"create", "globex", "--plan", "{"}},
		{cli.ExitUsage, "colour", []string{"create", "globex", "--plan", `{"colour":1}`}},
		{cli.ExitUsage, "says what changes", []string{"change", "acme"}},
		{4, "no tenant", []string{"suspend", "globex"}},
		{4, "no tenant", []string{"show", "globex"}},
	} {
		exits(tt.code, tt.want, append([]string{"tenant", "--data", data}, tt.args...)...)
	}
	exits(cli.ExitOK, "Its plan:", "tenant", "show", "acme", "--data", data)
	exits(cli.ExitOK, "", "data", "erase", "acme", "--data", data, "--yes") // without a host
	exits(cli.ExitOK, "No tenant has a record", "tenant", "list", "--data", data)
}

func TestAServerIsNotServedInTheClear(t *testing.T) {
	dir, exits := dataProject(t, "")
	data := filepath.Join(dir, "data")
	for _, tt := range []struct {
		want string
		args []string
	}{
		{"keys would be sent in the clear", []string{"--listen", ":0"}},
		{"keys would be sent in the clear", []string{"--listen", "0.0.0.0:0"}},
		{"keys would be sent in the clear", []string{"--listen", "shop.example.com:443"}},
		{"is no address", []string{"--listen", "8080"}},
		{"go together", []string{"--tls-cert", "cert.pem"}},
		{"takes no --tls-cert", []string{"--tls-cert", "cert.pem", "--tls-key", "key.pem", "--behind-proxy"}},
		{"give both", []string{"--proxy", "10.0.0.5"}},
		{"neither an address nor a network", []string{"--behind-proxy", "--proxy", "10.0.0.5,proxy.example.com"}},
		{"no time to end in", []string{"--drain", "-1s"}},
	} {
		exits(cli.ExitUsage, tt.want, append([]string{"serve", dir, "--data", data}, tt.args...)...)
	}
	exits(cli.ExitUsage, "--data is required", "serve", dir)
	if _, err := os.Stat(data); err == nil {
		t.Error("a refused command line has made the data directory")
	}
}

// Guesses of one client behind a proxy do not shut out another, and a client that reaches the
// server directly cannot choose the address that its guesses are counted by.
func TestGuessesAreCountedByTheSenderBehindAProxy(t *testing.T) {
	dir, _ := dataProject(t, "")
	m := newMachine(t, filepath.Join(dir, "data"))
	for _, c := range []struct {
		proxy  string
		forged bool // the header is believed
	}{{"127.0.0.0/8", true}, {"192.0.2.1", false}} {
		s := m.serveHTTP(t, dir, "--listen", "127.0.0.1:0", "--behind-proxy", "--proxy", c.proxy)
		refused := 0
		for range 40 {
			req, err := http.NewRequest("GET", s.url+"/v1/me", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer ah_live_guess")
			req.Header.Set("X-Forwarded-For", "198.51.100.4")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusTooManyRequests {
				refused++
			}
		}
		if refused == 0 {
			t.Errorf("40 guesses are not throttled")
		}
		want := 429 // the guesses are those of this machine
		if c.forged {
			want = 401
		}
		s.wants(want, "", "ah_live_other", "GET", "/v1/me", "", "X-Forwarded-For", "203.0.113.9")
		http.DefaultClient.CloseIdleConnections()
		s.end()
		if said := strings.Contains(s.err.String(), "no proxy of --proxy"); said == c.forged {
			t.Errorf("the server with --proxy %s says\n%s", c.proxy, &s.err)
		}
	}
}
