package ui

import (
	"errors"
	"fmt"
	"testing"

	"github.com/agenthost/agenthost/host"
)

func TestSentencePutsTheHintOnALineOfItsOwn(t *testing.T) {
	inner := host.Errorf(host.Unavailable, "connection refused").WithHint("is it running?")
	for err, want := range map[error]string{
		inner: "connection refused\n  → is it running?",
		host.Errorf(host.Unavailable, "agent %q: %w", "a", inner): "agent \"a\": connection refused\n  → is it running?",
		errors.Join(fmt.Errorf("run: %w", inner), nil):            "run: connection refused\n  → is it running?",
		fmt.Errorf("%w (4 attempts)", inner):                      "connection refused; is it running? (4 attempts)",
		errors.New("plain"):                                       "plain",
	} {
		if got := ErrorText(err); got != want {
			t.Errorf("sentence(%v) = %q, want %q", err, got, want)
		}
	}
}
