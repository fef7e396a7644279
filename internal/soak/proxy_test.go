package soak

import (
	"io"
	"net"
	"testing"
	"time"
)

func TestProxyForwardsAndIsSlow(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	go func() { // an echo
		for {
			c, err := server.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); _ = c.Close() }()
		}
	}()
	proxy, err := NewProxy("tcp", server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	client, err := net.Dial("tcp", proxy.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	echo := func() time.Duration {
		t.Helper()
		began := time.Now()
		if _, err := client.Write(make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(client, make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
		return time.Since(began)
	}
	echo()
	proxy.Slow(&Slowness{Rate: 10_000})
	if took := echo(); took < 20*time.Millisecond {
		t.Errorf("100 bytes took %s there and back at 10,000 a second", took)
	}
	proxy.Slow(nil)
	echo()
	proxy.Close()
	if _, err := client.Read(make([]byte, 1)); err == nil {
		t.Error("a connection is open after Close")
	}
}
