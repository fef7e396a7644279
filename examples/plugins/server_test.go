package plugins_test

// Scenario: a translation server on loopback, which the plugins reach by the host's own way out.

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/egress"
)

const (
	serverName = "translate.example.com"
	serverPort = 8443
	serverKey  = "k-ey"
)

// translationServer returns the host's way out to a server that knows one sentence. To other
// texts it answers as they say.
func translationServer(t testing.TB) *egress.Client {
	t.Helper()
	listener := listen(t)
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(translate)}}
	server.StartTLS()
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	client := egress.New(&egress.Options{
		RootCAs:  roots,
		Resolver: resolver{listener.Addr().(*net.TCPAddr).AddrPort().Addr()},
		Secrets:  egress.StaticSecrets{"translate_key": egress.NewSecret(serverKey)},
	})
	t.Cleanup(func() { client.Close() })
	return client
}

// listen listens on the port that the plugins name. On Linux each test has an address of its
// own: all of 127.0.0.0/8 is the loopback interface.
func listen(t testing.TB) net.Listener {
	t.Helper()
	for range 100 {
		address := fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))
		if l, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(serverPort))); err == nil {
			return l
		}
	}
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(serverPort)))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// resolver knows the server's name alone.
type resolver struct{ address netip.Addr }

func (r resolver) LookupNetIP(_ context.Context, _, name string) ([]netip.Addr, error) {
	if strings.TrimSuffix(name, ".") != serverName {
		return nil, fmt.Errorf("there is no host %s", name)
	}
	return []netip.Addr{r.address}, nil
}

func translate(w http.ResponseWriter, r *http.Request) {
	var asked struct{ Text, To string }
	err := json.NewDecoder(r.Body).Decode(&asked)
	switch {
	case r.Method != http.MethodPost, r.URL.Path != "/v1/translate", r.Header.Get("Content-Type") != "application/json", err != nil:
		w.WriteHeader(http.StatusBadRequest)
		return
	case r.Header.Get("Authorization") != "Bearer "+serverKey:
		w.WriteHeader(http.StatusUnauthorized)
		return
	case asked.Text == "Good \"morning\"\n" && asked.To == "de":
		asked.Text = "Guten \"Morgen\"\n"
	case asked.Text == "bytes":
		_, _ = w.Write([]byte("\xff\x00{"))
		return
	}
	if page, ok := strings.CutPrefix(asked.Text, "page: "); ok {
		_, _ = w.Write([]byte(page))
		return
	}
	if status, ok := strings.CutPrefix(asked.Text, "status: "); ok {
		code, _ := strconv.Atoi(status)
		w.WriteHeader(code)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]string{"text": asked.Text})
}
