package statedoc

import (
	"bytes"
	"encoding/json"
	"reflect"
	"sync"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

// Update reads the document as a T, has fn change it and writes the changes back;
// no other change comes between. Members that T does not know stay unchanged,
// except in an array that fn changes: an array with such members is written whole.
// If fn fails nothing changes. fn must not use the document.
func Update[T any](v *View, fn func(*T) error) error {
	return v.change(func() error { return update(v, fn) })
}

func update[T any](v *View, fn func(*T) error) error {
	raw := v.json()
	value := new(T)
	if err := json.Unmarshal(raw, value); err != nil {
		return fault.Errorf(fault.InvalidArgument, "read state as %s: %w", reflect.TypeFor[T](), err)
	}
	written := updateBuffers.Get().(*buffers)
	defer written.put()
	before, err := jsondoc.MarshalInto(&written.before, value)
	if err != nil {
		return fault.Errorf(fault.InvalidArgument, "write state: %w", err)
	}
	if err := fn(value); err != nil {
		return err
	}
	after, err := jsondoc.MarshalInto(&written.after, value)
	if err != nil {
		return fault.Errorf(fault.InvalidArgument, "write state: %w", err)
	}
	ops, err := jsondoc.DiffTyped(v.doc, before, after)
	if err != nil || len(ops) == 0 {
		return err
	}
	return v.patch(ops)
}

// buffers hold a Go value's JSON before and after an update. The operations of the
// update share no memory with them.
type buffers struct{ before, after bytes.Buffer }

// updateBuffers keeps the buffers of finished updates for others.
var updateBuffers = sync.Pool{New: func() any { return new(buffers) }}

// keptUpdateBytes bounds each buffer that updateBuffers keeps.
const keptUpdateBytes = 1 << 20

func (b *buffers) put() {
	if b.before.Cap() <= keptUpdateBytes && b.after.Cap() <= keptUpdateBytes {
		updateBuffers.Put(b)
	}
}
