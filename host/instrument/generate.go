package instrument

import (
	"context"
	"errors"
	"iter"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/llm"
)

// errLeft is of a call whose caller left the loop before the answer was complete.
var errLeft = errors.New("the caller stopped reading the answer")

// Generate asks a model as its method Generate does, around which the instrument of ctx is
// called.
func Generate(ctx context.Context, m llm.Model, req *llm.Request, purpose Purpose) iter.Seq2[llm.Chunk, error] {
	g := FromContext(ctx)
	if g == nil {
		return m.Generate(ctx, req)
	}
	return func(yield func(llm.Chunk, error) bool) {
		op := NewModel(m, req, purpose)
		ctx := g.Start(ctx, op)
		err := error(fault.Errorf(fault.Internal, "model %q panicked", m.Name()))
		defer func() { op.End(err) }()
		for chunk, failure := range m.Generate(ctx, req) {
			if failure != nil {
				err = failure
				yield(chunk, failure)
				return
			}
			op.Note(&chunk)
			if !yield(chunk, nil) {
				err = nil
				if op.Response == nil {
					err = fault.Errorf(fault.Canceled, "%w", errLeft)
				}
				return
			}
		}
		err = nil
		if op.Response == nil {
			err = fault.Errorf(fault.Unavailable, "model %q ended without an answer", m.Name())
		}
	}
}
