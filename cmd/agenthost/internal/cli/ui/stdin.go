package ui

import (
	"context"
	"io"

	"github.com/agenthost/agenthost/host"
)

type interruptible struct {
	ctx context.Context // the lifetime of the reader
	r   io.Reader
}

// Interruptible returns a reader of r that ends with ctx. A read from a terminal or a
// silent pipe cannot be stopped, only abandoned. The error has code canceled.
func Interruptible(ctx context.Context, r io.Reader) io.Reader { return interruptible{ctx, r} }

func (i interruptible) Read(b []byte) (int, error) {
	type result struct {
		b   []byte
		err error
	}
	done := make(chan result, 1)
	go func() {
		own := make([]byte, len(b)) // the caller owns b again when this read is abandoned
		n, err := i.r.Read(own)
		done <- result{own[:n], err}
	}()
	select {
	case r := <-done:
		return copy(b, r.b), r.err
	case <-i.ctx.Done():
		return 0, host.Errorf(host.Canceled, "interrupted")
	}
}
