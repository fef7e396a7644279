package stream

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/agenthost/agenthost/host"
)

// Frame is one message to a client.
type Frame struct {
	ID    string          // where a returning client continues; may be empty
	Event string          // its name, for protocols with a field for it; may be empty
	Data  json.RawMessage // one line of JSON
}

// Encoder makes frames of the events of one run, which it receives in order. It
// may depend on earlier events, so each run needs an Encoder of its own; it is
// not safe for concurrent use.
type Encoder interface {
	// Encode appends the frames of an event to dst: none, one or several. Code
	// internal for an event that cannot be written.
	Encode(dst []Frame, ev host.Event) ([]Frame, error)
}

// Own returns the encoder of the unchanged events: the data of a frame is the
// JSON of host.Event, its name the event's type, its id the event's number.
func Own() Encoder { return own{} }

type own struct{}

func (own) Encode(dst []Frame, ev host.Event) ([]Frame, error) {
	data, err := ev.ForClient().AppendJSON(nil)
	if err != nil {
		return dst, host.Errorf(host.Internal, "write event %d, %s: %w", ev.Seq, ev.Data.Type(), err)
	}
	return append(dst, Frame{ID: strconv.FormatInt(ev.Seq, 10), Event: ev.Data.Type(), Data: data}), nil
}

// framer is an [Encoder] that appends the frame of an event to an answer, without a [Frame] of
// its own.
type framer interface {
	appendFrame(dst []byte, ev host.Event, lines bool) ([]byte, error)
}

var _ framer = own{}

// appendFrame implements framer.
func (own) appendFrame(dst []byte, ev host.Event, lines bool) ([]byte, error) {
	before := len(dst)
	name := ev.Data.Type()
	if !lines {
		dst = strconv.AppendInt(append(dst, "id: "...), ev.Seq, 10)
		dst = append(append(append(dst, "\nevent: "...), name...), "\ndata: "...)
	}
	from := len(dst)
	dst, err := ev.ForClient().AppendJSON(dst)
	if err != nil {
		return dst[:before], host.Errorf(host.Internal, "write event %d, %s: %w", ev.Seq, name, err)
	}
	dst = withoutLineEnds(dst, from)
	if lines {
		return append(dst, '\n'), nil
	}
	return append(dst, "\n\n"...), nil
}

// AppendSSE appends a frame as a server-sent event.
func AppendSSE(dst []byte, f Frame) []byte {
	if f.ID != "" {
		dst = append(append(append(dst, "id: "...), f.ID...), '\n')
	}
	if f.Event != "" {
		dst = append(append(append(dst, "event: "...), f.Event...), '\n')
	}
	dst = append(dst, "data: "...)
	return append(appendLine(dst, f.Data), "\n\n"...)
}

// AppendNDJSON appends the data of a frame as a line.
func AppendNDJSON(dst []byte, f Frame) []byte { return append(appendLine(dst, f.Data), '\n') }

// appendLine appends JSON without its line ends.
func appendLine(dst []byte, data []byte) []byte {
	from := len(dst)
	return withoutLineEnds(append(dst, data...), from)
}

// withoutLineEnds removes line ends from the JSON at the end of dst. They mean nothing outside
// strings and are escaped in them.
func withoutLineEnds(dst []byte, from int) []byte {
	data := dst[from:]
	if bytes.IndexByte(data, '\n') < 0 && bytes.IndexByte(data, '\r') < 0 {
		return dst
	}
	kept := dst[:from]
	for _, c := range data {
		if c != '\n' && c != '\r' {
			kept = append(kept, c)
		}
	}
	return kept
}
