package egress_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host/egress"
	"github.com/agenthost/agenthost/host/fault"
)

// slack is what a fetch may take beyond its limit on a busy machine.
const slack = time.Minute

// Servers that do what they can to hold a reader. The fetch must end at its limit
// with an error that says so, and leave nothing behind.
func TestServersThatHoldTheirReader(t *testing.T) {
	drip := func(c net.Conn, head string) {
		io.WriteString(c, head)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for range tick.C {
			if _, err := io.WriteString(c, "x"); err != nil {
				return
			}
		}
	}
	for name, answer := range map[string]func(net.Conn){
		"says nothing":             func(net.Conn) {},
		"drips its status":         func(c net.Conn) { drip(c, "HTTP/1.1 200 ") },
		"drips a header":           func(c net.Conn) { drip(c, "HTTP/1.1 200 OK\r\nX: ") },
		"drips its body":           func(c net.Conn) { drip(c, "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n") },
		"drips without a length":   func(c net.Conn) { drip(c, "HTTP/1.1 200 OK\r\n\r\n") },
		"stops in its body":        func(c net.Conn) { io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc") },
		"stops in a chunk":         func(c net.Conn) { io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nabc") },
		"stops in compressed data": func(c net.Conn) { io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n\x1f\x8b\x08") },
		"stops in a redirect": func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 99\r\n\r\n")
		},
		"sends 100 for ever": func(c net.Conn) {
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for range tick.C {
				if _, err := io.WriteString(c, "HTTP/1.1 103 Early Hints\r\nX: y\r\n\r\n"); err != nil {
					return
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			port := serveRaw(t, answer)
			c := newClient(t, &egress.Options{Resolver: dns(threeHosts)})
			start := time.Now()
			_, err := c.Fetch(t.Context(), &egress.Request{Policy: local(t, port, "a.test"), URL: at("a.test", port, "/"),
				Limits: egress.Limits{Timeout: 100 * time.Millisecond}})
			wantError(t, err, fault.DeadlineExceeded, "limit Timeout of 100ms")
			if took := time.Since(start); took > slack {
				t.Errorf("the fetch ended after %s", took)
			}
		})
	}
}

// A switched protocol is read by nobody whom a deadline could stop.
func TestProtocolSwitchesAreRefused(t *testing.T) {
	port := serveRaw(t, func(c net.Conn) {
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nhello")
	})
	c := newClient(t, &egress.Options{Resolver: dns(threeHosts)})
	_, err := c.Fetch(t.Context(), &egress.Request{Policy: local(t, port, "a.test"), URL: at("a.test", port, "/")})
	wantError(t, err, fault.Unavailable, "switches to a protocol")
}

func TestServersThatSendTooMuch(t *testing.T) {
	endless := func(c net.Conn, head, more string) {
		io.WriteString(c, head)
		for {
			if _, err := io.WriteString(c, more); err != nil {
				return
			}
		}
	}
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	for range 64 {
		z.Write(make([]byte, 1<<20))
	}
	z.Close()
	page := strings.Repeat("x", 4096)
	for name, row := range map[string]struct {
		answer func(net.Conn)
		code   fault.Code
		says   string
	}{
		"a body that is announced": {func(c net.Conn) { io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100001\r\n\r\n") }, fault.ResourceExhausted, "limit ResponseBytes of 100000"},
		"a body without an end":    {func(c net.Conn) { endless(c, "HTTP/1.1 200 OK\r\n\r\n", page) }, fault.ResourceExhausted, "limit ResponseBytes of 100000"},
		"chunks without an end": {func(c net.Conn) {
			endless(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "1000\r\n"+page+"\r\n")
		}, fault.ResourceExhausted, "limit ResponseBytes of 100000"},
		"a bomb": {func(c net.Conn) {
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n", bomb.Len())
			c.Write(bomb.Bytes())
		}, fault.ResourceExhausted, "limit ResponseBytes of 100000"},
		"compressed nothing": {func(c net.Conn) {
			endless(c, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n", strings.Repeat(emptyGzip(), 100))
		}, fault.ResourceExhausted, "limit ResponseBytes of 100000"},
		"headers without an end": {func(c net.Conn) { endless(c, "HTTP/1.1 200 OK\r\n", "X-Y: "+page+"\r\n") }, fault.Unavailable, "HeaderBytes"},
		"one header without end": {func(c net.Conn) { endless(c, "HTTP/1.1 200 OK\r\nX: ", page) }, fault.Unavailable, "HeaderBytes"},
		"damaged compression": {func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 20\r\n\r\nthis is no gzip data")
		}, fault.Unavailable, "compressed body is damaged"},
		"a length that is a lie": {func(c net.Conn) { io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"); c.Close() }, fault.Unavailable, "closed the connection"},
		"two lengths": {func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nabc")
		}, fault.Unavailable, "not HTTP"},
		"a closed connection":  {func(c net.Conn) { c.Close() }, fault.Unavailable, "closed the connection"},
		"a header with a zero": {func(c net.Conn) { io.WriteString(c, "HTTP/1.1 200 OK\r\nX: a\x00b\r\n\r\n") }, fault.Unavailable, ""},
	} {
		t.Run(name, func(t *testing.T) {
			port := serveRaw(t, row.answer)
			c := newClient(t, &egress.Options{Resolver: dns(threeHosts)})
			_, err := c.Fetch(t.Context(), &egress.Request{Policy: local(t, port, "a.test"), URL: at("a.test", port, "/"),
				Limits: egress.Limits{ResponseBytes: 100_000}})
			wantError(t, err, row.code, row.says)
		})
	}
}

func emptyGzip() string {
	var b bytes.Buffer
	gzip.NewWriter(&b).Close()
	return b.String()
}

func TestLimitsAreExact(t *testing.T) {
	body := strings.Repeat("x", 1000)
	port := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/flush" {
			w.(http.Flusher).Flush() // no Content-Length
		}
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, body)
	})
	c := newClient(t, &egress.Options{Resolver: dns(threeHosts)})
	for _, path := range []string{"/", "/flush"} {
		for limit, want := range map[int]fault.Code{1000: "", 999: fault.ResourceExhausted} {
			_, err := c.Fetch(t.Context(), &egress.Request{Policy: local(t, port, "a.test"), URL: at("a.test", port, path), Limits: egress.Limits{ResponseBytes: limit}})
			if fault.CodeOf(err) != want {
				t.Errorf("%s with ResponseBytes of %d: %v, want %q", path, limit, err, want)
			}
			_, err = c.Fetch(t.Context(), &egress.Request{Policy: local(t, port, "a.test"), Method: "POST", Body: []byte(body), URL: at("a.test", port, path), Limits: egress.Limits{RequestBytes: limit}})
			if fault.CodeOf(err) != want {
				t.Errorf("%s with RequestBytes of %d: %v, want %q", path, limit, err, want)
			}
		}
	}
	resp, err := c.Fetch(t.Context(), &egress.Request{Policy: local(t, port, "a.test"), Method: "HEAD", URL: at("a.test", port, "/"), Limits: egress.Limits{ResponseBytes: 1}})
	if err != nil || len(resp.Body) != 0 || header(resp, "content-length") != "1000" {
		t.Errorf("HEAD = %+v, %v", resp, err)
	}
}

func TestCompressedResponses(t *testing.T) {
	text := strings.Repeat("hello ", 1000)
	port := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "gzip" {
			io.WriteString(w, "plain")
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		if r.Method == http.MethodHead || r.URL.Path == "/empty" {
			return
		}
		z := gzip.NewWriter(w)
		io.WriteString(z, text)
		z.Close()
	})
	c := newClient(t, &egress.Options{Resolver: dns(threeHosts)})
	get := func(method, path string, headers ...egress.Header) *egress.Response {
		resp, err := c.Fetch(t.Context(), &egress.Request{Policy: local(t, port, "a.test"), Method: method, URL: at("a.test", port, path), Headers: headers})
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	if r := get("GET", "/"); string(r.Body) != text || header(r, "content-encoding") != "" || header(r, "content-length") != "" {
		t.Errorf("the response has %d bytes and %v", len(r.Body), r.Headers)
	}
	if r := get("HEAD", "/"); len(r.Body) != 0 || r.Status != 200 {
		t.Errorf("HEAD is %+v", r)
	}
	if r := get("GET", "/empty"); len(r.Body) != 0 || r.Status != 200 {
		t.Errorf("an empty response is %+v", r)
	}
	if r := get("GET", "/", egress.Header{Name: "Range", Value: "bytes=0-1"}); string(r.Body) != "plain" {
		t.Errorf("a range is of %q", r.Body)
	}
}

func TestRequestsAtOneTime(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	port := serve(t, func(http.ResponseWriter, *http.Request) { entered <- struct{}{}; <-leave })
	c := newClient(t, &egress.Options{Resolver: dns(threeHosts), InFlight: 3, InFlightPerTenant: 2})
	fetch := func(tenant string) error {
		_, err := c.Fetch(context.Background(), &egress.Request{Tenant: tenant, Policy: local(t, port, "a.test"), URL: at("a.test", port, "/")})
		return err
	}
	ended := make(chan error, 3)
	for _, tenant := range []string{"acme", "acme", "globex"} {
		go func() { ended <- fetch(tenant) }()
		<-entered
	}
	wantError(t, fetch("acme"), fault.ResourceExhausted, "limit InFlightPerTenant")
	wantError(t, fetch("globex"), fault.ResourceExhausted, "limit InFlight")
	close(leave)
	for range 3 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	go func() { <-entered }()
	if err := fetch("acme"); err != nil {
		t.Errorf("after the others have ended: %v", err)
	}
}

func TestCancellation(t *testing.T) {
	entered := make(chan struct{})
	port := serveRaw(t, func(net.Conn) { close(entered) })
	c := newClient(t, &egress.Options{Resolver: dns(threeHosts)})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-entered; cancel() }()
	_, err := c.Fetch(ctx, &egress.Request{Policy: local(t, port, "a.test"), URL: at("a.test", port, "/")})
	wantError(t, err, fault.Canceled)
}

// silent never answers.
type silent struct{}

func (silent) LookupNetIP(ctx context.Context, _, _ string) ([]netip.Addr, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestAResolverThatDoesNotAnswer(t *testing.T) {
	c := newClient(t, &egress.Options{Resolver: silent{}, ConnectTimeout: time.Millisecond})
	_, err := c.Fetch(t.Context(), &egress.Request{Policy: local(t, 80, "a.test"), URL: "http://a.test/"})
	wantError(t, err, fault.Unavailable, "not looked up in time")
	c = newClient(t, &egress.Options{Resolver: silent{}})
	_, err = c.Fetch(t.Context(), &egress.Request{Policy: local(t, 80, "a.test"), URL: "http://a.test/", Limits: egress.Limits{Timeout: time.Millisecond}})
	wantError(t, err, fault.DeadlineExceeded, "Timeout")
}

// The pools of tenants that are gone do not pile up.
func TestPoolsAreBounded(t *testing.T) {
	var open atomic.Int32
	srv := &http.Server{ConnState: func(_ net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed:
			open.Add(-1)
		}
	}}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); srv.Serve(l) }()
	defer func() { srv.Close(); <-done }()
	port := l.Addr().(*net.TCPAddr).Port
	c := egress.New(&egress.Options{Resolver: dns(threeHosts), Pools: 4})
	for i := range 100 {
		if _, err := c.Fetch(t.Context(), &egress.Request{Tenant: fmt.Sprint(i), Policy: local(t, port, "a.test"), URL: at("a.test", port, "/")}); err != nil {
			t.Fatal(err)
		}
	}
	waitFor(t, "at most 4 connections", func() bool { return open.Load() <= 4 })
	c.Close()
	waitFor(t, "no connection", func() bool { return open.Load() == 0 })
}

// waitFor polls what a server learns a moment after the client did.
func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.After(slack)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited %s for %s", slack, what)
		}
	}
}
