package main

import (
	"context"
	"encoding/json"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/control"
	"github.com/agenthost/agenthost/host"
)

// handler decodes the arguments of a request for fn.
func handler[A, R any](fn func(context.Context, A) (R, error)) control.Handler {
	return func(ctx context.Context, raw json.RawMessage) (any, error) {
		var args A
		if len(raw) > 0 {
			if err := json.Unmarshal(raw, &args); err != nil {
				return nil, host.Errorf(host.InvalidArgument, "read the request: %w", err)
			}
		}
		return fn(ctx, args)
	}
}
