package modelhttp

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"unicode/utf8"

	"github.com/agenthost/agenthost/host/llm"
)

// Answer is one answer in the words of a protocol, as it grows: what its events mean. An
// [Exchange] reads them for it.
type Answer interface {
	// Add reads one event of the stream, or the document of a server that does not stream,
	// and returns its deltas, which are valid until the next call. The event is not. An
	// error is io.EOF for a mark that ends the stream and is no event, [ErrorObject] for an
	// error that the server sends in the place of an event, a [*TooLong], or any other for
	// an event that is not of the protocol.
	Add(event []byte) ([]llm.Chunk, error)

	// Complete reports whether all has been said but for the end of the stream: a
	// connection that breaks after it has cut nothing.
	Complete() bool

	// Over reports whether the server has said in the protocol's words that nothing follows.
	Over() bool

	// Response returns the whole answer, once it is complete, or the fault that it is.
	Response(s *Server) (*llm.Response, *Fault)
}

// errorObject is an error that a server sends in the place of an event.
type errorObject struct{ object json.RawMessage }

// ErrorObject is the error of [Answer].Add for an error object that the server has sent.
func ErrorObject(object json.RawMessage) error { return &errorObject{object} }

func (e *errorObject) Error() string { return string(e.object) }

// Relay posts a body as JSON to a path below the base URL, which may have a query of its
// own, with the headers that are given and the server's own, and passes the deltas of the
// answer and its response on. The pieces of the body must not be changed any more.
func (x *Exchange) Relay(c *Call, path string, body Body, headers http.Header, a Answer) *Fault {
	if err := x.post(path, body, headers); err != nil {
		return x.faultOf(err)
	}
	if err := x.read(c, a); err != nil {
		return x.faultOf(err)
	}
	switch {
	case c.Left():
		return nil
	case !a.Complete():
		return x.ended()
	}
	response, f := a.Response(x.server)
	if f != nil {
		return f
	}
	x.drain()
	response.Raw = x.raw.json()
	c.Send(llm.Chunk{Response: response})
	return nil
}

// read reads an answer up to its end, or until the caller leaves.
func (x *Exchange) read(c *Call, a Answer) error {
	for !a.Over() {
		event, err := x.events.next()
		if err == nil {
			err = x.take(c, a, event)
		}
		switch {
		case errors.Is(err, io.EOF), c.Left():
			return nil
		case err != nil && a.Complete() && !x.cancelled():
			return nil // all was said before the connection broke
		case err != nil:
			return err
		}
	}
	return nil
}

// take reads one event and passes its deltas on.
func (x *Exchange) take(c *Call, a Answer, event []byte) error {
	if !utf8.Valid(event) {
		event = validUTF8(event) // parts that keep the bytes could not be stored
	}
	deltas, err := a.Add(event)
	if err == nil || json.Valid(event) {
		x.raw.add(event)
	}
	if err != nil {
		return x.eventFault(event, err)
	}
	for _, d := range deltas {
		if !c.Send(d) {
			return nil
		}
	}
	if a.Complete() {
		x.watch.hurry(finishGrace)
	}
	return nil
}

// validUTF8 writes U+FFFD in the place of each byte that is not UTF-8, as encoding/json reads
// a string.
func validUTF8(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for _, r := range string(b) {
		out = utf8.AppendRune(out, r)
	}
	return out
}
