package modelhttp

import (
	"encoding/json"
	"fmt"
)

// maxRawBytes bounds the bytes that a Raw keeps.
const maxRawBytes = 1 << 20

// Raw keeps the bytes of a server's answer, if Keep is set: a JSON array of its
// events, cut at 1 MiB, in which case the last element is {"left_out_bytes":
// n}.
type Raw struct {
	Keep    bool
	b       []byte
	leftOut int
}

// Add keeps an event, which must be JSON.
func (r *Raw) Add(event []byte) {
	switch {
	case !r.Keep:
	case len(r.b)+len(event) > maxRawBytes:
		r.leftOut += len(event)
	default:
		r.b = append(append(r.b, ','), event...)
	}
}

// JSON returns the array, nil if there is nothing.
func (r *Raw) JSON() json.RawMessage {
	if len(r.b) == 0 && r.leftOut == 0 {
		return nil
	}
	if r.leftOut > 0 {
		r.b = fmt.Appendf(r.b, `,{"left_out_bytes":%d}`, r.leftOut)
	}
	r.b[0] = '['
	return append(r.b, ']')
}
