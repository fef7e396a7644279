package kv

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
)

// formatJSON is the first byte of a record that is plain JSON. Other bytes are
// for formats to come, such as compressed or encrypted records; a version that does not
// know a format returns an error instead of misreading the record.
const formatJSON = 0x01

// recordBytes is room for most records.
const recordBytes = 512

// EncodeRecord returns v as a value to store: a byte that names the format,
// then v as JSON.
func EncodeRecord(v any) ([]byte, error) {
	if n, ok := v.(uint64); ok {
		return strconv.AppendUint([]byte{formatJSON}, n, 10), nil
	}
	var b bytes.Buffer
	b.Grow(recordBytes)
	b.WriteByte(formatJSON)
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode record %T: %w", v, err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// DecodeRecord reads a value that EncodeRecord wrote into v, a pointer. A number in an
// interface becomes a json.Number, so that no digit is lost. The error is [ErrFormat]
// if the format is not known, as in a record written by a newer version, and
// [ErrCorrupt] if the rest is not JSON for v.
func DecodeRecord(value []byte, v any) error {
	if len(value) == 0 {
		return fmt.Errorf("decode record %T: %w: it is empty", v, ErrCorrupt)
	}
	if value[0] != formatJSON {
		return fmt.Errorf("decode record %T: %w: format %d; open it with the version that wrote it, or a newer one",
			v, ErrFormat, value[0])
	}
	dec := json.NewDecoder(bytes.NewReader(value[1:]))
	dec.UseNumber()
	if err := dec.Decode(v); err != nil {
		return fmt.Errorf("decode record %T: %w: %w", v, ErrCorrupt, err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return fmt.Errorf("decode record %T: %w: data after the end of the record", v, ErrCorrupt)
	}
	return nil
}
