package abi

import (
	"encoding/base64"
	"encoding/json"
	"strconv"

	"github.com/agenthost/agenthost/host/chat"
)

// Object writes a JSON object. Names need no escaping.
type Object struct {
	B []byte // written so far; a value may be appended after Key
}

// NewObject begins an object of about so many bytes.
func NewObject(size int) *Object { return &Object{append(make([]byte, 0, size), '{')} }

// Key writes the name of the next member.
func (o *Object) Key(name string) {
	if n := len(o.B); o.B[n-1] != '{' {
		o.B = append(o.B, ',')
	}
	o.B = append(o.B, '"')
	o.B = append(o.B, name...)
	o.B = append(o.B, '"', ':')
}

// Text writes a member that is a text.
func (o *Object) Text(name, v string) {
	o.Key(name)
	o.B = chat.AppendJSONString(o.B, v)
}

// Int writes a member that is an integer.
func (o *Object) Int(name string, v int64) {
	o.Key(name)
	o.B = strconv.AppendInt(o.B, v, 10)
}

// Raw writes a member that is JSON; empty is left out.
func (o *Object) Raw(name string, v json.RawMessage) {
	if len(v) == 0 {
		return
	}
	o.Key(name)
	o.B = append(o.B, v...)
}

// Bytes writes a member that is bytes, in base64.
func (o *Object) Bytes(name string, v []byte) {
	o.Key(name)
	o.B = append(o.B, '"')
	o.B = base64.StdEncoding.AppendEncode(o.B, v)
	o.B = append(o.B, '"')
}

// End closes the object and returns it.
func (o *Object) End() []byte {
	o.B = append(o.B, '}')
	return o.B
}

// EnvelopeSize is room for the small members of an envelope.
const EnvelopeSize = 512
