package modelhttp

import (
	"encoding/json"
	"fmt"
)

// maxRawBytes bounds the bytes that rawEvents keep.
const maxRawBytes = 1 << 20

// rawEvents keeps the bytes of a server's answer, if keep is set: a JSON array of its
// events, cut at 1 MiB, in which case the last element is {"left_out_bytes":
// n}.
type rawEvents struct {
	keep    bool
	b       []byte
	leftOut int
}

// add keeps an event, which must be JSON.
func (r *rawEvents) add(event []byte) {
	switch {
	case !r.keep:
	case len(r.b)+len(event) > maxRawBytes:
		r.leftOut += len(event)
	default:
		r.b = append(append(r.b, ','), event...)
	}
}

// json returns the array, nil if there is nothing.
func (r *rawEvents) json() json.RawMessage {
	if len(r.b) == 0 && r.leftOut == 0 {
		return nil
	}
	if r.leftOut > 0 {
		r.b = fmt.Appendf(r.b, `,{"left_out_bytes":%d}`, r.leftOut)
	}
	r.b[0] = '['
	return append(r.b, ']')
}
