// Package toolfault words the failure of a tool for a model: one line, without paths,
// addresses or stacks. The whole error stays on the host's side.
package toolfault

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/redact"
	"github.com/agenthost/agenthost/host/llm"
)

// Sentence returns the text of a failure for a model. run names the run in the text of an
// error that clients do not read.
func Sentence(err error, run string) string {
	var own *fault.Error
	switch {
	case isA[*fs.PathError](err), isA[*os.LinkError](err), isA[*os.SyscallError](err), isA[*exec.Error](err):
		return "The tool could not use a file it needs."
	case isA[*net.OpError](err), isA[*net.DNSError](err), isA[*url.Error](err):
		return "The tool could not reach a server it needs."
	case errors.As(err, &own):
		if own.Withheld() { // an agent that is the tool: its model's server, its history
			return words(fault.ForClient(own, run).Message)
		}
		return words(own.Message)
	case errors.Is(err, context.Canceled):
		return "The tool was stopped."
	case errors.Is(err, context.DeadlineExceeded):
		return "The tool took too long."
	}
	return words(err.Error())
}

// Unknown returns the error of a call of a tool that is not among tools.
func Unknown(name string, tools []llm.ToolSpec) error {
	there := "there are none"
	if len(tools) > 0 {
		names := make([]string, len(tools))
		for i, t := range tools {
			names[i] = t.Name
		}
		there = "the tools are: " + strings.Join(names, ", ")
	}
	return fault.Errorf(fault.NotFound, "There is no tool %q; %s.", name, there)
}

func isA[E error](err error) bool {
	var e E
	return errors.As(err, &e)
}

// words returns the line of a text that a model may read, or general words if no part
// remains.
func words(text string) string {
	if line := redact.Line(text); line != "" {
		return line
	}
	return "The tool failed."
}
