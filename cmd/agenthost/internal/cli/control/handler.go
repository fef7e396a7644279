package control

import (
	"context"
	"encoding/json"

	"github.com/agenthost/agenthost/host"
)

// Handle returns the handler that decodes the arguments of a request for fn. Code
// invalid_argument if they do not fit.
func Handle[A, R any](fn func(context.Context, A) (R, error)) Handler {
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
