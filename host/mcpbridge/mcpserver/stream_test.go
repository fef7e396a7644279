package mcpserver_test

import (
	"context"
	"io"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/mcpbridge/mcpserver"
)

// connectStream connects a client over a pipe. The returned function ends the connection and
// returns the error of ServeStream.
func (b *bench) connectStream(caller mcpserver.Caller, version string) (s *mcp.ClientSession, end func() error) {
	b.t.Helper()
	fromClient, toServer := io.Pipe()
	fromServer, toClient := io.Pipe()
	ended := make(chan error)
	go func() { ended <- b.ServeStream(b.t.Context(), fromClient, toClient, caller) }()
	client := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil)
	s, err := client.Connect(b.t.Context(), &mcp.IOTransport{Reader: fromServer, Writer: toServer}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	must(b.t, err)
	return s, func() error {
		must(b.t, s.Close())
		return <-ended
	}
}

func TestAClientOverAPipeCallsTools(t *testing.T) {
	b := newBench(t, nil)
	for _, version := range versions {
		s, end := b.connectStream(mcpserver.Caller{Tenant: "acme", MayRun: true, MayRead: true}, version)
		if got := text(call(t, s, "clerk-of-acme", map[string]any{"message": "hi"})); got != "clerk-of-acme heard: hi" {
			t.Errorf("%s: clerk = %q", version, got)
		}
		if err := end(); err != nil {
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

// TestStreamsOfTheSameRightsHaveTheirOwnCallers has two clients of one tenant with the same
// rights and different keys connected at once.
func TestStreamsOfTheSameRightsHaveTheirOwnCallers(t *testing.T) {
	b := newBench(t, nil)
	b.catalog.set("acme", &mcpserver.Offers{Prompts: []mcpserver.Prompt{{Name: "who", Messages: func(_ context.Context, caller mcpserver.Caller, _ map[string]string) ([]*host.Message, error) {
		return []*host.Message{host.UserText(caller.Key)}, nil
	}}}})
	for _, version := range versions {
		sessions := map[string]*mcp.ClientSession{}
		for _, key := range []string{"first", "second"} {
			s, end := b.connectStream(mcpserver.Caller{Tenant: "acme", Key: key, MayRun: true, MayRead: true}, version)
			defer func() { must(t, end()) }()
			sessions[key] = s
		}
		for key, s := range sessions {
			r, err := s.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "who"})
			must(t, err)
			if got := r.Messages[0].Content.(*mcp.TextContent).Text; got != key {
				t.Errorf("%s: a message of the stream of %q acts for %q", version, key, got)
			}
		}
	}
}

// TestAStreamIsASessionThatKeepsItsThreads has two clients over pipes call an agent twice.
func TestAStreamIsASessionThatKeepsItsThreads(t *testing.T) {
	b := newBench(t, func(o *mcpserver.Options) { o.KeepThreads = true })
	seen := map[string]bool{}
	for _, version := range versions {
		for range 2 {
			s, end := b.connectStream(mcpserver.Caller{Tenant: "acme", MayRun: true, MayRead: true}, version)
			defer func() { must(t, end()) }()
			first := call(t, s, "clerk-of-acme", map[string]any{"message": "hi"}).Meta["agenthost/thread"].(string)
			b.Refresh(t.Context()) // forgets the threads of sessions that have ended
			if again := call(t, s, "clerk-of-acme", map[string]any{"message": "hi"}).Meta["agenthost/thread"]; again != first {
				t.Errorf("%s: the second call is in thread %q, the first in %q", version, again, first)
			}
			if seen[first] {
				t.Errorf("%s: thread %q is that of another client as well", version, first)
			}
			seen[first] = true
		}
	}
}
