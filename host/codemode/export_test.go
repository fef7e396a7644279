package codemode

import (
	"context"
	"time"

	"github.com/agenthost/agenthost/host/plugin"
)

// TimeOperations has each host operation of the mode's code tell how long it took.
func (m *Mode) TimeOperations(tell func(time.Duration)) {
	m.operate = func(ctx context.Context, op string, request []byte, next plugin.Operation) ([]byte, error) {
		began := time.Now()
		defer func() { tell(time.Since(began)) }()
		return next(ctx, op, request)
	}
}
