package host

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/redact"
)

// The text of a failed tool for the model, and the rest for the operator's log.

// maxFailureRead is how much of an error's text is looked at, and logged.
const maxFailureRead = redact.MaxRead

// toolSentence is the text of a failure for a model: one line, without paths,
// addresses or stacks. The whole error stays on the host's side.
func toolSentence(err error, run string) string {
	var own *Error
	switch {
	case isA[*fs.PathError](err), isA[*os.LinkError](err), isA[*os.SyscallError](err), isA[*exec.Error](err):
		return "The tool could not use a file it needs."
	case isA[*net.OpError](err), isA[*net.DNSError](err), isA[*url.Error](err):
		return "The tool could not reach a server it needs."
	case errors.As(err, &own):
		if own.Withheld() { // an agent that is the tool: its model's server, its history
			return toolWords(fault.ForClient(own, run).Message)
		}
		return toolWords(own.Message)
	case errors.Is(err, context.Canceled):
		return "The tool was stopped."
	case errors.Is(err, context.DeadlineExceeded):
		return "The tool took too long."
	}
	return toolWords(err.Error())
}

func isA[E error](err error) bool {
	var e E
	return errors.As(err, &e)
}

// toolWords returns the line of a text that a model may read, or general words if
// no part remains.
func toolWords(text string) string {
	if line := redact.Line(text); line != "" {
		return line
	}
	return "The tool failed."
}

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
	if told := toolSentence(err, tc.events.scope.Run); told != text {
		text = strings.ToValidUTF8(text[:min(len(text), maxFailureRead)], "")
		tc.events.log(ctx, slog.LevelWarn, "tool failed", "tool", tool, "told", told, "error", text)
	}
}
