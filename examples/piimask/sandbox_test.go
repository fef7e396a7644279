package main

// Scenario: the built module masks card numbers inside the sandbox.

import (
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/internal/testcode"
)

// The built module does in the sandbox what the function does outside.
func TestSandbox(t *testing.T) {
	rt, err := plugin.NewRuntime(t.Context(), &plugin.Options{CacheDir: testcode.Dir()})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close(t.Context())
	p, err := rt.LoadFile(t.Context(), "piimask", "piimask.wasm", nil)
	if err != nil {
		t.Fatal(err)
	}
	processor, err := p.Processor("piimask", nil)
	if err != nil {
		t.Fatal(err)
	}
	view := llm.NewView([]*host.Message{
		host.UserText("hello"), host.UserText("my card is 4111 1111 1111 1111"),
	}, "gpt-4o", nil)
	got, done, err := llm.Process(t.Context(), processor, view)
	if err != nil {
		t.Fatal(err)
	}
	if want := "my card is •••• 1111"; got[1].Text() != want {
		t.Errorf("the model reads %q, want %q", got[1].Text(), want)
	}
	if got[0] != view.Messages[0] || len(done.Edits) != 1 {
		t.Errorf("%d edits, want one; the message without a card must be the very same", len(done.Edits))
	}
}
