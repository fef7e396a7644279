package host

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"github.com/agenthost/agenthost/host/internal/redact"
	"github.com/agenthost/agenthost/host/internal/toolfault"
)

// The text of a failed tool for the model, and the rest for the operator's log.

// maxFailureRead is how much of an error's text is looked at, and logged.
const maxFailureRead = redact.MaxRead

// logWithheld logs the parts of a failure that the model does not receive.
func (tc *toolCalls) logWithheld(ctx context.Context, tool string, err error) {
	if err == nil {
		return
	}
	text := err.Error()
	var own *Error
	if errors.As(err, &own) && own.Err != nil && !strings.Contains(text, own.Err.Error()) {
		text += ": " + own.Err.Error()
	}
	if told := toolfault.Sentence(err, tc.events.Scope.Run); told != text {
		text = strings.ToValidUTF8(text[:min(len(text), maxFailureRead)], "")
		tc.events.Log(ctx, slog.LevelWarn, "tool failed", "tool", tool, "told", told, "error", text)
	}
}
