package files

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/host/datadir"
	"github.com/agenthost/agenthost/host/plugin"
)

// JSONValue reads JSON from a flag, @FILE or - for stdin.
func JSONValue(stdin io.Reader, command, flag, from string) (b []byte, err error) {
	if b, err = Value(stdin, flag, from); err != nil {
		return nil, err
	}
	if b = bytes.TrimSpace(b); json.Valid(b) {
		return b, nil
	}
	return nil, cli.UsageError(fmt.Errorf("%s is not JSON: %w", flag, jsonError(b)), command)
}

// Value reads the text of a flag, of @FILE, or of stdin for "-".
func Value(stdin io.Reader, flag, from string) (b []byte, err error) {
	const max = plugin.DefaultInputBytes
	name, isFile := strings.CutPrefix(from, "@")
	switch {
	case isFile:
		b, err = datadir.ReadFile(name, max)
	case from == "-":
		b, err = datadir.ReadBounded(stdin, max, flag)
	default:
		b = []byte(from)
	}
	return b, err
}

// jsonError returns the error of a text that is not JSON, with its position.
func jsonError(b []byte) error {
	var v any
	err := json.Unmarshal(b, &v)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("%w (at byte %d)", err, syntax.Offset)
	}
	return err
}

// Member returns a member of a JSON object, nil if it is absent.
func Member(object []byte, name string) json.RawMessage {
	var m map[string]json.RawMessage
	if json.Unmarshal(object, &m) != nil {
		return nil
	}
	return m[name]
}
