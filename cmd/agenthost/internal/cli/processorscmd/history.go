package processorscmd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/files"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/datadir"
)

// maxHistoryBytes bounds a history that is read from a file.
const maxHistoryBytes = 64 << 20

// readHistory reads messages from a file, or stdin for "-".
func readHistory(stdin io.Reader, name string) (messages []*host.Message, err error) {
	var b []byte
	if name == "-" {
		name = "the history on stdin"
		b, err = datadir.ReadBounded(stdin, maxHistoryBytes, name)
	} else {
		b, err = datadir.ReadFile(name, maxHistoryBytes)
	}
	if err != nil {
		return nil, err
	}
	if messages, err = parseHistory(bytes.TrimSpace(b)); err != nil {
		return nil, host.Errorf(host.InvalidArgument, "%s: %w", name, err).
			WithHint("a history is a JSON array of messages, a message a line, or what agenthost thread export writes")
	}
	if i := slices.IndexFunc(messages, hasContent); i >= 0 {
		return nil, host.Errorf(host.InvalidArgument, "%s: message %d has content where parts are due", name, i).
			WithHint("it looks like a chat API's; export the thread without --format, or write parts as in pdk/ABI.md")
	}
	for i, m := range messages {
		if m.ID == "" { // the host identifies messages by their ids
			m.ID = fmt.Sprintf("message-%d", i)
		}
	}
	return messages, nil
}

// hasContent recognises a message in the form of a chat API.
func hasContent(m *host.Message) bool {
	return len(m.Parts) == 0 && slices.ContainsFunc(m.Extra, func(e chat.Member) bool { return e.Name == "content" || e.Name == "tool_calls" })
}

func parseHistory(b []byte) ([]*host.Message, error) {
	switch {
	case len(b) == 0:
		return nil, fmt.Errorf("there is nothing in it")
	case b[0] == '[':
		return chat.DecodeMessages(b)
	}
	if list := files.Member(b, "messages"); list != nil {
		return chat.DecodeMessages(list)
	}
	var messages []*host.Message
	n := 0
	for line := range bytes.Lines(b) {
		n++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		m := &host.Message{}
		if err := json.Unmarshal(line, m); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		messages = append(messages, m)
	}
	return messages, nil
}
