package llm

import (
	"context"
	"math"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
)

// The bounds of an [EmbedRequest] and its answer.
const (
	MaxEmbedTexts = 64      // in one request
	MaxEmbedBytes = 1 << 20 // of all of its texts
	MaxDimensions = 4096    // of a vector
)

// Embedder turns texts into vectors, so that texts of like meaning have vectors of like
// direction. Implementations are safe for concurrent use.
type Embedder interface {
	// Name returns the name of the model as its provider knows it. Vectors of embedders
	// of two names cannot be compared.
	Name() string

	// Embed returns a vector for each text of a request. The codes of its errors are
	// those of [Model]. The request must not be changed or kept.
	Embed(ctx context.Context, req *EmbedRequest) (*Embeddings, error)
}

// CallerError is the error of a call that says nothing of the service which it was to go to:
// the caller's own limit refused the call, or let it wait until its time was over. Its code is
// that of Err. Other callers may call the service all the same.
type CallerError struct{ Err error }

// Error returns the text of the error.
func (e *CallerError) Error() string { return e.Err.Error() }

// Unwrap returns the error without the mark.
func (e *CallerError) Unwrap() error { return e.Err }

// EmbedRequest is texts to be turned into vectors: see [EmbedRequest.Check].
type EmbedRequest struct {
	Texts []string
	Query bool  // the texts look for others; some models embed them in another way
	Scope Scope // who is asking, for budgets and logs; never sent
}

// Check returns an error of code invalid_argument for a request without texts, with an empty
// one, or past the bounds.
func (r *EmbedRequest) Check() error {
	n := 0
	for i, text := range r.Texts {
		if text == "" {
			return fault.Errorf(fault.InvalidArgument, "text %d to be embedded is empty", i)
		}
		n += len(text)
	}
	if len(r.Texts) == 0 || len(r.Texts) > MaxEmbedTexts || n > MaxEmbedBytes {
		return fault.Errorf(fault.InvalidArgument, "%d texts of %d bytes are to be embedded; a request has 1 to %d, of %d bytes together", len(r.Texts), n, MaxEmbedTexts, MaxEmbedBytes)
	}
	return nil
}

// EstimateTokens returns about how many tokens the texts have, for an embedder that does not
// report them, and from above for a reservation.
func (r *EmbedRequest) EstimateTokens() int {
	n := 0
	for _, text := range r.Texts {
		n += len(text)/leastBytesPerToken + 1
	}
	return n
}

// Embeddings are the vectors of an [EmbedRequest].
type Embeddings struct {
	Model   string      // that answered
	Vectors [][]float32 // of the texts, in their order; all of one length
	Usage   chat.Usage
}

// Check returns an error of code unavailable, for embeddings that came from a service, if
// they are not those of a request: not one vector for each text, of different lengths or of
// more than [MaxDimensions], or with a number that is none. Usage is estimated where it is
// missing.
func (e *Embeddings) Check(req *EmbedRequest) error {
	refuse := func(format string, args ...any) error {
		return fault.Errorf(fault.Unavailable, "the embeddings of model %q: "+format, append([]any{e.Model}, args...)...).
			WithHint("is it a model of embeddings?")
	}
	if len(e.Vectors) != len(req.Texts) {
		return refuse("%d vectors for %d texts", len(e.Vectors), len(req.Texts))
	}
	dimensions := len(e.Vectors[0])
	if dimensions == 0 || dimensions > MaxDimensions {
		return refuse("a vector of %d dimensions, not 1 to %d", dimensions, MaxDimensions)
	}
	for _, v := range e.Vectors {
		if len(v) != dimensions {
			return refuse("vectors of %d and %d dimensions", dimensions, len(v))
		}
		for _, x := range v {
			if f := float64(x); math.IsNaN(f) || math.IsInf(f, 0) {
				return refuse("a number that is none")
			}
		}
	}
	if e.Usage.InputTokens == 0 {
		e.Usage = chat.Usage{InputTokens: req.EstimateTokens(), Estimated: true}
	}
	return nil
}
