package main

// Scenario: a service manager starts a server, watches it, has it read a renewed
// certificate and ends it, while clients wait for answers.

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
)

// writeCertificate writes a certificate for this machine, with a serial number, and its
// key.
func writeCertificate(t *testing.T, dir string, serial int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(30 * 24 * time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	writeText(t, dir, "cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})))
	writeText(t, dir, "key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})))
}

// serialOf returns the serial number of the certificate that a server shows.
func serialOf(t *testing.T, url string) int64 {
	t.Helper()
	conn, err := tls.Dial("tcp", strings.TrimPrefix(url, "https://"), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

// serviceManager hears what the processes of a machine say, a line each.
func serviceManager(t *testing.T, m *machine) *screen {
	t.Helper()
	dir, err := os.MkdirTemp("", "n") // short: it is a socket's
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "n")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	m.env = append(m.env, "NOTIFY_SOCKET="+path, "WATCHDOG_USEC=100000")
	heard := &screen{t: t, wrote: make(chan struct{}, 1)}
	go func() {
		b := make([]byte, 1000)
		for {
			n, err := conn.Read(b)
			if err != nil {
				return
			}
			fmt.Fprintf(heard, "%s\n", b[:n])
		}
	}()
	t.Cleanup(func() { _ = conn.Close() })
	return heard
}

// ownAddress returns an address of this machine alone, whose ports no other test takes when
// they are free again: on Linux all of 127.0.0.0/8 is the loopback interface.
func ownAddress() string {
	if runtime.GOOS != "linux" {
		return "127.0.0.1"
	}
	return fmt.Sprintf("127.%d.%d.%d", 1+mathrand.IntN(254), mathrand.IntN(256), 1+mathrand.IntN(254))
}

func TestAServerTakesARenewedCertificate(t *testing.T) {
	dir, exits := dataProject(t, "")
	m := newMachine(t, filepath.Join(dir, "data"))
	heard := serviceManager(t, &m)
	writeCertificate(t, dir, 1)
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	s := m.serveHTTP(t, dir, "--listen", ownAddress()+":0", "--tls-cert", cert, "--tls-key", key)
	heard.waitFor("READY=1\n")
	heard.waitFor("WATCHDOG=1\n")
	if got := serialOf(t, s.url); got != 1 {
		t.Errorf("the certificate has number %d, want 1", got)
	}
	writeCertificate(t, dir, 2)
	if err := s.c.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	for limit := time.Now().Add(patience); serialOf(t, s.url) != 2; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("the renewed certificate is not taken:\n%s", &s.err)
		}
	}
	m.run(t, cli.ExitOK, "doctor", "--running")
	s.end()
	heard.waitFor("STOPPING=1\n")
	if out := m.run(t, 3, "doctor", "--running"); !strings.Contains(out, "no host is running") {
		t.Errorf("doctor says\n%s", out)
	}

	address := strings.TrimPrefix(s.url, "https://")
	exits(0, "is free", "doctor", "--listen", address, "--tls-cert", cert, "--tls-key", key)
	exits(3, "belong together", "doctor", "--tls-cert", cert, "--tls-key", cert)
	exits(2, "", "doctor", "--tls-cert", cert)
	taken, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	exits(3, "end the process that has the address", "doctor", "--listen", address)
}

// A server that ends answers what it has begun, says that it takes nothing more, and
// refuses runs meanwhile.
func TestAServerIsDrained(t *testing.T) {
	asked, release := make(chan struct{}), make(chan struct{})
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked <- struct{}{}
		<-release
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `data: {"choices":[{"index":0,"delta":{"content":"it is done"},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
	}))
	defer model.Close()
	dir, _ := dataProject(t, "")
	writeText(t, dir, "agenthost.yaml", "version: 1\nagents: {clerk: {}}\nmodels: {m: {provider: openai, name: big, base_url: "+model.URL+"/v1}}\n")
	m := newMachine(t, filepath.Join(dir, "data"))
	m.env = append(m.env, "OPENAI_API_KEY=k")
	s := m.serveHTTP(t, dir, "--listen", "127.0.0.1:0", "--drain", "1h")
	defer http.DefaultClient.CloseIdleConnections()
	key := m.key(t)
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		s.wants(200, "it is done", key, "POST", "/v1/runs", `{"text":"do it"}`)
	}()
	<-asked
	if err := s.c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for limit := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		resp, err := http.Get(s.url + "/ready")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusServiceUnavailable {
			break
		}
		if time.Now().After(limit) {
			t.Fatalf("a server that ends is ready, with status %d", resp.StatusCode)
		}
	}
	s.wants(200, "ok", "", "GET", "/health", "")
	s.wants(503, "unavailable", key, "POST", "/v1/runs", `{"text":"and that"}`)
	if out := m.run(t, 3, "doctor", "--running"); !strings.Contains(out, "the host ends") {
		t.Errorf("doctor says\n%s", out)
	}
	close(release)
	<-answered
	if err := s.c.Wait(); err != nil {
		t.Errorf("the server ends with %v:\n%s", err, &s.err)
	}
}

// Fifty clients read runs when a server is ended. Each of them reads how its run ended: in time,
// or canceled at the end of the drain. A durable run can be resumed: the next server on the data
// has its end as well.
func TestAServerIsDrainedUnderLoad(t *testing.T) {
	t.Run("runs that end in time", func(t *testing.T) { drainUnderLoad(t, true, "1h") })
	t.Run("runs that do not", func(t *testing.T) { drainUnderLoad(t, false, "1s") })
}

func drainUnderLoad(t *testing.T, inTime bool, drain string) {
	const clients = 50
	asked, release := make(chan struct{}, clients), make(chan struct{})
	var healed atomic.Bool
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then the server sees that a client is gone
		if !healed.Load() {
			asked <- struct{}{}
			select {
			case <-release:
			case <-r.Context().Done():
				return
			}
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `data: {"choices":[{"index":0,"delta":{"content":"it is done"},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
	}))
	defer model.Close()
	dir, _ := dataProject(t, "")
	writeText(t, dir, "agenthost.yaml", "version: 1\nagents: {clerk: {}}\nmodels: {m: {provider: openai, name: big, base_url: "+model.URL+"/v1}}\n")
	m := newMachine(t, filepath.Join(dir, "data"))
	m.env = append(m.env, "OPENAI_API_KEY=k")
	s := m.serveHTTP(t, dir, "--listen", "127.0.0.1:0", "--drain", drain)
	defer http.DefaultClient.CloseIdleConnections()
	key := m.key(t)
	answers := make([]string, clients)
	runs := make([]string, clients)
	var reading sync.WaitGroup
	for i := range clients {
		reading.Go(func() {
			body := fmt.Sprintf(`{"text":"hello","durable":%t}`, i%10 == 9)
			req, err := http.NewRequest("POST", s.url+"/v1/runs", strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("Authorization", "Bearer "+key)
			req.Header.Set("Accept", "text/event-stream")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Errorf("client %d has no answer: %v", i, err)
				return
			}
			defer resp.Body.Close()
			runs[i] = resp.Header.Get("Location")
			raw, err := io.ReadAll(resp.Body)
			if answers[i] = string(raw); err != nil || resp.StatusCode != http.StatusOK {
				t.Errorf("client %d is answered %s and cut off: %v\n%s", i, resp.Status, err, raw)
			}
		})
	}
	for range clients {
		<-asked
	}
	if err := s.c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if inTime {
		close(release)
	}
	reading.Wait()
	if err := s.c.Wait(); err != nil {
		t.Errorf("the server ends with %v:\n%s", err, &s.err)
	}
	for i, answer := range answers {
		want := `"finish_reason":"canceled"`
		if inTime {
			want = `"finish_reason":"stop"`
		}
		if i%10 == 9 {
			continue // its end may be on the next server
		}
		if _, end, ok := strings.Cut(answer, "event: run.finished\n"); !ok || !strings.Contains(end, want) {
			t.Errorf("client %d does not read %s:\n%s", i, want, answer)
		}
	}
	healed.Store(true)
	s = m.serveHTTP(t, dir, "--listen", "127.0.0.1:0")
	for i := 9; i < clients; i += 10 {
		if end := s.wants(200, "event: run.finished", key, "GET", runs[i]+"/events", ""); !strings.Contains(end, `"finish_reason":"`) {
			t.Errorf("the durable run of client %d ends with %s", i, end)
		}
	}
	s.end()
}

func TestDevServesWithoutATerminal(t *testing.T) {
	dir, _ := dataProject(t, "")
	data := filepath.Join(dir, "data")
	m := newMachine(t, data)
	var log bytes.Buffer
	s := m.serveCommand(t, "dev", dir, "--listen", "127.0.0.1:0", "--tenant", "acme")
	defer http.DefaultClient.CloseIdleConnections()
	s.wants(200, `"tenant":"acme"`, "", "GET", "/v1/me", "")
	s.wants(200, "it is zebrafinch", "", "POST", "/v1/runs", `{"text":"the secret","thread":"t1"}`)
	s.wants(200, `agenthost_http_requests_total{method="POST",route="/v1/runs",status="200"} 1`, "", "GET", "/metrics", "")
	s.wants(403, "another site", "", "POST", "/v1/runs", `{"text":"the secret"}`, "Sec-Fetch-Site", "cross-site")
	s.wants(403, "another site", "", "GET", "/v1/threads/t1", "", "Sec-Fetch-Site", "cross-site")
	s.wants(403, "another site", "", "POST", "/v1/runs", `{"text":"the secret"}`, "Origin", "https://evil.example.com")
	req, err := http.NewRequestWithContext(t.Context(), "GET", s.url+"/v1/threads", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "rebound.example.com"
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = log.ReadFrom(resp.Body)
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("a request for another machine answers %d: %s", resp.StatusCode, &log)
	}
	if out := m.run(t, cli.ExitOK, "thread", "show", "t1", "--tenant", "acme"); !strings.Contains(out, "zebrafinch") {
		t.Errorf("thread show says\n%s", out)
	}
	s.end()
	m.run(t, cli.ExitUsage, "dev", dir, "--listen", "0.0.0.0:0")
}

// The control socket has the routes of the API, for the tenant that the administrator
// names.
func TestTheControlSocketHasTheAPI(t *testing.T) {
	dir, _ := dataProject(t, "")
	data := filepath.Join(dir, "data")
	m := newMachine(t, data)
	s := m.serveHTTP(t, dir, "--listen", "127.0.0.1:0")
	socket := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", filepath.Join(data, "control.sock"))
	}}}
	wants := func(method, path, tenant, body, want string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "http://localhost"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if tenant != "" {
			req.Header.Set("Agenthost-Tenant", tenant)
		}
		resp, err := socket.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		raw, err := io.ReadAll(resp.Body)
		if err != nil || !strings.Contains(string(raw), want) {
			t.Errorf("%s %s for %q answers %d, %v\n%s\nwant %q", method, path, tenant, resp.StatusCode, err, raw, want)
		}
	}
	wants("POST", "/v1/runs", "acme", `{"text":"the secret","thread":"t1"}`, "it is zebrafinch")
	wants("GET", "/v1/threads", "acme", "", `"t1"`)
	wants("GET", "/v1/threads", "", "", `"threads":[]`)
	wants("GET", "/v1/threads/t1", "globex", "", "not_found")
	wants("GET", "/local", "", "", "plugin.reload")
	wants("POST", "/v1/admin/keys", "", `{"scopes":["keys:write","tenants:write"]}`, `"credential":"ah_admin_`) // the peer has all rights
	wants("POST", "/v1/admin/keys", "", `{"scopes":["tenant:write"]}`, "invalid_argument")
	wants("POST", "/v1/admin/tenants/acme/keys", "", `{"scopes":["tenants:write"]}`, "invalid_argument")
	wants("POST", "/local/plugin.list", "", "", "[]")
	s.end()
}
