package modelhttp

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
)

// The bounds of a read.
const (
	maxStreamBytes   = 256 << 20 // one stream: an event wraps a few bytes in a few hundred
	maxLineBytes     = 4 << 20   // one event
	maxDocumentBytes = 16 << 20  // an answer that is not streamed
	readBuffer       = 2 << 10   // an event is a few hundred bytes, and streams are many
	keptLineBytes    = 16 << 10  // of the buffer that the next stream gets
)

var (
	errNotProtocol = errors.New("not the protocol")
	dataField      = []byte("data:")
)

// TooLong is the error of an answer past a bound.
type TooLong struct{ What string }

func (e *TooLong) Error() string { return e.What }

// eventReader reads the data of a stream of server-sent events. A body that is one
// JSON document is read as if it were a stream of one event: servers that ignore
// that they should stream may still say that they do.
type eventReader struct {
	src  *bufio.Reader
	line []byte
	read int
	open bool // the first byte has been looked at
	eof  bool

	buffer *buffer // that src and line are of

	passed int    // events so far
	seen   []byte // the beginning of the line that was not understood
}

// buffers are the buffers of finished streams, for reuse.
var buffers = sync.Pool{New: func() any { return &buffer{src: bufio.NewReaderSize(nil, readBuffer)} }}

type buffer struct {
	src  *bufio.Reader
	line []byte
}

func newEventReader(src io.Reader) *eventReader {
	b := buffers.Get().(*buffer)
	b.src.Reset(src)
	return &eventReader{src: b.src, line: b.line[:0], buffer: b}
}

// close lets go of the buffers. Nothing that next returned is valid after it.
func (e *eventReader) close() {
	b := e.buffer
	if b.line = e.line; cap(b.line) > keptLineBytes {
		b.line = nil
	}
	b.src.Reset(nil)
	e.src, e.line, e.buffer = nil, nil, nil
	buffers.Put(b)
}

// next returns the data of the next event, which is valid until the call after
// it; io.EOF at the end.
func (e *eventReader) next() ([]byte, error) {
	if !e.open {
		e.open = true
		if isDocument, err := e.sniff(); err != nil || isDocument {
			return e.line, err
		}
	}
	for !e.eof {
		if err := e.readLine(); err != nil {
			return nil, err
		}
		line := bytes.TrimSpace(e.line)
		switch {
		case len(line) == 0 || line[0] == ':' || !bytes.HasPrefix(line, dataField) && isField(line):
			continue
		case bytes.HasPrefix(line, dataField):
			if data := bytes.TrimSpace(line[len(dataField):]); len(data) > 0 {
				e.passed++
				return data, nil
			}
		case e.eof && e.passed > 0:
			return nil, io.ErrUnexpectedEOF // the beginning of a line
		default:
			e.see(line)
			return nil, errNotProtocol
		}
	}
	return nil, io.EOF
}

// isField reports whether a line is one of the fields of an event stream that
// carry no answer.
func isField(line []byte) bool {
	name, _, found := bytes.Cut(line, []byte(":"))
	return found && (string(name) == "event" || string(name) == "id" || string(name) == "retry")
}

// sniff reads a body that is one JSON document.
func (e *eventReader) sniff() (isDocument bool, err error) {
	if mark, _ := e.src.Peek(len(byteOrderMark)); string(mark) == byteOrderMark {
		e.src.Discard(len(byteOrderMark))
	}
	for {
		c, err := e.src.ReadByte()
		if err != nil {
			return false, err
		}
		if c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			e.src.UnreadByte()
			if c != '{' {
				return false, nil
			}
			return true, e.readDocument()
		}
		if e.read++; e.read > maxLineBytes {
			return false, tooLong("blank", maxLineBytes)
		}
	}
}

const byteOrderMark = "\xef\xbb\xbf"

func (e *eventReader) readDocument() error {
	doc := e.line[:0]
	for !e.eof {
		if len(doc) == cap(doc) {
			doc = slices.Grow(doc, max(readBuffer, cap(doc)))
		}
		n, err := e.src.Read(doc[len(doc):cap(doc)])
		doc = doc[:len(doc)+n]
		switch {
		case len(doc) > maxDocumentBytes:
			return tooLong("document", maxDocumentBytes)
		case errors.Is(err, io.EOF):
			e.eof = true
		case err != nil:
			return err
		}
	}
	for i, c := range doc {
		if c == '\n' || c == '\r' {
			doc[i] = ' ' // raw line ends are white space in JSON, never text
		}
	}
	e.passed++
	e.line = bytes.TrimSpace(doc)
	return nil
}

// readLine reads up to the next line end.
func (e *eventReader) readLine() error {
	e.line = e.line[:0]
	for {
		part, err := e.src.ReadSlice('\n')
		e.line = append(e.room(len(part)), part...)
		e.read += len(part)
		switch {
		case len(e.line) > maxLineBytes:
			e.see(e.line)
			return tooLong("line", maxLineBytes)
		case e.read > maxStreamBytes:
			return tooLong("stream", maxStreamBytes)
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF):
			e.eof = true
			return nil
		}
		return err
	}
}

// room returns the line with capacity for n more bytes. It at least doubles the
// capacity, where append adds a quarter: a long line then takes twice its length in
// all, not five times.
func (e *eventReader) room(n int) []byte {
	if cap(e.line)-len(e.line) >= n {
		return e.line
	}
	return slices.Grow(e.line, max(n, cap(e.line)))
}

func tooLong(what string, limit int) error {
	return &TooLong{fmt.Sprintf("a %s of more than %d bytes", what, limit)}
}

func (e *eventReader) see(line []byte) {
	e.seen = slices.Clone(line[:min(len(line), maxSeen)])
	if room := maxSeen - len(e.seen); room > 0 {
		rest, _ := e.src.Peek(min(room, e.src.Buffered()))
		e.seen = append(append(e.seen, ' '), rest...)
	}
}
