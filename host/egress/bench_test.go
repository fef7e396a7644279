package egress_test

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/egress"
)

// BenchmarkFetch asks a server on this machine over a kept connection; net/http
// asks the same server in the same run, with nothing checked.
func BenchmarkFetch(b *testing.B) {
	for _, size := range []int{1 << 10, 100 << 10, 1 << 20} {
		body := strings.Repeat("x", size)
		port := serve(b, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(size))
			io.WriteString(w, body)
		})
		name := strconv.Itoa(size>>10) + "kB/"
		c := newClient(b, &egress.Options{Resolver: dns(threeHosts), Secrets: egress.StaticSecrets{"KEY": egress.NewSecret(key)}})
		p := policy(b, egress.Grants{HTTP: localRules(port, "a.test"), Secrets: []egress.SecretRule{{Name: "KEY", Hosts: []string{"http://a.test"}}}})
		for _, row := range []struct {
			name    string
			headers []egress.Header
		}{{"egress", nil}, {"egress with a secret", []egress.Header{{Name: "X", Secret: "KEY"}}}} {
			b.Run(name+row.name, func(b *testing.B) {
				req := &egress.Request{Policy: p, URL: at("a.test", port, "/"), Headers: row.headers}
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					if resp, err := c.Fetch(b.Context(), req); err != nil || len(resp.Body) != size {
						b.Fatal(err)
					}
				}
			})
		}
		b.Run(name+"net/http", func(b *testing.B) {
			tr := &http.Transport{}
			defer tr.CloseIdleConnections()
			plain := http.Client{Transport: tr}
			u := at("127.0.0.1", port, "/")
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				resp, err := plain.Get(u)
				if err != nil {
					b.Fatal(err)
				}
				got, err := io.ReadAll(resp.Body)
				if resp.Body.Close(); err != nil || len(got) != size {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkDenied is what a refused request costs: no lookup, no connection.
func BenchmarkDenied(b *testing.B) {
	c := newClient(b, nil)
	p := policy(b, egress.Grants{HTTP: []egress.Rule{{Host: "api.example.com"}}})
	req := &egress.Request{Policy: p, URL: "https://other.example.com/"}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Fetch(b.Context(), req); err == nil {
			b.Fatal("it was allowed")
		}
	}
}
