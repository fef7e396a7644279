package modelhttp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/agenthost/agenthost/host/llm"
)

// AskDocument posts a body as JSON to a path below the base URL, and returns the JSON document
// that the server answers with. Retries, bounds and the codes of its errors are those of
// [Server.Ask].
func (s *Server) AskDocument(ctx context.Context, path string, body []byte, headers http.Header) (document []byte, err error) {
	s.Ask(ctx, func(_ llm.Chunk, e error) bool {
		err = e // chunks are those of retries
		return true
	}, func(c *Call, x *Exchange) *Fault {
		x.ExpectWhole()
		if err := x.post(path, Body{body}, headers); err != nil {
			return x.faultOf(err)
		}
		event, err := x.events.next()
		switch {
		case errors.Is(err, io.EOF):
			return x.ended()
		case err != nil:
			return x.faultOf(err)
		}
		document = bytes.Clone(event)
		return nil
	})
	return document, err
}

// Decode reads a document that the server has answered with.
func (s *Server) Decode(document []byte, into any) error {
	if err := json.Unmarshal(document, into); err != nil {
		return s.Refused("answers something that is not %s: %q", s.protocol.Answer, s.snippet(document)).Err
	}
	return nil
}

// DecodeList reads an array of a document that the server has answered with, of at most
// limit elements: one of two bytes may take a hundred when it is read.
func (s *Server) DecodeList(array json.RawMessage, limit int, into any) error {
	if err := CheckLength(array, limit, "elements in a list"); err != nil {
		return s.Refused("sent %v", err).Err
	}
	return s.Decode(array, into)
}
