package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// recorded keeps what is written through it.
type recorded struct {
	io.WriteCloser
	mu   sync.Mutex
	text bytes.Buffer
}

func (r *recorded) Write(p []byte) (int, error) {
	r.mu.Lock()
	r.text.Write(p)
	r.mu.Unlock()
	return r.WriteCloser.Write(p)
}

func TestMCPWritesNothingButMessagesToStdout(t *testing.T) {
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		stdin, toServer := io.Pipe()
		fromServer, out := io.Pipe()
		stdout := &recorded{WriteCloser: out}
		var stderr output
		ended := make(chan int)
		go func() {
			code := run(t.Context(), []string{"mcp", "builtin:orderdesk", "--tenant", "acme"}, &environment{stdin: stdin, stdout: stdout, stderr: &stderr, getenv: func(string) string { return "" }})
			_ = out.Close()
			ended <- code
		}()
		client := mcp.NewClient(&mcp.Implementation{Name: "editor"}, nil)
		s, err := client.Connect(t.Context(), &mcp.IOTransport{Reader: fromServer, Writer: toServer}, &mcp.ClientSessionOptions{ProtocolVersion: version})
		if err != nil {
			t.Fatal(err, stderr.String())
		}
		tools, err := s.ListTools(context.Background(), nil)
		if err != nil || len(tools.Tools) == 0 {
			t.Fatalf("%s: tools = %v, %v", version, tools, err)
		}
		r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tools.Tools[0].Name, Arguments: map[string]any{"message": "where is order 1042?"}})
		if err != nil || r.IsError {
			t.Errorf("%s: %s = %+v, %v", version, tools.Tools[0].Name, r, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if code := <-ended; code != 0 {
			t.Errorf("%s: exit code %d: %s", version, code, stderr.String())
		}
		for line := range strings.Lines(stdout.text.String()) {
			var message struct{ JSONRPC string }
			if err := json.Unmarshal([]byte(line), &message); err != nil || message.JSONRPC != "2.0" {
				t.Errorf("%s: stdout has %q", version, line)
			}
		}
	}
}
