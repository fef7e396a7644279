package toolschema

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// Decode reads a JSON value with its numbers as they are written; nothing is an object
// without members.
func Decode(raw json.RawMessage) (any, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return map[string]any{}, nil
	}
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more after the end")
	}
	return v, nil
}
