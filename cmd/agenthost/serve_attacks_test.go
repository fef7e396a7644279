package main

// Scenario: clients attack a server with TLS, over HTTP/2 and HTTP/1: with streams that they
// reset at once, with more streams and longer headers than it takes, and by sending nothing.

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/agenthost/agenthost/internal/longtest"
)

// The types and flags of the frames of HTTP/2 that the test sends and reads.
const (
	frameHeaders      = 1
	frameReset        = 3
	frameSettings     = 4
	frameGoAway       = 7
	frameContinuation = 9

	flagEndStream  = 1
	flagEndHeaders = 4

	refusedStream = 7 // an error code
)

// rawConn is a connection of HTTP/2 whose frames a test writes.
type rawConn struct {
	net.Conn
	in *bufio.Reader
}

// dial opens a connection for a protocol of TLS's application layer.
func (a *attacked) dial(t *testing.T, protocol string) *tls.Conn {
	t.Helper()
	conn, err := tls.Dial("tcp", a.address, &tls.Config{RootCAs: a.roots, NextProtos: []string{protocol}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func (a *attacked) dialRaw(t *testing.T) *rawConn {
	t.Helper()
	conn := a.dial(t, "h2")
	if proto := conn.ConnectionState().NegotiatedProtocol; proto != "h2" {
		t.Fatalf("the server speaks %q", proto)
	}
	_ = conn.SetDeadline(time.Now().Add(patience))
	c := &rawConn{conn, bufio.NewReader(conn)}
	_, err := io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"+frame(frameSettings, 0, 0, ""))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func frame(kind, flags byte, stream uint32, payload string) string {
	head := []byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), kind, flags, 0, 0, 0, 0}
	binary.BigEndian.PutUint32(head[5:], stream)
	return string(head) + payload
}

// read returns the next frame; an error when the server has ended the connection.
func (c *rawConn) read() (kind byte, stream uint32, payload []byte, err error) {
	var head [9]byte
	if _, err = io.ReadFull(c.in, head[:]); err != nil {
		return 0, 0, nil, err
	}
	payload = make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
	_, err = io.ReadFull(c.in, payload)
	return head[3], binary.BigEndian.Uint32(head[5:]), payload, err
}

// fields returns a block of header fields, none of them compressed.
func fields(list ...string) string {
	var b strings.Builder
	for i, text := range list {
		if i%2 == 0 {
			b.WriteByte(0)
		}
		n := len(text)
		if n < 127 {
			b.WriteByte(byte(n))
		} else {
			b.WriteByte(127)
			for n -= 127; n >= 128; n /= 128 {
				b.WriteByte(byte(n%128 + 128))
			}
			b.WriteByte(byte(n))
		}
		b.WriteString(text)
	}
	return b.String()
}

// get returns the header fields of a request.
func get(method, path string) string {
	return fields(":method", method, ":scheme", "https", ":authority", "localhost", ":path", path)
}

// attacked is a server with TLS, and a client of it that attacks nothing.
type attacked struct {
	*served
	address string
	roots   *x509.CertPool // has the server's certificate
	client  *http.Client
}

func newAttacked(t *testing.T) (*attacked, string) {
	t.Helper()
	dir, _ := dataProject(t, "")
	m := newMachine(t, filepath.Join(dir, "data"))
	writeCertificate(t, dir, 1)
	s := m.serveHTTP(t, dir, "--listen", "127.0.0.1:0", "--metrics", "--tls-cert", filepath.Join(dir, "cert.pem"), "--tls-key", filepath.Join(dir, "key.pem"))
	cert, err := os.ReadFile(filepath.Join(dir, "cert.pem"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(cert)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &attacked{s, strings.TrimPrefix(s.url, "https://"), roots, &http.Client{Transport: transport, Timeout: patience}}, m.key(t)
}

// serves wants the server to answer another client.
func (a *attacked) serves(t *testing.T) {
	t.Helper()
	a.client.CloseIdleConnections()
	resp, err := a.client.Get(a.url + "/health")
	if err != nil {
		t.Fatalf("the server answers no more: %v\n%s", err, &a.err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.ProtoMajor != 2 {
		t.Fatalf("the server answers %s %s", resp.Proto, resp.Status)
	}
}

// metric returns a number of the server's process.
func (a *attacked) metric(t *testing.T, name string) float64 {
	t.Helper()
	resp, err := a.client.Get(a.url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			n, err := strconv.ParseFloat(text, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

func TestAServerIsAttackedOverHTTP2(t *testing.T) {
	a, key := newAttacked(t)
	run := func() {
		t.Helper()
		req, err := http.NewRequest("POST", a.url+"/v1/runs", strings.NewReader(`{"text":"the secret"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+key)
		req.Header.Set("Accept", "text/event-stream")
		resp, err := a.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		raw, err := io.ReadAll(resp.Body)
		if err != nil || resp.ProtoMajor != 2 || !bytes.Contains(raw, []byte("event: run.finished")) {
			t.Errorf("a run is answered %s %s %s, %v", resp.Proto, resp.Status, raw, err)
		}
	}
	run()
	goroutines, memory := a.metric(t, "go_goroutines"), a.metric(t, "process_resident_memory_bytes")

	t.Run("streams that are reset at once", func(t *testing.T) {
		c := a.dialRaw(t)
		go func() { _, _ = io.Copy(io.Discard, c.in) }()
		var err error
		for n := uint32(0); n < 5_000 && err == nil; n++ {
			id := 2*n + 1
			_, err = io.WriteString(c, frame(frameHeaders, flagEndHeaders|flagEndStream, id, get("GET", "/v1/me"))+frame(frameReset, 0, id, "\x00\x00\x00\x08"))
		}
		a.serves(t)
	})
	t.Run("more streams than it takes", func(t *testing.T) {
		c := a.dialRaw(t)
		post := get("POST", "/v1/runs") + fields("authorization", "Bearer "+key)
		for n := range uint32(400) { // with bodies that do not come, which the server waits for
			if _, err := io.WriteString(c, frame(frameHeaders, flagEndHeaders, 2*n+1, post)); err != nil {
				break
			}
		}
		for {
			kind, _, payload, err := c.read()
			if err != nil {
				t.Fatalf("no stream of 400 is refused: %v", err)
			}
			if kind == frameGoAway || kind == frameReset && binary.BigEndian.Uint32(payload) == refusedStream {
				break
			}
		}
		a.serves(t)
	})
	t.Run("headers without end", func(t *testing.T) {
		c := a.dialRaw(t)
		_, err := io.WriteString(c, frame(frameHeaders, 0, 1, get("GET", "/v1/me")))
		piece := frame(frameContinuation, 0, 1, fields("x-many", strings.Repeat("v", 8000)))
		for n := 0; n < 5_000 && err == nil; n++ { // 40 MB
			_, err = io.WriteString(c, piece)
		}
		if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the server reads 40 MB of headers, or leaves them: %v", err)
		}
		a.serves(t)
	})
	t.Run("thousands of headers", func(t *testing.T) {
		conn := a.dial(t, "http/1.1")
		_ = conn.SetDeadline(time.Now().Add(patience))
		_, _ = io.WriteString(conn, "GET /v1/me HTTP/1.1\r\nHost: x\r\n"+strings.Repeat("X-Many: 1234567890\r\n", 10_000)+"\r\n")
		line, err := bufio.NewReader(conn).ReadString('\n')
		if errors.Is(err, os.ErrDeadlineExceeded) || line != "" && !strings.Contains(line, " 431 ") { // or the connection was reset
			t.Errorf("the answer is %q, %v", line, err)
		}
		a.serves(t)
	})
	run()
	for limit := time.Now().Add(patience); a.metric(t, "go_goroutines") > goroutines+20; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("%v goroutines became %v", goroutines, a.metric(t, "go_goroutines"))
		}
	}
	most := float64(100 << 20)
	if longtest.Race {
		most *= 4 // the race detector keeps shadows of freed memory
	}
	if now := a.metric(t, "process_resident_memory_bytes"); now > memory+most {
		t.Errorf("%.0f MB became %.0f MB", memory/(1<<20), now/(1<<20))
	}
	a.end()
}

// Connections on which nothing more comes are ended: before the handshake of TLS, after it, in
// the middle of the headers, and after the answer to a request.
func TestSilentConnectionsAreEnded(t *testing.T) {
	longtest.Need(t, "the server waits for up to half a minute")
	a, _ := newAttacked(t)
	bare, err := net.Dial("tcp", a.address)
	if err != nil {
		t.Fatal(err)
	}
	defer bare.Close()
	old := a.dial(t, "http/1.1")
	_, err = io.WriteString(old, "GET /v1/me HTTP/1.1\r\nHost: x\r\nX-Slow: ")
	if err != nil {
		t.Fatal(err)
	}
	half := a.dialRaw(t)
	if _, err := io.WriteString(half, frame(frameHeaders, 0, 1, get("GET", "/v1/me"))); err != nil {
		t.Fatal(err)
	}
	silent := a.dialRaw(t)
	for name, conn := range map[string]net.Conn{"before the handshake": bare, "headers of HTTP/1": old, "headers of HTTP/2": half, "without a request": silent} {
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: a silent connection stays", name)
		}
	}
	a.serves(t)
	a.end()
}

// anotherUserEnv has the path of the socket that the child process reaches for.
const anotherUserEnv = "AGENTHOST_TEST_ANOTHER_USER"

// TestAnotherUserChildProcess is not a test but what the child process runs.
func TestAnotherUserChildProcess(t *testing.T) {
	path := os.Getenv(anotherUserEnv)
	if path == "" {
		t.Skip("runs only as a child of the test that starts it")
	}
	if err := reachAsNobody(path); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0) // the user cannot remove the files of the test's process
}

// reachAsNobody makes the process one of the user nobody, and wants the host at a socket to
// refuse each request.
func reachAsNobody(socket string) error {
	const nobody = 65534
	if err := syscall.Setuid(nobody); err != nil {
		return err
	}
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}}}
	for _, path := range []string{"/v1/me", "/v1/admin/keys", "/local", "/health", "/v1/openapi.json"} {
		resp, err := client.Get("http://localhost" + path)
		if err != nil {
			return err
		}
		raw, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusForbidden {
			return fmt.Errorf("GET %s by another user is answered %d %s", path, resp.StatusCode, raw)
		}
	}
	return nil
}

// The rights of the socket's file keep other users out; where someone has widened them, the
// host itself does.
func TestAnotherUserIsRefusedAtTheControlSocket(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("wants root, which alone can be another user")
	}
	dir, err := os.MkdirTemp("", "c") // short: it has a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	project, _ := dataProject(t, "")
	m := newMachine(t, filepath.Join(dir, "data"))
	socket := filepath.Join(dir, "control.sock")
	s := m.serveHTTP(t, project, "--listen", "127.0.0.1:0", "--socket", socket)
	for _, path := range []string{dir, socket} {
		if err := os.Chmod(path, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	child := m.command()
	child.Args = []string{os.Args[0], "-test.run=^TestAnotherUserChildProcess$"}
	child.Env = append(m.env, anotherUserEnv+"="+socket)
	if out, err := child.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	m.run(t, 0, "doctor", "--running", "--socket", socket)
	s.end()
}
