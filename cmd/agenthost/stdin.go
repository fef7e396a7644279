package main

import (
	"context"
	"io"

	"github.com/agenthost/agenthost/host"
)

// interruptible is a reader that ends with ctx: a read from a terminal or a pipe
// that nobody writes to cannot be stopped, only left behind.
type interruptible struct {
	ctx context.Context
	r   io.Reader
}

func (i interruptible) Read(b []byte) (int, error) {
	type result struct {
		b   []byte
		err error
	}
	done := make(chan result, 1)
	go func() {
		own := make([]byte, len(b)) // b is the caller's again when this is left behind
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
