package pdk

import (
	"strconv"
	"unicode/utf8"
)

// A Writer writes one JSON value, piece by piece, and puts the commas itself.
// The zero value is ready; methods return the writer so that calls chain:
//
//	var w pdk.Writer
//	w.BeginObject().Key("city").Str("Paris").Key("degrees").Int(21).EndObject()
//
// It does not check that keys and values alternate or that what was begun was
// ended; the host refuses output that is not JSON.
type Writer struct {
	buf []byte
}

// BeginObject writes {.
func (w *Writer) BeginObject() *Writer { return w.open('{') }

// EndObject writes }.
func (w *Writer) EndObject() *Writer { return w.close('}') }

// BeginArray writes [.
func (w *Writer) BeginArray() *Writer { return w.open('[') }

// EndArray writes ].
func (w *Writer) EndArray() *Writer { return w.close(']') }

// Key writes the name of an object's next member.
func (w *Writer) Key(name string) *Writer {
	w.comma()
	w.buf = append(appendString(w.buf, name), ':')
	return w
}

// Str writes a string. Bytes that are not UTF-8 become U+FFFD.
func (w *Writer) Str(value string) *Writer {
	w.comma()
	w.buf = appendString(w.buf, value)
	return w
}

// Int writes an integer.
func (w *Writer) Int(value int64) *Writer {
	w.comma()
	w.buf = strconv.AppendInt(w.buf, value, 10)
	return w
}

// Float writes a number; NaN and the infinities, which JSON does not have,
// become null.
func (w *Writer) Float(value float64) *Writer {
	if value-value != 0 {
		return w.Null()
	}
	w.comma()
	w.buf = strconv.AppendFloat(w.buf, value, 'g', -1, 64)
	return w
}

// Bool writes true or false.
func (w *Writer) Bool(value bool) *Writer {
	w.comma()
	w.buf = strconv.AppendBool(w.buf, value)
	return w
}

// Null writes null.
func (w *Writer) Null() *Writer { return w.Raw("null") }

// Raw writes a value that is JSON already; the empty Raw becomes null.
func (w *Writer) Raw(value Raw) *Writer {
	if value == "" {
		value = "null"
	}
	w.comma()
	w.buf = append(w.buf, value...)
	return w
}

// Value returns a copy of what was written.
func (w *Writer) Value() Raw { return Raw(w.buf) }

// Reset empties the writer and keeps its memory.
func (w *Writer) Reset() { w.buf = w.buf[:0] }

func (w *Writer) open(bracket byte) *Writer {
	w.comma()
	w.buf = append(w.buf, bracket)
	return w
}

func (w *Writer) close(bracket byte) *Writer {
	w.buf = append(w.buf, bracket)
	return w
}

// comma writes a comma unless the next piece is the first of its kind, which the
// last byte tells: no JSON value ends with any of these four.
func (w *Writer) comma() {
	if len(w.buf) == 0 {
		return
	}
	switch w.buf[len(w.buf)-1] {
	case '{', '[', ':', ',':
	default:
		w.buf = append(w.buf, ',')
	}
}

const hexDigits = "0123456789abcdef"

// appendString appends text as a JSON string with no more escapes than needed.
func appendString(out []byte, text string) []byte {
	out = append(out, '"')
	start := 0
	for i := 0; i < len(text); {
		b := text[i]
		if b >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(text[i:])
			if r == utf8.RuneError && size == 1 {
				out = append(out, text[start:i]...)
				out = append(out, "\uFFFD"...)
				start = i + size
			}
			i += size
			continue
		}
		if b >= ' ' && b != '"' && b != '\\' {
			i++
			continue
		}
		out = append(out, text[start:i]...)
		out = appendEscape(out, b)
		i++
		start = i
	}
	out = append(out, text[start:]...)
	return append(out, '"')
}

func appendEscape(out []byte, b byte) []byte {
	switch b {
	case '"', '\\':
		return append(out, '\\', b)
	case '\n':
		return append(out, '\\', 'n')
	case '\r':
		return append(out, '\\', 'r')
	case '\t':
		return append(out, '\\', 't')
	}
	return append(out, '\\', 'u', '0', '0', hexDigits[b>>4], hexDigits[b&15])
}
