package openaimodel

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
)

// The bounds of what is read.
const (
	maxStreamBytes   = 256 << 20 // one stream: an event wraps a few bytes in a few hundred
	maxLineBytes     = 4 << 20   // one event
	maxDocumentBytes = 16 << 20  // an answer that is not streamed
	maxErrorBytes    = 64 << 10  // the body of an error
	readBuffer       = 16 << 10
	emptyLinesLimit  = 1 << 20 // go-openai's count; none reach it
)

var (
	errNotProtocol = errors.New("not the protocol")
	dataField      = []byte("data:")
	errorObject    = []byte(`{"error":`)
	doneMark       = []byte("[DONE]")
)

// events turns a response body into the lines that go-openai's stream reader
// understands, "data: {...}" and "data: [DONE]", and nothing else. That reader
// by itself reads lines of any length, takes a body that is not a stream for
// the end of one, loses errors that follow a comment, and ends alike with and
// without [DONE].
type events struct {
	src  *bufio.Reader
	out  []byte // what the reader has not taken yet
	line []byte
	read int
	open bool // the first byte has been looked at
	done bool // [DONE] came
	eof  bool

	passed int    // events so far
	seen   []byte // the beginning of what was not understood
}

func newEvents(src io.Reader) *events {
	return &events{src: bufio.NewReaderSize(src, readBuffer)}
}

// Read implements io.Reader.
func (e *events) Read(p []byte) (int, error) {
	for len(e.out) == 0 {
		if err := e.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, e.out)
	e.out = e.out[n:]
	return n, nil
}

// next finds the next event.
func (e *events) next() error {
	if !e.open {
		e.open = true
		if isDocument, err := e.sniff(); err != nil || isDocument {
			return err
		}
	}
	if e.eof {
		return io.EOF
	}
	if err := e.readLine(); err != nil {
		return err
	}
	line := bytes.TrimSpace(e.line)
	switch {
	case len(line) == 0 || line[0] == ':':
		return nil
	case bytes.HasPrefix(line, dataField):
		e.pass(bytes.TrimSpace(line[len(dataField):]))
		return nil
	case isField(line):
		return nil
	case e.eof && e.passed > 0:
		return io.ErrUnexpectedEOF // the beginning of a line
	}
	e.see(line)
	return errNotProtocol
}

func (e *events) pass(payload []byte) {
	if len(payload) == 0 {
		return
	}
	e.passed++
	e.done = bytes.Equal(payload, doneMark)
	e.out = append(e.out[:0], dataField...)
	// The blank keeps go-openai from swallowing an error: it looks for the very
	// bytes {"error": and then waits for another line.
	if bytes.HasPrefix(payload, errorObject) {
		e.out, payload = append(e.out, "{ "...), payload[1:]
	}
	e.out = append(append(e.out, payload...), '\n')
}

// isField reports whether a line is one of the fields of an event stream that
// carry no answer.
func isField(line []byte) bool {
	name, _, found := bytes.Cut(line, []byte(":"))
	return found && (string(name) == "event" || string(name) == "id" || string(name) == "retry")
}

// sniff reads a body that is one JSON document as if it were a stream of one
// event. Servers that ignore stream may still say that it is one.
func (e *events) sniff() (isDocument bool, err error) {
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

func (e *events) readDocument() error {
	doc, err := io.ReadAll(io.LimitReader(e.src, maxDocumentBytes+1))
	switch {
	case err != nil:
		return err
	case len(doc) > maxDocumentBytes:
		return tooLong("document", maxDocumentBytes)
	}
	for i, c := range doc {
		if c == '\n' || c == '\r' {
			doc[i] = ' ' // raw line ends are white space in JSON, never text
		}
	}
	e.eof = true
	e.pass(bytes.TrimSpace(doc))
	return nil
}

// readLine reads up to the next line end.
func (e *events) readLine() error {
	e.line = e.line[:0]
	for {
		part, err := e.src.ReadSlice('\n')
		e.line = append(e.line, part...)
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

func tooLong(what string, limit int) error {
	return &errTooLong{fmt.Sprintf("a %s of more than %d bytes", what, limit)}
}

// maxSeen bounds what an error shows of a body.
const maxSeen = 200

func (e *events) see(line []byte) {
	e.seen = slices.Clone(line[:min(len(line), maxSeen)])
	if room := maxSeen - len(e.seen); room > 0 {
		rest, _ := e.src.Peek(min(room, e.src.Buffered()))
		e.seen = append(append(e.seen, ' '), rest...)
	}
}
