package ui

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/datadir"
)

func TestAReadThatNobodyAnswersEndsWithTheContext(t *testing.T) {
	never, writer := io.Pipe()
	defer writer.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := datadir.ReadBounded(Interruptible(ctx, never), 100, "stdin")
	if host.CodeOf(err) != host.Canceled {
		t.Errorf("readAll = %v, want code canceled", err)
	}
}

func TestInterruptibleReadsEverything(t *testing.T) {
	b, err := datadir.ReadBounded(Interruptible(t.Context(), strings.NewReader("all of it")), 100, "stdin")
	if err != nil || string(b) != "all of it" {
		t.Errorf("readAll = %q, %v", b, err)
	}
}
