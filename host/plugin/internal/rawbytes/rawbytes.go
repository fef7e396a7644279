// Package rawbytes carries bytes beside the JSON of a host operation, so that neither a guest
// nor the host writes them as base64. A field of bytes is then the number of them, and the
// bytes stand in a [Payload] in the order of their fields.
package rawbytes

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
)

// fields are the operations with bytes, and the names of their fields: in the response of
// kv.list, that of each entry.
var fields = map[string]struct{ request, response string }{
	"artifact.read":  {response: "data"},
	"artifact.write": {request: "data"},
	"http.fetch":     {request: "body", response: "body"},
	"kv.get":         {response: "value"},
	"kv.list":        {response: "value"},
	"kv.put":         {request: "value"},
}

// Payload is the bytes beside one operation. A nil *Payload is that of an operation whose
// bytes stand in its JSON, in base64.
type Payload struct {
	op       string
	request  []byte // beside the JSON
	response []byte
	hidden   bool // the operation runs as one without a payload
}

// New returns the payload of an operation, with the bytes that stand beside its request.
func New(op string, data []byte) *Payload { return &Payload{op: op, request: data} }

// Begin begins the operation in a context, in which [Of] finds its payload, and copies the
// bytes, which are the guest's memory until then. Code invalid_argument for bytes that no
// field of the request can take. An operation without bytes has no payload: it may run guests.
func (p *Payload) Begin(ctx context.Context) (context.Context, error) {
	if p == nil {
		return without(ctx), nil
	}
	f, has := fields[p.op]
	if f.request == "" && len(p.request) > 0 {
		return nil, host.Errorf(host.InvalidArgument, "request of %s: %d bytes stand beside it, and it has no field of bytes", p.op, len(p.request))
	}
	if !has {
		return without(ctx), nil
	}
	p.request = bytes.Clone(p.request)
	return context.WithValue(ctx, key{}, p), nil
}

type key struct{}

// without returns a context in which [Of] finds no payload: an operation may be one of a guest that
// another operation runs.
func without(ctx context.Context) context.Context {
	if Of(ctx) == nil {
		return ctx
	}
	return context.WithValue(ctx, key{}, (*Payload)(nil))
}

// Of returns the payload of the operation that runs in a context; nil if it has none.
func Of(ctx context.Context) *Payload {
	p, _ := ctx.Value(key{}).(*Payload)
	if p == nil || p.hidden {
		return nil
	}
	return p
}

// Size returns how many bytes stand beside the request.
func (p *Payload) Size() int {
	if p == nil {
		return 0
	}
	return len(p.request)
}

// Response returns the bytes that stand behind the JSON of the response.
func (p *Payload) Response() []byte {
	if p == nil {
		return nil
	}
	return p.response
}

// Field is a field of bytes in a request.
type Field struct {
	Bytes []byte // set by [Payload.Take], where they are beside the request
	count *int64
}

// UnmarshalJSON implements json.Unmarshaler: a string is base64, and a number says how many
// bytes stand beside the request.
func (f *Field) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && (raw[0] == '-' || '0' <= raw[0] && raw[0] <= '9') {
		return json.Unmarshal(raw, &f.count)
	}
	return json.Unmarshal(raw, &f.Bytes)
}

// Take gives the field of a request the bytes that it counts; f is nil where the request
// has no such field. Code invalid_argument unless these are all the bytes that there are.
func (p *Payload) Take(op string, f *Field) error {
	var data []byte
	if p != nil {
		data = p.request
	}
	switch {
	case f != nil && f.count != nil && p == nil:
		return host.Errorf(host.InvalidArgument, "request of %s: bytes are a string in base64", op).WithHint("a number of bytes goes with host_call_bytes")
	case f != nil && f.count != nil && *f.count == int64(len(data)):
		f.Bytes = data
	case f != nil && f.count != nil:
		return host.Errorf(host.InvalidArgument, "request of %s: it counts %d bytes, and %d stand beside it", op, *f.count, len(data))
	case len(data) > 0:
		return host.Errorf(host.InvalidArgument, "request of %s: %d bytes stand beside it, and no field counts them", op, len(data))
	}
	return nil
}

// Room returns how much JSON so many bytes of a response are.
func (p *Payload) Room(n int) int {
	if p == nil {
		return base64.StdEncoding.EncodedLen(n)
	}
	return 0
}

// Write writes a field of a response: as base64, or as a number with the bytes beside it.
func (p *Payload) Write(out *abi.Object, name string, v []byte) {
	if p == nil {
		out.Bytes(name, v)
		return
	}
	out.Int(name, int64(len(v)))
	p.response = append(p.response, v...)
}

// Plainly runs an operation through a function that knows no payloads: its request and its
// response have their bytes in base64. A nil payload changes nothing.
func (p *Payload) Plainly(req []byte, run func(req []byte) ([]byte, error)) ([]byte, error) {
	if p == nil {
		return run(req)
	}
	plain, err := p.plain(req)
	if err != nil {
		return nil, err
	}
	p.hidden = true
	defer func() { p.hidden = false }()
	response, err := run(plain)
	if err != nil {
		return nil, err
	}
	return p.split(response)
}
