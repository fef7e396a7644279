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
// It does not check that keys and values alternate or that every object and array
// was ended; the host refuses output that is not JSON.
type Writer struct {
	buf []byte
}

// BeginObject writes {.
func (w *Writer) BeginObject() *Writer { return w.value("{") }

// EndObject writes }.
func (w *Writer) EndObject() *Writer { return w.lit("}") }

// BeginArray writes [.
func (w *Writer) BeginArray() *Writer { return w.value("[") }

// EndArray writes ].
func (w *Writer) EndArray() *Writer { return w.lit("]") }

// Key writes the name of an object's next member.
func (w *Writer) Key(name string) *Writer { return w.Str(name).lit(":") }

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
	return w.value(strconv.FormatFloat(value, 'g', -1, 64))
}

// Bool writes true or false.
func (w *Writer) Bool(value bool) *Writer {
	if value {
		return w.value("true")
	}
	return w.value("false")
}

// Null writes null.
func (w *Writer) Null() *Writer { return w.value("null") }

// Raw writes a value that is JSON already; the empty Raw becomes null.
func (w *Writer) Raw(value Raw) *Writer {
	if value == "" {
		value = "null"
	}
	return w.value(string(value))
}

// Value returns a copy of the written value.
func (w *Writer) Value() Raw { return Raw(w.buf) }

// Reset empties the writer and keeps its memory.
func (w *Writer) Reset() { w.buf = w.buf[:0] }

// value writes text that is a value, or opens one.
func (w *Writer) value(text string) *Writer {
	w.comma()
	return w.lit(text)
}

// lit writes text unchanged. Neither lit nor its frequent callers are inlined:
// inlined appends make wasm modules large.
//
//go:noinline
func (w *Writer) lit(text string) *Writer {
	w.buf = append(w.buf, text...)
	return w
}

// key writes a name that needs no escapes, as those of the contract.
//
//go:noinline
func (w *Writer) key(name string) *Writer {
	w.comma()
	w.buf = append(append(append(w.buf, '"'), name...), '"', ':')
	return w
}

// comma writes a comma unless the next piece is the first of its kind, which the
// last byte tells: no JSON value ends with any of these four.
//
//go:noinline
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
	out = append(grown(out, len(text)), '"')
	for start := 0; ; {
		end, ascii := plainRun(text, start)
		if run := text[start:end]; ascii || utf8.ValidString(run) {
			out = append(out, run...)
		} else {
			out = appendUTF8(out, run)
		}
		if end == len(text) {
			return append(out, '"')
		}
		out = appendEscape(out, text[end])
		start = end + 1
	}
}

// grown returns out with room for n more bytes and a few escapes. A long text
// would otherwise be appended run by run, and leave a trail of ever larger
// buffers in a guest that has 64 MiB in all.
//
//go:noinline
func grown(out []byte, n int) []byte {
	if n += n/16 + len(`""`); cap(out)-len(out) >= n {
		return out
	}
	larger := make([]byte, len(out), max(len(out)+n, cap(out)+cap(out)/4))
	copy(larger, out)
	return larger
}

// appendUTF8 appends text with U+FFFD for each byte that is not UTF-8.
func appendUTF8(out []byte, text string) []byte {
	for _, r := range text {
		out = utf8.AppendRune(out, r)
	}
	return out
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

// member writes a member with a string value, unless that is empty.
func (w *Writer) member(name, value string) {
	if value != "" {
		w.key(name).Str(value)
	}
}

// rawMember writes a member with any value; an empty value writes nothing.
func (w *Writer) rawMember(name string, value Raw) {
	if value != "" {
		w.key(name).Raw(value)
	}
}

// flag writes a member with the value true, unless it is false.
func (w *Writer) flag(name string, value bool) {
	if value {
		w.key(name).Bool(true)
	}
}

// strings writes a member that is an array of strings.
func (w *Writer) strings(name string, values []string) {
	w.key(name).BeginArray()
	for _, value := range values {
		w.Str(value)
	}
	w.EndArray()
}

// elements writes a member that is an array of the elements already written to
// another writer; an empty array writes nothing.
func (w *Writer) elements(name string, list *Writer) {
	if len(list.buf) > 0 {
		w.key(name).BeginArray().Raw(borrowed(list)).EndArray()
	}
}
