//go:build unix

package soak

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/agenthost/agenthost/host/scriptedmodel"
)

// done is the end of an answer whose turn called no tool.
const done = "done"

// configuration is that of hosts which are built as a user of the command does.
const configuration = `version: 1
agents:
  clerk:
    instructions: Answer.
    model: server
models:
  server:
    provider: openai
    name: scripted
    base_url: %s
`

// writeProject writes a configuration into a directory, with a model that answers until
// stop. Its agent has no tools: a tool of a configuration is a plugin.
func writeProject(ctx context.Context, dir string) (stop func(), err error) {
	server, err := scriptedmodel.Start(ctx, &scriptedmodel.Options{Otherwise: func(c *scriptedmodel.Conversation) *scriptedmodel.Reply {
		turn := strings.TrimPrefix(c.LastUser(), askPrefix)
		return &scriptedmodel.Reply{Text: answerPrefix + turn + ": " + done, Delay: scriptedmodel.Duration(maxModelWait / 2)}
	}})
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf(configuration, server.BaseURL())
	if err := os.WriteFile(filepath.Join(dir, "agenthost.yaml"), []byte(text), 0o600); err != nil {
		_ = server.Close()
		return nil, err
	}
	return func() { _ = server.Close() }, nil
}
