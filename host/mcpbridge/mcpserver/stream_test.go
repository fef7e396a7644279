package mcpserver_test

import (
	"context"
	"io"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agenthost/agenthost/host/mcpbridge/mcpserver"
)

func TestAClientOverAPipeCallsTools(t *testing.T) {
	b := newBench(t, nil)
	for _, version := range versions {
		fromClient, toServer := io.Pipe()
		fromServer, toClient := io.Pipe()
		ended := make(chan error)
		go func() {
			ended <- b.ServeStream(t.Context(), fromClient, toClient, mcpserver.Caller{Tenant: "acme", MayRun: true, MayRead: true})
		}()
		client := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil)
		s, err := client.Connect(t.Context(), &mcp.IOTransport{Reader: fromServer, Writer: toServer}, &mcp.ClientSessionOptions{ProtocolVersion: version})
		must(t, err)
		if got := text(call(t, s, "clerk-of-acme", map[string]any{"message": "hi"})); got != "clerk-of-acme heard: hi" {
			t.Errorf("%s: clerk = %q", version, got)
		}
		must(t, s.Close())
		if err := <-ended; err != nil {
			t.Errorf("%s: ServeStream = %v after the client has left", version, err)
		}
	}
}

func TestAPipeEndsWithItsContext(t *testing.T) {
	b := newBench(t, nil)
	in, _ := io.Pipe()
	_, out := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- b.ServeStream(ctx, in, out, mcpserver.Caller{Tenant: "acme"}) }()
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("ServeStream = %v", err)
	}
}
